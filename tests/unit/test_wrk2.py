"""What wrk2 prints: its modes, by hand from a spectrum of 9,960 short responses, 35 of a second and 5 of three."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace import readers
from tailrace.errors import InputError
from tailrace.readers import wrk2
from tailrace.units import MILLISECOND, SECOND, parse_moment

FILE = Path(__file__).parents[1] / "golden" / "readers" / "wrk2" / "latency.txt"


def test_the_modes_of_a_spectrum_and_the_long_responses() -> None:
    run = readers.read(f"web={FILE}", began=["web=2026-11-20T16:49:00Z"])
    samples = run.samples().collect()
    assert samples.select("time", "interval_ns").unique().rows() == [
        (parse_moment("2026-11-20T16:49:20Z"), 20 * SECOND)
    ]
    assert dict(samples.select("metric", "value").rows()) == {"responses": 10_000, "response_time_max_ms": 3011.903}
    said = " ".join(run.manifest.notes)
    assert "about 9,954 took 1.2 ms to 14 ms; about 41 took 1 s to 1.01 s; about 5 took 3.01 s" in said
    assert "responses of 1 s or longer: 40 to 46 of 10,000" in said
    assert "9,950 of its 19,950 requests are not in the spectrum" in said


def test_a_long_step_with_many_responses_is_no_gap() -> None:
    """The tenth that took least lies between the least and the next row."""
    counts = [(1, 1), (4, 4000), (5, 8000), (6, 16_000), (7, 30_000), (9, 39_000), (12, 40_000)]
    assert len(wrk2.modes([(value * MILLISECOND, count) for value, count in counts])) == 1


def test_a_spectrum_that_was_cut_says_nothing_of_the_longest_responses(tmp_path: Path) -> None:
    (tmp_path / "wrk2.txt").write_text("".join(FILE.read_text().splitlines(keepends=True)[:40]))
    with pytest.raises(InputError, match="cut off before the longest"):
        readers.read(tmp_path / "wrk2.txt")
