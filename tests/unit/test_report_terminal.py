"""The terminal's report and the notebook's: same answer, any width, with and without colour."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import requests
from fixtures_report import BEGIN, SECOND, diagnosis, episode, quiet, recording
from tailrace import report
from tailrace.cli.screen import Screen
from tailrace.dataset import Dataset, create
from tailrace.diagnosis import diagnose
from tailrace.report.notebook import repr_html
from tailrace.report.recording import LOST, NOTE
from tailrace.report.terminal import print_terminal, spark


def printed(width: int, run: tuple[object, object] | None = None, encoding: str = "utf-8", colour: bool = False) -> str:
    raw = io.BytesIO()
    text = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    shown, answer = run or (recording(), diagnosis())
    console = Screen(file=text, width=width, force_terminal=colour, color_system="standard" if colour else None)
    print_terminal(answer, console, shown)  # type: ignore[arg-type]
    text.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_fits_the_width(width: int) -> None:
    found = printed(width)
    assert max(map(len, found.splitlines())) <= width
    assert "because web dropped their packets" in " ".join(found.split())
    assert "neighbour" in found


def test_limits_of_the_numbers_are_reported() -> None:
    assert "Lost while" not in printed(80)
    flaws = ((LOST, "7 packets"), (NOTE, "the clock was set forward by 5.000 s"), ("Maker", "tests"))
    found = printed(80, (replace(recording(), provenance=flaws), diagnosis()))
    assert "Lost while recording or reading: 7 packets\nthe clock was set forward" in found
    assert "Maker" not in found


def test_losses_are_reported_although_no_request_took_long(tmp_path: Path) -> None:
    with create(tmp_path / "run") as writer:
        writer.write_table("requests", requests({}, {}))
        writer.notes.append("the clock was set forward by 5.000 s")
    run = Dataset.open(tmp_path / "run")
    text = io.StringIO()
    report.print_terminal(diagnose(run), Screen(file=text, width=80), run)
    assert "None of the 2 requests took" in " ".join(text.getvalue().split())
    assert "the clock was set forward by 5.000 s" in text.getvalue()


def test_stays_on_one_screen() -> None:
    assert len(printed(80).splitlines()) < 50


def test_the_replay_is_reported_in_a_sentence() -> None:
    found = " ".join(printed(80).split())
    assert found.count("Ledger: Without what neighbour took of the CPU of app, 316 of 325 would not have") == 1


def test_equal_chains_are_reported_once() -> None:
    found = printed(80)
    assert found.count("Queue overflow:") == 1
    assert found.count("like episode 1") == 2


def test_many_episodes_are_counted() -> None:
    many = replace(diagnosis(), episodes=tuple(episode(BEGIN + i * SECOND, 3) for i in range(200)))
    found = printed(80, (recording(), many))
    assert "and 187 more episodes" in found
    assert len(found.splitlines()) < 60


def test_no_escape_codes_when_piped() -> None:
    assert "\x1b" not in printed(80)
    assert "\x1b" in printed(80, colour=True)


def test_plain_ascii_terminal() -> None:
    answer = replace(diagnosis(), answer=("Plain.",), unknown=(), notes=())
    found = printed(80, (recording(), answer), encoding="ascii")
    assert "1 +" in found


def test_names_cannot_send_escape_codes() -> None:
    names = {"web": "\x1b[31mred\x1b[0m", "app": "[bold]app[/bold]"}
    found = printed(100, (recording(names=names), diagnosis(names=names)))
    assert "\x1b" not in found
    assert "[bold]app[/bold]" in found


def test_without_vlrt_it_says_so_and_no_more() -> None:
    found = printed(80, quiet())
    assert "nothing to explain" in found
    for claim in ("Episode", "dropped by", "explained", "Cause"):
        assert claim not in found


def test_without_a_recording_the_chain_stands_alone() -> None:
    console = Screen(file=io.StringIO(), width=80)
    print_terminal(diagnosis(), console)
    assert "Millibottleneck" in console.file.getvalue()  # type: ignore[attr-defined]


def test_spark_shows_the_smallest_and_the_largest() -> None:
    assert spark(np.array([0, 1, 500, 1000, np.nan]), 1000) == " ▁▄█ "


def test_notebook_is_escaped_and_has_no_scripts() -> None:
    found = repr_html(diagnosis(names={"web": "<script>x</script>", "app": "a'b\"c"}))
    assert "<script" not in found
    assert "&lt;script&gt;" in found
    assert "Without what neighbour took of the CPU of a&#x27;b&quot;c" in found
    assert len(found) < 12_000


def test_notebook_without_vlrt() -> None:
    found = repr_html(quiet()[1])
    assert "nothing to explain" in found
    assert "Episode" not in found
