"""One real system, seen by a capture, traces, an access log and sar at once: no combination contradicts another.

`together/record.sh` made the recording. gunicorn was stopped for 0.8 s; its accept queue held four connections, and
five attempts of nginx were lost. None of the inputs shows why gunicorn stood still.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.units import MILLISECOND

HERE = Path(__file__).parent / "together"
INPUTS = {"capture": "packets.pcap.zst", "traces": "traces.otlp.zst", "log": "web=access.log", "sar": "sar.json"}
NAMES = {"web": "10.77.9.2:80", "app": "10.77.9.3:8080", "db": "10.77.9.4:3306"}
COMBINATIONS = [
    chosen for count in range(1, len(INPUTS) + 1) for chosen in combinations(INPUTS, count) if chosen != ("sar",)
]


def read(chosen: tuple[str, ...]) -> Dataset:
    named = [INPUTS[one].rpartition("=") for one in chosen]
    files = [f"{name}{equals}{HERE / file}" for name, equals, file in named]
    return readers.read(*files, servers=NAMES, places={"node1": "app"} if "sar" in chosen else {})


@pytest.mark.parametrize("chosen", COMBINATIONS, ids="+".join)
def test_each_combination_shows_the_same_chain_as_far_as_it_can(chosen: tuple[str, ...]) -> None:
    run = read(chosen)
    found = diagnose(run)
    assert (found.requests, found.vlrt) == (80, 5)
    assert {row.dropper for row in found.summary} == {"app"}
    assert {row.origin for row in found.summary} <= {"app", None}
    assert {row.cause for row in found.summary} == {"unknown"}
    if chosen[0] != "traces":
        assert {row.origin for row in found.summary} == {"app"}


def test_the_inputs_agree_on_each_slow_request() -> None:
    took = {}
    for one in ("capture", "traces", "log"):
        requests = read((one,)).requests().collect()
        slow = requests.filter(pl.col("end") - pl.col("sent") > 900 * MILLISECOND).sort("end")
        took[one] = slow
    for one in ("traces", "log"):
        ends = (took[one].get_column("end") - took["capture"].get_column("end")).abs().max()
        assert isinstance(ends, int)
        assert ends < 20 * MILLISECOND  # the client's own span ends when it has closed its connection


def test_a_server_counts_once_whatever_the_inputs_call_it() -> None:
    run = read(("capture", "traces", "log"))
    assert {server.name for server in run.topology.servers} == {"web", "app", "db"}
    assert set(run.visits().collect().get_column("server").cast(pl.String).unique()) == {"web", "app", "db"}


def test_visits_of_a_server_without_its_calls_are_left_out() -> None:
    run = read(("traces", "log"))
    assert set(run.visits().collect().get_column("server").cast(pl.String).unique()) == {"app", "db"}
    assert any("80 visits of web were left out" in note for note in run.manifest.notes)


STOPPED = {"log": "web=full-cpu.log.gz", "jtl": "web=full-cpu.jtl.gz"}


@pytest.mark.parametrize("chosen", [("log",), ("jtl",), ("jtl", "log"), ("log", "jtl")], ids="+".join)
def test_a_load_test_and_a_log_of_one_system_do_not_contradict_each_other(chosen: tuple[str, ...]) -> None:
    files = [STOPPED[one].replace("=", f"={HERE}/") for one in chosen]
    run = readers.read(*files, servers={"web": "127.0.0.11:8081", "app": "127.0.0.12:8090"})
    found = diagnose(run)
    assert (found.requests, found.vlrt) == (720, 45)
    assert {row.dropper for row in found.summary} <= {"app", None}
    # The visits of the log belong to no request of the clients, and one lost attempt finds none by its times.
    dropped = sum(row.vlrt for row in found.summary if row.dropper == "app")
    assert dropped == (0 if chosen == ("jtl",) else 45 if chosen == ("log",) else 44)
    assert not any(" differ " in note for note in run.manifest.notes)
