"""The trace of a slow request goes from its headers into the run, the report, and the messages of a watch."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from packets import ACK, PSH, Capture, Connection
from tailrace import readers
from tailrace.anonymise import anonymise
from tailrace.cli.commands import app
from tailrace.dataset import Dataset, create
from tailrace.dataset.traces import KIND, TRACES_MAX, traces
from tailrace.watch import listing

WEB = ("10.0.0.2", 80)
SECOND = 1_000_000_000
SLOW = {f"{number:032x}": f"{number + 1:016x}" for number in range(0xABC0, 0xABC0 + TRACES_MAX + 10)}


def exchange(capture: Capture, number: int, headers: str, took: float) -> None:
    """A request that is sent at `number` tenths of a second on its own connection."""
    ends = ("10.0.0.1", 40000 + number), WEB
    connection = Connection(capture, 0.1 * number, *ends).open()
    connection.up(PSH | ACK, f"GET /page HTTP/1.1\r\nHost: h\r\n{headers}\r\n".encode()).wait(took)
    connection.down(PSH | ACK, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").close()


def recorded(folder: Path) -> Path:
    """Slow requests with traces, and quick ones with a trace or with something else in its place."""
    capture = Capture()
    for number, (trace, span) in enumerate(SLOW.items()):
        exchange(capture, number, f"traceparent: 00-{trace}-{span}-01\r\n", 1.2)
    for number in range(1000, 3000):
        exchange(capture, number, f"traceparent: 00-{number:032x}-{1:016x}-01\r\n", 0.001)
    exchange(capture, 3000, "traceparent: 00-\x1b[2J<script>\r\nb3: ../../etc/passwd\r\n", 1.2)
    return capture.save(folder / "packets.pcap")


def test_a_trace_goes_from_the_packet_to_the_report_and_to_messages(tmp_path: Path) -> None:
    packets, out = recorded(tmp_path), tmp_path / "incident-1"
    said = CliRunner().invoke(app, ["diagnose", str(packets), "-o", str(out)])
    assert said.exit_code == 0, said.output
    run = Dataset.open(out)
    kept = run.events().filter(pl.col("kind").cast(pl.String) == KIND).collect()
    assert set(kept["detail"]) == {f"{trace}-{span}" for trace, span in SLOW.items()}
    assert ((kept["end"] - kept["begin"]) >= 1.2 * SECOND - 1000).all()
    found = listing.one(out)
    assert found.vlrt == len(SLOW) + 1
    assert len(found.traces) == TRACES_MAX
    assert set(found.traces) <= set(SLOW.items())
    page = (out / "report.html").read_text()
    assert any(f"<code>{trace}</code>" in page for trace in SLOW)


def test_an_anonymised_run_has_no_trace(tmp_path: Path) -> None:
    run = readers.read(recorded(tmp_path), out=tmp_path / "run")
    anonymise(run, tmp_path / "anonymous")
    assert traces(run, 0)
    assert traces(Dataset.open(tmp_path / "anonymous"), 0) == []


def test_details_of_strangers_are_no_ids(tmp_path: Path) -> None:
    details = ["", "x" * 60_000, f"{1:032x}", f"{0:032x}-{1:016x}", f"{7:032x}-{0:016x}", f"{7:032x}-{1:016x}", None]
    rows = [("web", KIND, 0, SECOND + place, detail) for place, detail in enumerate(details)]
    with create(tmp_path / "run") as writer:
        writer.write_table("events", pl.DataFrame(rows, ["place", "kind", "begin", "end", "detail"], orient="row"))
    [found] = traces(Dataset.open(tmp_path / "run"), SECOND)
    assert (found.trace, found.span, found.end) == (f"{7:032x}", f"{1:016x}", SECOND + 5)
    assert traces(Dataset.open(tmp_path / "run"), 2 * SECOND) == []


def test_of_more_visits_than_are_kept_the_longest_are_kept_wherever_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.dataset.traces.TRACED_MAX", 10)
    monkeypatch.setattr("tailrace.dataset.traces._AT_ONCE", 7)
    # the longest come last, and each trace has two visits
    visits = [(f"{1 + place // 2:032x}-{1:016x}", SECOND + place) for place in range(100)]
    rows = [("web", KIND, place, place + took, detail) for place, (detail, took) in enumerate(visits)]
    with create(tmp_path / "run") as writer:
        writer.write_table("events", pl.DataFrame(rows, ["place", "kind", "begin", "end", "detail"], orient="row"))
    found = traces(Dataset.open(tmp_path / "run"), SECOND)
    assert [int(one.trace, 16) for one in found] == list(range(50, 40, -1))
    assert [one.end - one.begin for one in found] == [SECOND + place for place in range(99, 79, -2)]
