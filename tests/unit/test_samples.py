"""Samples: exact times at the right end, units from evidence, damage reported by line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from builders import samples
from tailrace.errors import InputError
from tailrace.readers import samples as reader
from tailrace.readers.source import Found, Source
from tailrace.units import SECOND

T = 1_795_193_376 * SECOND


def read(tmp_path: Path, text: str, place: str | None = None) -> Found:
    path = tmp_path / "samples.csv"
    path.write_text(text)
    source = Source(path, place)
    assert reader.sniff(path.name, source.head())
    return reader.read(source)


def times(found: Found) -> list[int]:
    return [time - T for time in found.samples[0].get_column("time").to_list()]


@pytest.mark.parametrize(
    "rows",
    [
        ["1795193376.270400001", "1795193376.320400001"],
        ["1795193376270.400001", "1795193376320.400001"],
        ["1795193376270400.001", "1795193376320400.001"],
        ["1795193376270400001", "1795193376320400001"],
        ["2026-11-20T16:49:36.270400001Z", "2026-11-20T17:49:36.320400001+01:00"],
    ],
)
def test_every_form_of_time_keeps_its_nanoseconds(tmp_path: Path, rows: list[str]) -> None:
    found = read(tmp_path, "time,place,metric,value\n" + "".join(f"{time},web,cpu_busy,0.5\n" for time in rows))
    assert times(found) == [270400001, 320400001]


def test_fields_may_have_quotes(tmp_path: Path) -> None:
    text = 'time,place,metric,value\n"1795193376.5","a ""b"", c",cpu_busy,"0.5"\n1795193376.6,"open,cpu_busy,0.5\n'
    found = read(tmp_path, text)
    assert found.samples[0].select("place", "value").rows() == [('a "b", c', 0.5)]
    assert found.lost == {"damaged lines": 1}


def test_the_unit_of_a_time_can_be_in_its_name(tmp_path: Path) -> None:
    found = read(tmp_path, "time_ms,place,metric,value,interval_ms\n1795193376001,web,cpu_busy,0.5,50\n")
    assert times(found) == [1_000_000]
    assert found.samples[0].get_column("interval_ns").to_list() == [50_000_000]


def test_an_absent_interval_is_the_step_and_not_the_hole(tmp_path: Path) -> None:
    stamps = [0.05, 0.10, 0.15, 0.40, 0.45]
    found = read(
        tmp_path, "time,place,metric,value\n" + "".join(f"{1795193376 + s:.2f},w,rss_bytes,1\n" for s in stamps)
    )
    assert found.samples[0].get_column("interval_ns").to_list() == [50_000_000] * 5


def test_a_sample_alone_has_no_known_interval(tmp_path: Path) -> None:
    found = read(tmp_path, "time,place,metric,value\n1795193376,w,rss_bytes,1\n")
    assert found.samples[0].get_column("interval_ns").to_list() == [0]
    assert any("unknown" in note for note in found.notes)


@pytest.mark.parametrize(("stamp", "shift"), [("end", 0), ("begin", 1)])
def test_samples_stamped_at_the_begin_are_moved_to_the_end(tmp_path: Path, stamp: str, shift: int) -> None:
    lengths = [50 + (i * 7) % 5 for i in range(40)]
    ends = [sum(lengths[: i + 1]) for i in range(40)]
    stamps = ends if stamp == "end" else [end - length for end, length in zip(ends, lengths, strict=True)]
    text = "time_ms,interval_ms,place,metric,value\n" + "".join(
        f"{1795193376000 + t},{length},web,cpu_busy,0.5\n" for t, length in zip(stamps, lengths, strict=True)
    )
    found = read(tmp_path, text)
    assert times(found) == [end * 1_000_000 for end in ends]
    assert sum("begin of the intervals" in note for note in found.notes) == shift


def shares(tmp_path: Path, *values: tuple[str, float]) -> tuple[pl.DataFrame, list[str]]:
    rows = "".join(f"{1795193376 + i},web,{metric},{value}\n" for i, (metric, value) in enumerate(values))
    found = read(tmp_path, "time,place,metric,value\n" + rows)
    return found.samples[0], found.notes


def test_shares_a_little_above_one_stay_shares(tmp_path: Path) -> None:
    frame, _ = shares(tmp_path, ("cpu_busy", 1.04), ("cpu_iowait", 0.3))
    assert frame.get_column("value").to_list() == [1.04, 0.3]


def test_one_clear_percentage_shows_the_unit_of_all_shares(tmp_path: Path) -> None:
    frame, notes = shares(tmp_path, ("cpu_busy", 97.0), ("iowait", 0.8), ("accept_queue", 128))
    assert frame.get_column("value").to_list() == [0.97, 0.008, 128]
    assert any("percentages" in note for note in notes)


def test_a_name_that_says_percent_is_believed(tmp_path: Path) -> None:
    frame, _ = shares(tmp_path, ("cpu_percent", 0.9), ("cpu_iowait", 0.9))
    assert frame.rows(named=True)[0]["metric"] == "cpu_busy"
    assert frame.get_column("value").to_list() == pytest.approx([0.009, 0.9])


def test_a_name_that_says_ratio_is_believed_above_one(tmp_path: Path) -> None:
    frame, _ = shares(tmp_path, ("cpu_busy_ratio", 1.7), ("cpu_iowait_ratio", 0.3))
    assert frame.get_column("metric").to_list() == ["cpu_busy", "cpu_iowait"]
    assert frame.get_column("value").to_list() == [1.7, 0.3]


def test_what_may_be_cores_or_percent_is_kept_out_of_the_diagnosis(tmp_path: Path) -> None:
    frame, notes = shares(tmp_path, ("cpu_busy", 3.2), ("run_queue", 7))
    assert frame.get_column("metric").to_list() == ["cpu_busy (unit unknown)", "run_queue"]
    assert any("neither a share" in note for note in notes)


def test_one_damaged_number_does_not_change_the_unit_of_the_others(tmp_path: Path) -> None:
    frame, notes = shares(tmp_path, ("cpu_busy", 0.5), ("cpu_busy", 5e11), ("cpu_iowait", 0.1), ("cpu_steal", -3.0))
    assert frame.get_column("value").to_list() == [0.5, 0.1]
    assert any("values larger than any share, or below 0, were left out (2)" in note for note in notes)


def test_percent_of_one_cpu_is_no_share_of_all(tmp_path: Path) -> None:
    frame, notes = shares(tmp_path, ("cpu_percent", 380.0), ("cpu_percent", 40.0), ("accept_queue", -1.0))
    assert frame.get_column("value").to_list() == [0.4, -1.0]
    assert any("is their unit CPUs?" in note for note in notes)


def test_damaged_lines_are_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    good = "1795193376.05,web,cpu_busy,0.5\n"
    bad = "17951933XX,web,cpu_busy,0.5\n1795193376.1\n"
    found = read(tmp_path, f"time,place,metric,value\n# a comment\n{good}\n{bad}{good}1,web,cpu_busy,1\n")
    assert found.lost == {"damaged lines": 3}
    assert "line 5: '17951933XX' is not a time; line 6: it does not have the columns" in found.notes[0]
    assert found.samples[0].height == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,place,metric,value\n0.05,web,cpu_busy,1\n0.10,web,cpu_busy,1\n", "a time since some start"),
        ("time,metric,value\n1795193376,cpu_busy,1\n", "it has no place"),
        ("time,place,metric,value\n1795193376,web,cpu_busy,much\n", "line 2: 'much' is not a number"),
    ],
)
def test_a_file_without_a_good_line_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, text)


def test_name_file_gives_the_place_a_file_lacks(tmp_path: Path) -> None:
    found = read(tmp_path, "time,metric,value\n1795193376,cpu_busy,1\n", place="app")
    assert found.samples[0].get_column("place").to_list() == ["app"]


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    found = read(tmp_path, "\ufefftime,place,metric,value\r\n1795193376,web,cpu_busy,1\r\n")
    assert found.samples[0].get_column("value").to_list() == [1.0]


def test_parquet_of_another_tool_is_read(tmp_path: Path) -> None:
    moments = pl.Series([T + 50_000_000, T + 100_000_000]).cast(pl.Datetime("ns"))
    table = pl.DataFrame(
        {"timestamp": moments, "host": ["web", "web"], "metric": ["iowait", "iowait"], "value": [0.1, 0.2]}
    )
    table.write_parquet(tmp_path / "x.parquet")
    found = reader.read(Source(tmp_path / "x.parquet"))
    assert times(found) == [50_000_000, 100_000_000]
    assert set(found.samples[0].get_column("metric")) == {"cpu_iowait"}


def test_samples_of_tailrace_are_read_back(tmp_path: Path) -> None:
    samples({"value": 0.25}).write_parquet(tmp_path / "samples.parquet")
    frame = reader.read(Source(tmp_path / "samples.parquet")).samples[0]
    assert frame.get_column("value").to_list() == [0.25]
    assert frame.get_column("interval_ns").to_list() == [50_000_000]


def test_a_share_just_below_zero_is_zero_and_other_metrics_may_be_negative(tmp_path: Path) -> None:
    """A program that computes shares from counters prints such a value."""
    names = ("cpu_usage_ratio", "cpu_usage_ratio", "cpu_steal_percent", "temperature")
    values = zip(names, (4.0, -0.01, -1.0, -3.0), strict=True)
    rows = [f"{T + n * SECOND},app,{name},{value}\n" for n, (name, value) in enumerate(values)]
    found = read(tmp_path, "time,place,metric,value\n" + "".join(rows))
    assert found.samples[0].get_column("value").to_list() == [4.0, 0.0, 0.0, -3.0]
