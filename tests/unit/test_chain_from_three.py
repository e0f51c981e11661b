"""A file of traces, a log of garbage collections and an export of sadf, of the same minutes: together they show the
chain of causation, and each alone says what it cannot show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from systems import NX1, S, Slow, at, system
from tailrace import diagnose, readers
from tailrace.dataset import Dataset
from tailrace.diagnosis import Diagnosis

STOP = (4.0, 5.2)
"""A full collection of app's JVM, which answers nobody meanwhile."""
SERVER, CLIENT = 2, 3


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hour")
    recorded = system(Slow("app", *STOP), tiers=NX1)
    visits = recorded.visits().collect().with_columns(pl.col("server", "caller", "interaction").cast(pl.String))
    (folder / "traces.json").write_text("".join(map(spans, visits.rows(named=True))))
    (folder / "gc.log").write_text(collections())
    (folder / "sar.json").write_text(sadf())
    return folder


def spans(visit: dict[str, object]) -> str:
    """The span of a visit, and that of the client above it, as a line of OTLP."""
    number, parent = int(str(visit["visit"])), visit["parent"]
    own = {
        **{"traceId": f"{int(str(visit['request'])) + 1:032x}", "spanId": f"{2 * number + 2:016x}", "kind": SERVER},
        **{"parentSpanId": f"{2 * number + 1:016x}" if parent is not None else "", "name": "GET /page"},
        **{"startTimeUnixNano": str(visit["arrival"]), "endTimeUnixNano": str(visit["departure"])},
    }
    found = [(str(visit["server"]), own)]
    if parent is not None:
        above = {**own, "spanId": own["parentSpanId"], "kind": CLIENT, "startTimeUnixNano": str(visit["sent"])}
        above["parentSpanId"] = f"{2 * int(str(parent)) + 2:016x}"
        found.append((str(visit["caller"]), above))
    resources = [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
            "scopeSpans": [{"spans": [span]}],
        }
        for service, span in found
    ]
    return json.dumps({"resourceSpans": resources}) + "\n"


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(at(seconds) / S, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "+0000"


def collections() -> str:
    """Short pauses each second, and the full collection."""
    pauses = [
        (second + 0.5, 8.0, "Young (Normal) (G1 Evacuation Pause)") for second in range(9) if second not in (4, 5)
    ]
    pauses.append((STOP[1], (STOP[1] - STOP[0]) * 1000, "Full (Allocation Failure)"))
    lines = [f"[{stamp(0.1)}][info][gc] Using G1"]
    for number, (end, took, what) in enumerate(sorted(pauses)):
        lines.append(f"[{stamp(end)}][info][gc] GC({number}) Pause {what} 900M->400M(1024M) {took:.3f}ms")
    return "\n".join(lines) + "\n"


def sadf() -> str:
    """Each second of app's node: it is busy with the collection, and waits for no disk."""
    entries = []
    for second in range(1, 10):
        when = datetime.fromtimestamp(at(second) / S, UTC)
        busy = 95.0 if STOP[0] < second <= STOP[1] + 1 else 30.0
        entries.append(
            {
                "timestamp": {"date": f"{when:%Y-%m-%d}", "time": f"{when:%H:%M:%S}", "utc": 1, "interval": 1},
                "cpu-load": [
                    {"cpu": "all", "user": busy, "system": 0.0, "iowait": 0.0, "steal": 0.0, "idle": 100 - busy}
                ],
            }
        )
    return json.dumps({"sysstat": {"hosts": [{"nodename": "node7", "statistics": entries}]}}, indent=1)


def read(folder: Path, chosen: Sequence[str]) -> Dataset:
    named = {"traces": f"{folder}/traces.json", "gc": f"app={folder}/gc.log", "sar": f"{folder}/sar.json"}
    return readers.read(
        *(named[one] for one in chosen), places={"node7": "app"} if "sar" in chosen and "traces" in chosen else {}
    )


def main(found: Diagnosis) -> tuple[str | None, str | None, str]:
    row = max(found.summary, key=lambda row: row.vlrt)
    return row.dropper, row.origin, row.cause


def test_together_they_show_who_dropped_where_it_began_and_why(files: Path) -> None:
    run = read(files, ("traces", "gc", "sar"))
    found = diagnose(run)
    assert found.vlrt > 0
    assert main(found) == ("app", "app", "garbage-collection")
    text = " ".join(found.answer)
    assert "app" in text
    assert "garbage" in text
    carried = {one.file: one.carries for one in run.manifest.inputs}
    assert set(carried) == {"traces.json", "gc.log", "sar.json"}


def test_traces_alone_do_not_show_why(files: Path) -> None:
    found = diagnose(read(files, ("traces",)))
    assert main(found) == ("app", "app", "unknown")
    missing = " ".join(str(finding.missing) for finding in found.episodes[0].findings if finding.missing)
    assert "cpu_busy" in missing


def test_traces_with_coarse_samples_do_not_show_why(files: Path) -> None:
    assert main(diagnose(read(files, ("traces", "sar"))))[2] == "unknown"


def test_traces_with_the_log_of_collections_show_why(files: Path) -> None:
    assert main(diagnose(read(files, ("traces", "gc")))) == ("app", "app", "garbage-collection")


@pytest.mark.parametrize("alone", ["gc", "sar"])
def test_without_requests_there_is_no_chain(files: Path, alone: str) -> None:
    found = diagnose(read(files, (alone,)))
    assert found.requests == 0
    assert found.answer == ("This recording has no finished requests, so response times are not known.",)
    assert [one.datum for one in found.unknown] == ["requests: a packet capture"]
