"""Systems with several kinds of requests, and with guests on one machine: which server is the limit, and what samples
can show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.millibottleneck import judge
from tailrace.diagnosis.serialise import as_dict
from tailrace.diagnosis.series import Series
from tailrace.experiment import from_table
from tailrace.score import Score, score
from tailrace.units import MILLISECOND


def told_of(table: dict[str, Any], folder: Path) -> tuple[list[dict[str, Any]], Score]:
    sim.simulate(from_table(table), folder)
    run = Dataset.open(folder)
    told = as_dict(diagnose(run))
    return told["episodes"], score(run, told)


def expired_keys() -> dict[str, Any]:
    """web → cache, and → db for the one in fourteen that it lacks: then keys expire together. The database, which is
    the least utilised, has ten times its usual work."""
    return {
        "duration": "14 s",
        "ramp": "3 s",
        "tiers": {
            "web": {"workers": 100, "calls": ["cache", "db"]},
            "cache": {"kind": "async"},
            "db": {"workers": 40},
        },
        "interactions": {
            "hit": {"at": {"web": {"compute": "0.8 ms", "calls": {"look": 1}}}},
            "miss": {"at": {"web": {"compute": "0.8 ms", "calls": {"look": 1, "row": 1}}}},
            "look": {"at": {"cache": {"compute": "0.3 ms"}}},
            "row": {"at": {"db": {"compute": "8 ms"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 530, "mix": {"hit": 93, "miss": 7}},
            "expired": {"kind": "batch", "size": 240, "every": "60 s", "first": "8 s", "interaction": "miss"},
        },
    }


def test_the_limit_is_the_overloaded_server_whatever_its_usual_utilisation(tmp_path: Path) -> None:
    episodes, found = told_of(expired_keys(), tmp_path / "run")
    assert {episode["cause"] for episode in episodes} == {"workload-burst"}
    assert found.right > 0.98 * found.vlrt > 100


def many_cores() -> dict[str, Any]:
    """web → db of four cores, on which reports of thirty pages' work come together by chance all the time."""
    return {
        "duration": "24 s",
        "ramp": "3 s",
        "nodes": {"db": {"cores": 4}},
        "tiers": {"web": {"workers": 150, "calls": ["db"]}, "db": {"workers": 100}},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.4 ms", "calls": {"select": 3}}}},
            "report": {"at": {"web": {"compute": "0.4 ms", "calls": {"sum": 3}}}},
            "select": {"at": {"db": {"compute": "0.56 ms"}}},
            "sum": {"at": {"db": {"compute": "17 ms"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 590, "mix": {"page": 97, "report": 3}},
            "reports": {"kind": "batch", "size": 200, "every": "60 s", "first": "10 s", "interaction": "report"},
        },
    }


def test_a_long_queue_of_heavy_requests_is_long_against_what_they_cost(tmp_path: Path) -> None:
    episodes, found = told_of(many_cores(), tmp_path / "run")
    assert {(episode["origin"], episode["cause"]) for episode in episodes} == {("db", "workload-burst")}
    assert found.right == found.vlrt > 100


def exports() -> dict[str, Any]:
    """web → db, which works twenty times as long for an export as for a page. Those come in a batch alone."""
    return {
        "duration": "16 s",
        "ramp": "3 s",
        "tiers": {"web": {"workers": 80, "calls": ["db"]}, "db": {"workers": 60}},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.4 ms", "calls": {"select": 1}}}},
            "export": {"at": {"web": {"compute": "0.4 ms", "calls": {"scan": 1}}}},
            "select": {"at": {"db": {"compute": "0.8 ms"}}},
            "scan": {"at": {"db": {"compute": "16 ms"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 500, "interaction": "page"},
            "nightly": {"kind": "batch", "size": 70, "every": "60 s", "first": "8 s", "interaction": "export"},
        },
    }


def test_heavy_requests_that_come_at_no_calm_time_are_a_burst(tmp_path: Path) -> None:
    episodes, found = told_of(exports(), tmp_path / "run")
    assert {(episode["origin"], episode["cause"]) for episode in episodes} == {("db", "workload-burst")}
    assert found.right == found.vlrt > 100


def guests(steal: str) -> dict[str, Any]:
    """web → app on a machine of one core, and beside it a system whose batches take all of it."""
    return {
        "duration": "16 s",
        "ramp": "3 s",
        "nodes": {"box": {"cores": 1, "steal": steal}},
        "tiers": {
            "web": {"workers": 150, "calls": ["app"]},
            "app": {"workers": 150, "node": "box"},
            "cron": {"kind": "async", "node": "box", "weight": 10},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.3 ms", "calls": {"make": 1}}}},
            "make": {"at": {"app": {"compute": "0.6 ms"}}},
            "job": {"at": {"cron": {"compute": "4 ms", "scv": 0}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "entry": "web", "rate": 800, "interaction": "page"},
            "jobs": {"kind": "batch", "entry": "cron", "interaction": "job", "size": 220, "every": "7 s"},
        },
    }


JOBS = "cron", "workload-burst"
"""The last jobs of a batch take longer than 0.95 s, because the whole batch came at once."""


def test_two_guests_cannot_both_have_had_the_only_core(tmp_path: Path) -> None:
    episodes, found = told_of(guests("busy"), tmp_path / "busy")
    assert {(episode["origin"], episode["cause"]) for episode in episodes} == {("app", "neighbour"), JOBS}
    assert found.right == found.vlrt > 100


def test_one_sample_without_cpu_shows_that_a_server_stood_still() -> None:
    """The other one has a little of the time before it stopped, or after."""
    edges = np.arange(6) * 200 * MILLISECOND
    cpu = Series("web", "cpu_busy", edges[:-1], edges[1:], np.array([0.25, 0.24, 0.0, 0.05, 0.9]))
    assert judge(cpu, 0.25, 390 * MILLISECOND, 810 * MILLISECOND, held_up=True).metric == "frozen"
    assert judge(cpu, 0.25, 390 * MILLISECOND, 1010 * MILLISECOND, held_up=True).metric != "frozen"


def one_box(jobs: int) -> dict[str, Any]:
    """web → app → cache and db, those three on one machine of two cores, and beside them a system whose batches take
    most of it: with the application alone it does not fill the machine."""
    return {
        "duration": "16 s",
        "ramp": "3 s",
        "nodes": {"box": {"cores": 2}},
        "tiers": {
            "web": {"workers": 100, "calls": ["app"]},
            "app": {"workers": 100, "node": "box", "calls": ["cache", "db"]},
            "cache": {"kind": "async", "node": "box"},
            "db": {"workers": 60, "node": "box"},
            "cron": {"kind": "async", "node": "box", "weight": 4},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.4 ms", "calls": {"make": 1}}}},
            "make": {"at": {"app": {"compute": "0.6 ms", "calls": {"get": 1, "row": 1}}}},
            "get": {"at": {"cache": {"compute": "0.1 ms"}}},
            "row": {"at": {"db": {"compute": "0.5 ms"}}},
            "job": {"at": {"cron": {"compute": "5 ms"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "entry": "web", "rate": 900, "interaction": "page"},
            "jobs": {"kind": "batch", "entry": "cron", "interaction": "job", "size": jobs, "every": "7 s"},
        },
    }


def test_a_neighbour_and_all_servers_on_the_path_fill_a_machine_together(tmp_path: Path) -> None:
    episodes, found = told_of(one_box(jobs=400), tmp_path / "run")
    told = {(episode["dropper"], episode["origin"], episode["cause"]) for episode in episodes}
    assert told == {("web", "app", "neighbour"), (None, *JOBS)}
    assert found.right == found.vlrt > 500
    calm, _ = told_of(one_box(jobs=40), tmp_path / "calm")
    assert calm == []
