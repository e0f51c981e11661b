"""Several inputs of one system: what each carries, and how they become one run folder."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.report.info import describe

FILES = Path(__file__).parents[1] / "golden" / "readers"
LINE = '10.0.0.9 - - [20/Nov/2026:16:49:0{s} +0000] "GET /items HTTP/1.1" 200 5 "-" "-" msec=179519334{s}.100 rt=0.020'


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


def test_where_two_inputs_disagree_both_are_named(tmp_path: Path) -> None:
    fast = log(tmp_path / "fast", "12")
    slow = tmp_path / "slow"
    slow.write_text(fast.read_text().replace("rt=0.020", "rt=1.020"))
    run = readers.read(f"web={slow}", FILES / "traces" / "otlp.jsonl")
    assert "Their longest at web took" in " ".join(run.manifest.notes)
    assert "and 1.02 s in the other input. A span, or a line" in " ".join(run.manifest.notes)
