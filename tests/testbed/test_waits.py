"""Stalls that are no loss of CPU, on real servers, as root: a lock, lost packets, memory that must be read back."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from tailrace import experiment, readers, testbed
from tailrace.dataset import Dataset
from tailrace.errors import UsageError
from tailrace.testbed import doctor, load, lossy, refusals, swap, undoing
from tailrace.testbed.ledger import Ledger
from tailrace.testbed.servers import board
from tailrace.testbed.site import Site
from tailrace.units import MILLISECOND, SECOND

SITE = Site("tailrace-test")
SYNC = Path(__file__).parents[2] / "experiments/testbed/sync"
LOCK = "{kind='lock', place='db', at='1 s', for='800 ms'}"
LOSS = "{kind='packet-loss', place='app', sender='web', at='4 s', for='800 ms'}"
MEMORY = "{kind='memory', place='db', at='6 s', for='200 ms'}"
SMALL = ["workloads.steady.rate=300", "duration=8s", "ramp=2s", f"stalls=[{LOCK}, {LOSS}, {MEMORY}]"]


def test_a_lock_lost_packets_and_waits_for_memory_happen_on_real_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = doctor.missing(doctor.examine(SITE)) or swap.problem() or lossy.problem()
    if lacking or not board.jar().exists():
        pytest.skip(lacking or "the bulletin board is not built; `make testbed-setup` builds it")
    monkeypatch.setattr(load, "STEP_NS", 2 * SECOND)
    undoing.clean(SITE)
    outcome = testbed.run(experiment.read(SYNC, SMALL), tmp_path / "run", readers.fill, site=SITE)
    begins = {stall.kind: stall.begin for stall in outcome.stalls}
    assert sorted(begins) == ["lock", "memory", "packet-loss"]
    visits = Dataset.open(tmp_path / "run").visits().collect()

    def during(server: str, kind: str) -> pl.DataFrame:
        until = begins[kind] + 700 * MILLISECOND
        return visits.filter((pl.col("server") == server) & pl.col("sent").is_between(begins[kind], until))

    locked = during("db", "lock")
    assert (locked["departure"] - locked["arrival"] >= 100 * MILLISECOND).any()
    assert (during("app", "packet-loss")["data_drops"] > 0).any()
    assert str(SITE.files) not in swap.IN_USE.read_text()
    assert not (SITE.files / "run").exists()


def test_swap_space_is_used_until_it_is_removed(tmp_path: Path) -> None:
    lacking = "this is not root" if os.geteuid() != 0 else swap.problem()
    if lacking:
        pytest.skip(lacking)
    before = swap.IN_USE.read_text().splitlines()
    ledger, file = Ledger(tmp_path), tmp_path / "swap"
    swap.up(ledger, file)
    try:
        assert len(swap.IN_USE.read_text().splitlines()) == len(before) + 1
    finally:
        undoing.undo(ledger)
    assert (swap.IN_USE.read_text().splitlines(), file.exists(), ledger.steps()) == (before, False, [])


def test_rules_lose_a_share_of_what_some_senders_send() -> None:
    some = lossy.rules("t", 8009, ["10.0.0.1", "10.0.0.2"], 0.25)
    assert "tcp dport 8009 ip saddr { 10.0.0.1, 10.0.0.2 } numgen random mod 1000000 < 250000 drop" in some
    assert "tcp dport 8009 drop" in lossy.rules("t", 8009, [], 1.0)


@pytest.mark.parametrize(
    ("stall", "said"),
    [
        ("{kind='restart', place='app', at='1 s'}", r"stalls\[0\].kind: a real server that is restarted refuses"),
        ("{kind='lock', place='app', at='1 s'}", r"stalls\[0\].place: only the tables of a database can be locked"),
        (
            "{kind='lock', place='db', at='1 s', interactions=['ViewStory']}",
            r"stalls\[0\].interactions: a lock is on tables: name them in `tables`",
        ),
    ],
)
def test_a_wait_that_cannot_be_made_is_refused(stall: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        refusals.refuse(experiment.read(SYNC, [f"stalls=[{stall}]"]))


@pytest.mark.parametrize(("tool", "stall"), [(lossy, "packet-loss"), (swap, "memory")])
def test_a_wait_whose_tool_is_missing_is_refused(tool: object, stall: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "command", lambda name: None)
    with pytest.raises(UsageError, match=r"stalls\[0\].kind: it lacks"):
        refusals.refuse(experiment.read(SYNC, [f"stalls=[{{kind='{stall}', place='app', at='1 s'}}]"]))
