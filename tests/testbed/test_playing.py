"""Experiments for the simulator on real servers: which servers and pages play them, and what is said about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace import twin
from tailrace.errors import UsageError
from tailrace.experiment import Experiment, from_table, read, traces
from tailrace.experiment.workloads import Trace
from tailrace.testbed import refusals
from tailrace.testbed.load import rising
from tailrace.testbed.playing import OWN_NS, played

ROOT = Path(__file__).parents[2]
ROWS = "time,interaction,client,think\n0.0,home,1,\n0.1,search,2,\n0.2,search,3,\n0.3,about,1,0.1\n"


def foreign(folder: Path, **tiers: dict[str, Any]) -> Experiment:
    """Recorded requests of a shop that the board knows nothing of: a home page with a query, a search with four, and a
    page without any."""
    (folder / "requests.csv").write_text(ROWS)
    pages = {"home": ("1 ms", 1), "search": ("2 ms", 4), "about": ("50 us", 0)}
    chain = {"front": {"workers": 20, "calls": {"shop": {}}}, "shop": {"calls": {"store": {}}}, "store": {"workers": 0}}
    table: dict[str, Any] = {
        "kernel": {"syn": "linux-6.5"},
        "tiers": {name: keys | tiers.get(name, {}) for name, keys in chain.items()},
        "interactions": {"query": {"at": {"store": {"compute": "1 ms"}}}},
        "workloads": {"users": {"kind": "trace", "file": str(folder / "requests.csv")}},
    }
    for name, (compute, queries) in pages.items():
        calls = {"query": queries} if queries else {}
        table["interactions"] |= {
            name: {"at": {"front": {"compute": "1 ms", "calls": {f"{name} at shop": 1}}}},
            f"{name} at shop": {"at": {"shop": {"compute": compute, "wait": "3 ms", "calls": calls}}},
        }
    return from_table(table)


def test_tiers_without_software_are_played_by_their_place_and_requests_by_pages_with_as_many_queries(
    tmp_path: Path,
) -> None:
    found = played(foreign(tmp_path), tmp_path)
    software = {name: tier.software for name, tier in found.experiment.tiers.items()}
    assert software == {"front": "apache", "shop": "tomcat", "store": "mysql"}
    refusals.refuse(found.experiment)
    load = found.experiment.workloads["users"]
    assert isinstance(load, Trace)
    assert traces.read(load.file).names == ["StoriesOfTheDay", "ViewStory", "ViewStory", "Register"]
    added = {name: one.at["shop"].compute for name, one in found.experiment.interactions.items()}
    assert added == {"StoriesOfTheDay": 1_000_000 - OWN_NS, "ViewStory": 2_000_000 - OWN_NS, "Register": 0}
    said = " | ".join(found.notes)
    for what in (
        "front: played by apache",
        "search by ViewStory",
        "Register has a demand of 50",
        "waits of up to 3 ms",
    ):
        assert what in said
    assert "sent at their recorded times" in said


def test_kinds_of_servers_decide_and_what_no_server_can_play_is_refused_by_name(tmp_path: Path) -> None:
    events = foreign(tmp_path, front={"kind": "async", "workers": 0}, shop={"kind": "async", "workers": 0})
    found = played(events, tmp_path).experiment
    assert [tier.software for tier in found.tiers.values()] == ["nginx", "xtomcat", "mysql"]
    store = played(foreign(tmp_path, store={"kind": "async"}), tmp_path).experiment
    with pytest.raises(UsageError, match=r"cannot do tiers.front.software: it must be one of .* without one"):
        refusals.refuse(store)


def test_software_that_is_named_stays_and_an_experiment_of_the_board_stays_as_it_is(tmp_path: Path) -> None:
    named = played(foreign(tmp_path, shop={"software": "tomcat", "calls": {"store": {}}}), tmp_path)
    assert not any(note.startswith("shop: played by") for note in named.notes)
    own = read(ROOT / "experiments/testbed/sync")
    assert played(own, tmp_path).experiment == own
    assert played(own, tmp_path).notes == ()


def test_clients_that_send_nothing_are_left_out_with_a_note(tmp_path: Path) -> None:
    base = foreign(tmp_path)
    about = base.interactions["about"].model_copy(update={"silent": True})
    found = played(base.model_copy(update={"interactions": {**base.interactions, "about": about}}), tmp_path)
    load = found.experiment.workloads["users"]
    assert isinstance(load, Trace)
    assert traces.read(load.file).names == ["StoriesOfTheDay", "ViewStory", "ViewStory"]
    assert any(note.startswith("clients that send nothing are left out") for note in found.notes)


def test_recorded_requests_are_warmed_up_with_the_same_pages_at_their_rate(tmp_path: Path) -> None:
    steps = rising(played(foreign(tmp_path), tmp_path).experiment)
    assert steps is not None
    [first, *_] = steps.workloads.values()
    assert first.mix == {"StoriesOfTheDay": 1.0, "ViewStory": 2.0, "Register": 1.0}
    assert len(steps.workloads) == 5


@pytest.mark.parametrize("recording", ["sync", "nx2"])
def test_the_twin_of_a_recording_of_the_testbed_is_taken_by_it(recording: str, tmp_path: Path) -> None:
    learnt = twin.learn(ROOT / "tests/golden/real" / recording)
    path = learnt.write(tmp_path / "twin")
    found = played(read(path), tmp_path)
    refused = [key for key, _ in refusals._refusals(found.experiment)]
    assert refused == []
    pages = {name for load in found.experiment.workloads.values() for name in traces.read(load.file).names}
    assert pages == {"StoriesOfTheDay"}
