"""Several inputs of one system: what each carries, and how they become one run folder."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.errors import InputError
from tailrace.report.info import describe
from tailrace.units import SECOND

FILES = Path(__file__).parents[1] / "golden" / "readers"
LINE = '10.0.0.9 - - [20/Nov/2026:16:49:0{s} +0000] "GET /items HTTP/1.1" 200 5 "-" "-" msec=179519334{s}.100 rt=0.020'


AB = "Fri Nov 20 16:49:0{} 2026\t{}\t1001\t20\t1021\t19\n"


def log(path: Path, seconds: str, tail: str = "") -> Path:
    path.write_text("".join(LINE.format(s=second) + tail + "\n" for second in seconds))
    return path


def test_info_says_which_input_carries_which_step() -> None:
    run = readers.read(
        FILES / "traces" / "otlp.jsonl",
        f"lb={FILES / 'accesslog' / 'haproxy.log'}",
        f"node7={FILES / 'sadf' / 'sar.json'}",
        f"app={FILES / 'gclog' / 'jdk17-g1.log'}",
        FILES / "prometheus" / "node.json",
        places={"node7": "app"},
    )
    run.validate()
    carries = {one["file"]: one["carries"] for one in describe(run)["inputs"]}
    assert carries == {
        "otlp.jsonl": {"responses": "each request", "losses": "indirectly", "queues": "without the accept queue"},
        "haproxy.log": {
            "responses": "another input counts",
            "losses": "indirectly, of the servers behind",
            "queues": "without the accept queue",
        },
        "sar.json": {"resources": "what lasts 2 s or longer"},
        "jdk17-g1.log": {"resources": "gc"},
        "node.json": {"losses": "counts of a host", "resources": "what lasts 2 s or longer"},
    }
    assert run.topology.places == {"node7": "app"}
    with_more = readers.read(run.path, FILES / "wide" / "wide.csv")
    assert [one.file for one in with_more.manifest.inputs] == [*carries, "wide.csv"]


def test_parts_of_a_rotated_log_are_one_log(tmp_path: Path) -> None:
    old = log(tmp_path / "plain", "123")
    (tmp_path / "access.log.2.gz").write_bytes(gzip.compress(old.read_bytes()))
    log(tmp_path / "access.log.1", "45")
    log(tmp_path / "access.log", "67")
    names = [tmp_path / name for name in ("access.log", "access.log.1", "access.log.2.gz")]
    run = readers.read(*names)
    assert run.manifest.rows == {"requests": 7, "visits": 7}
    assert run.manifest.rows == readers.read(*(f"web={name}" for name in names)).manifest.rows


def test_logs_of_two_front_servers_both_have_clients_and_that_of_a_called_one_has_not(tmp_path: Path) -> None:
    one = log(tmp_path / "one", "123", ' urt="0.010" ua="10.0.0.3:80"')
    two, app = log(tmp_path / "two", "456"), log(tmp_path / "three", "123")
    both = readers.read(f"web1={one}", f"web2={two}")
    both.validate()
    assert both.requests().collect().height == 6
    linked = both.visits().filter(pl.col("request").is_not_null()).collect()
    assert linked["request"].n_unique() == 6
    chain = readers.read(f"web1={one}", f"app={app}", servers={"app": "10.0.0.3:80"})
    assert chain.requests().collect().height == 3


def test_a_manifest_whose_inputs_are_wrong_is_refused(tmp_path: Path) -> None:
    readers.read(f"web={log(tmp_path / 'log', '12')}", out=tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    table = json.loads(path.read_text())
    assert [one["kind"] for one in table["inputs"]] == ["access log"]
    for wrong in ({}, [1], [{"file": "a", "kind": "b", "carries": {"magic": "yes"}}], [{"file": 1}]):
        path.write_text(json.dumps({**table, "inputs": wrong}))
        with pytest.raises(InputError, match="inputs"):
            Dataset.open(tmp_path / "run")
    path.write_text(json.dumps({key: value for key, value in table.items() if key != "inputs"}))
    assert Dataset.open(tmp_path / "run").manifest.inputs == ()


def test_where_two_inputs_disagree_both_are_named_with_their_very_long_requests(tmp_path: Path) -> None:
    slow, fast = tmp_path / "slow.log", log(tmp_path / "fast.log", "1234")
    slow.write_text(fast.read_text().replace("rt=0.020", "rt=1.020"))
    notes = readers.read(f"web={slow}", f"web={fast}").manifest.notes
    assert not any(" differ " in note for note in notes)  # they are parts of one log
    traces = tmp_path / "traces.json"
    traces.write_text(spans_of("web", [1.0, 2.0, 3.0], took_s=0.012))
    said = " ".join(readers.read(f"web={slow}", traces).manifest.notes)
    assert "In traces.json, 0 of 3 requests to web took 0.95 s or longer, the longest 12 ms" in said
    assert "in slow.log, 3 of 3 requests to web took 0.95 s or longer, the longest 1.02 s" in said
    assert "Nothing in them shows why" in said  # both begin after their connections were accepted
    ab = tmp_path / "ab.csv"
    ab.write_text("starttime\tseconds\tctime\tdtime\tttime\twait\n")
    ab.write_text(ab.read_text() + "".join(AB.format(i, 1_795_193_341 + i) for i in range(3)))
    said = " ".join(readers.read(f"web={ab}", traces).manifest.notes)
    assert "in ab.csv, 3 of 3 requests to web took 0.95 s or longer, the longest 1.02 s" in said
    assert "a span begins after its connection was accepted" in said
    agreeing = readers.read(f"web={fast}", traces).manifest.notes
    assert not any(" differ " in note for note in agreeing)


def test_a_log_of_whole_seconds_that_differs_says_that_its_times_are_whole(tmp_path: Path) -> None:
    traces, whole = tmp_path / "traces.json", tmp_path / "whole.log"
    traces.write_text(spans_of("web", [1.0, 2.0, 3.0], took_s=1.4))
    whole.write_text(log(tmp_path / "plain", "3456").read_text().replace("rt=0.020", "rt=2.000").replace(".100 ", " "))
    said = " ".join(readers.read(traces, f"web={whole}").manifest.notes)
    assert "the longest 2 s" in said
    assert "the response times of whole.log are whole seconds" in said


def test_inputs_without_a_common_moment_are_named(tmp_path: Path) -> None:
    traces = tmp_path / "traces.json"
    traces.write_text(spans_of("web", [3601.0, 3602.0], took_s=0.01))
    said = " ".join(readers.read(traces, f"web={log(tmp_path / 'access.log', '12')}").manifest.notes)
    assert "access.log: its requests of web and those in traces.json have no moment in common" in said


def test_findings_name_the_inputs_that_they_rest_on(tmp_path: Path) -> None:
    traces = tmp_path / "traces.json"
    traces.write_text(spans_of("web", [1.0, 1.1, 2.0, 3.0], took_s=1.4))
    both = [traces, f"web={log(tmp_path / 'access.log', '1234')}"]
    run = readers.read(*both, FILES / "wide" / "wide.csv", places={"app1": "web"})
    found = diagnose(run).episodes[0].findings
    assert [each.inputs for each in found[:3]] == [("traces.json",)] * 3
    assert found[3].inputs == found[4].inputs == ("wide.csv",)
    assert diagnose(readers.read(traces)).episodes[0].findings[0].inputs == ()


def spans_of(service: str, begins: list[float], took_s: float) -> str:
    """OTLP with a server span at each of these seconds after 2026-11-20 16:49:00 UTC."""
    start = 1_795_193_340 * SECOND
    spans = [
        {
            "traceId": f"{i + 1:032x}",
            "spanId": f"{i + 1:016x}",
            "name": "GET /items",
            "kind": 2,
            "startTimeUnixNano": str(start + round(begin * SECOND)),
            "endTimeUnixNano": str(start + round((begin + took_s) * SECOND)),
        }
        for i, begin in enumerate(begins)
    ]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}) + "\n"
