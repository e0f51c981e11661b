"""Predictions that depend on how many requests a server can hold, where the recording does not show it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders import SMALL
from tailrace import advise, sim
from tailrace.advise import page, recordings
from tailrace.advise.cautions import cautious
from tailrace.advise.changing import changed
from tailrace.advise.facts import Facts
from tailrace.advise.ranking import present
from tailrace.advise.trials import Trials
from tailrace.dataset import Dataset
from tailrace.experiment import from_table

CHAIN: dict[str, Any] = SMALL | {
    "kernel": {"syn": "linux-3.3"},
    "duration": "4 s",
    "ramp": "0 s",
    "tiers": {
        "web": {"workers": 8, "backlog": 8, "calls": ["app"]},
        "app": {"workers": 100, "calls": ["db"]},
        "db": {"workers": 0},
    },
    "interactions": {
        "page": {"at": {"web": {"compute": "1 ms", "calls": {"part": 1}}}},
        "part": {"at": {"app": {"compute": "1 ms", "calls": {"query": 1}}}},
        "query": {"at": {"db": {"compute": "1 ms"}}},
    },
    "workloads": {"w": {"kind": "poisson", "rate": 150.0, "interaction": "page"}},
    "stalls": [{"kind": "freeze", "place": "app", "at": "1 s", "for": "400 ms"}],
}


def test_a_change_that_lets_more_through_is_not_sure_where_a_server_behind_may_overflow(tmp_path: Path) -> None:
    system = from_table(CHAIN)
    found = advise.advise(system, replications=2)
    by_name = {one.remedies: one for one in found.ranked if one.places != ("web, app, db",)}
    assert all(one.caution == "" for one in found.ranked)
    sure, unsure = by_name["backlog",], by_name["asynchronous",]
    again = cautious([unsure, sure], Facts(unlimited={"db": 5}), system, Trials(tmp_path))
    assert [one.remedies for one in again] == [("backlog",), ("asynchronous",)]
    assert again[0].caution == ""
    assert again[0].effect == sure.effect
    assert again[1].caution.startswith("The recording does not show how many requests db can hold")
    assert "how many requests db can hold" in page.html(replace(found, ranked=tuple(again)))


def test_the_interval_holds_what_is_left_if_a_server_holds_no_more_than_was_seen(tmp_path: Path) -> None:
    """With any number of workers, the database drops nothing of what an asynchronous server lets through."""
    tiers = CHAIN["tiers"] | {"web": {"kind": "async", "calls": ["app"]}, "db": {"workers": 0, "backlog": 1}}
    tiers["app"] = {"kind": "async", "calls": {"db": {"kept": True}}}
    system = from_table(CHAIN | {"tiers": tiers, "duration": "8 s"})
    trials = Trials(tmp_path)
    roomy = present(system, 2, trials)
    assert roomy.vlrt.mean == 0.0
    assert roomy.vlrt.high is not None
    change = advise.advise(from_table(CHAIN), replications=2).ranked[0]
    changes = {("tiers", "app", "kind"): "async"}
    one = replace(change, remedies=("asynchronous",), changes=changes, effect=roomy, experiment=system)
    [few] = cautious([one], Facts(unlimited={"db": 1}), system, trials)
    fewest = sim.count(
        changed(system, {("tiers", "db", "workers"): 1, ("tiers", "app", "calls", "db", "kept"): False})
    ).over_1s
    assert fewest > roomy.vlrt.high
    assert few.effect.vlrt.mean == roomy.vlrt.mean
    assert few.effect.vlrt.high is not None
    assert few.effect.vlrt.high >= fewest
    assert f"only the 1 that were seen, {fewest} requests take 1 s or more" in few.caution


def test_tiers_that_the_change_itself_makes_roomy_need_no_caution(tmp_path: Path) -> None:
    system = from_table(CHAIN)
    found = advise.advise(system, replications=2)
    workers = next(one for one in found.ranked if one.remedies == ("workers",))
    [one] = cautious(
        [replace(workers, changes={("tiers", "db", "workers"): 9})],
        Facts(unlimited={"db": 5}),
        system,
        Trials(tmp_path),
    )
    assert one.caution == ""


def test_pools_hold_a_server_to_what_was_seen(tmp_path: Path) -> None:
    """Each of fifty connections to the database carried a request, so no more can come at once."""
    system = from_table(CHAIN)
    found = advise.advise(system, replications=2)
    changed_app = next(one for one in found.ranked if one.places == ("web, app",))
    [held] = cautious([changed_app], Facts(unlimited={"db": 50}), system, Trials(tmp_path))
    [open_ended] = cautious([changed_app], Facts(unlimited={"db": 49}), system, Trials(tmp_path))
    assert (held.caution, bool(open_ended.caution)) == ("", True)


def test_a_twin_knows_which_workers_its_recording_does_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "_refuse", lambda run, checked: None)
    sim.simulate(from_table(CHAIN), tmp_path / "run")
    planned = recordings.twin_of(Dataset.open(tmp_path / "run"), tmp_path / "twin")
    assert planned.facts.unlimited.keys() == {"db"}


def test_a_prediction_holds_what_is_left_if_calls_open_connections(tmp_path: Path) -> None:
    """More workers of the web server let more calls through, and a short accept queue drops them if each opens one."""
    tiers = CHAIN["tiers"] | {"db": {"workers": 4, "backlog": 1}}
    tiers["app"] = {"workers": 100, "backlog": 100, "calls": {"db": {"kept": True, "pool": 0}}}
    stalls = [{"kind": "freeze", "place": "db", "at": "1 s", "for": "400 ms"}]
    system = from_table(CHAIN | {"tiers": tiers, "stalls": stalls})
    change = next(one for one in advise.advise(system, replications=2).ranked if one.remedies == ("workers",))
    [same] = cautious([change], Facts(), system, Trials(tmp_path))
    [unsure] = cautious([change], Facts(opening=("db",)), system, Trials(tmp_path))
    opened = sim.count(changed(change.experiment, {("tiers", "app", "calls", "db", "kept"): False})).over_1s
    assert same.caution == ""
    assert unsure.effect.vlrt.high is not None
    assert same.effect.vlrt.high is not None
    assert same.effect.vlrt.high < opened <= unsure.effect.vlrt.high
    assert f"If each call opens one, {opened} requests take 1 s or more." in unsure.caution


def test_a_prediction_holds_what_is_left_if_threads_look_for_a_free_connection(tmp_path: Path) -> None:
    """More threads than connections of mod_jk: those that find none look again every 100 ms, and later ones overtake
    them. The database is so slow after the freeze that they stay behind."""
    tiers = {
        "web": {"workers": 10, "backlog": 8, "calls": {"app": {"kept": True, "pool": 10}}},
        "app": {"workers": 100},
    }
    pages = {"page": {"at": {"web": {"calls": {"part": 1}}}}, "part": {"at": {"app": {"compute": "5.5 ms"}}}}
    stalls = [{"kind": "freeze", "place": "app", "at": "1 s", "for": "500 ms"}]
    system = from_table(CHAIN | {"tiers": tiers, "interactions": pages, "stalls": stalls, "duration": "8 s"})
    change = next(one for one in advise.advise(system, replications=2).ranked if one.remedies == ("workers",))
    [same] = cautious([change], Facts(protocols={"app": "http"}), system, Trials(tmp_path))
    [unsure] = cautious([change], Facts(protocols={"app": "ajp"}), system, Trials(tmp_path))
    call = ("tiers", "web", "calls", "app")
    polled = changed(change.experiment, {(*call, "endpoint"): "original", (*call, "endpoint_timeout"): "300 s"})
    left = sim.count(polled).over_1s
    assert same.caution == ""
    assert unsure.effect.vlrt.high is not None
    assert same.effect.vlrt.high is not None
    assert same.effect.vlrt.high < left <= unsure.effect.vlrt.high
    assert f"then {left} requests take 1 s or more" in unsure.caution


def test_with_a_governor_visits_need_what_they_need_in_the_twin_with_it(tmp_path: Path) -> None:
    """The work beside recorded clock rates is smaller or larger than that with a governor: the trial has the latter."""
    rates = "time,lost\n1.0,0.50\n1.4,0.00\n"
    (tmp_path / "app-frequency-step.csv").write_text(rates)
    lost = [{"place": "app", "cause": "frequency-step", "file": str(tmp_path / "app-frequency-step.csv")}]
    system = from_table(CHAIN | {"losses": lost})
    change = next(one for one in advise.advise(system, replications=2).ranked if one.remedies == ("backlog",))
    governor = {"period": "100 ms", "frequencies": ["1 GHz", "2 GHz"], "up": 0.8, "down": 0.5}
    left = {}
    for more in (1.0, 8.0):
        facts = Facts(governors={"app": governor}, more={"app": more})
        [unsure] = cautious([change], facts, system, Trials(tmp_path / "runs"))
        keys = {("nodes", "app", "governor"): governor, ("tiers", "app", "demand_factor"): more}
        governed = changed(change.experiment, keys).model_copy(
            update={"losses": tuple(loss for loss in change.experiment.losses if loss.cause != "frequency-step")}
        )
        left[more] = sim.count(governed).over_1s
        high = unsure.effect.vlrt.high
        assert high is not None
        assert left[more] <= high
    assert left[8.0] > left[1.0]
    assert f"{left[8.0]} requests take 1 s or more" in unsure.caution
