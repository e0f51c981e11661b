"""The examiner: its counts, and its figures for systems written by hand and for drawn ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.serialise import as_dict
from tailrace.errors import InputError
from tailrace.experiment import Experiment, from_table
from tailrace.score import Score, read_diagnosis, score, sweep
from tailrace.score.drawing import draw


def chain(**more: Any) -> dict[str, Any]:
    """web → app → db at 250 requests a second, 50 threads and places before the first drop."""
    return {
        "duration": "20 s",
        "ramp": "2 s",
        "tiers": {
            "web": {"workers": 30, "backlog": 20, "calls": ["app"]},
            "app": {"workers": 60, "calls": ["db"]},
            "db": {"workers": 60},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"servlet": 1}}}},
            "servlet": {"at": {"app": {"compute": "1 ms", "calls": {"query": 2}}}},
            "query": {"at": {"db": {"compute": "0.5 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 250, "interaction": "page"}},
        **more,
    }


def made(folder: Path, **more: Any) -> Dataset:
    sim.simulate(from_table(chain(**more)), folder / "run")
    return Dataset.open(folder / "run")


FREEZE = {"kind": "freeze", "place": "db", "at": "6 s", "for": "500 ms"}


def test_a_right_diagnosis_scores_full_and_each_falsehood_costs(tmp_path: Path) -> None:
    run = made(tmp_path, stalls=[FREEZE])
    told = as_dict(diagnose(run))
    best = score(run, told)
    assert best.vlrt > 50
    assert best.right == best.removable == best.named == best.right_dropper == best.right_origin == best.vlrt
    assert (best.wrong, best.causes_told, best.causes_false) == (0, 1, 0)
    for key, lie, of in (
        ("dropper", "db", "right_dropper"),
        ("origin", "web", "right_origin"),
        ("cause", "neighbour", "right"),
    ):
        wrong = json.loads(json.dumps(told))
        for row in (row for episode in wrong["episodes"] for row in episode["chains"]):
            row[key] = lie
        worse = score(run, wrong)
        assert getattr(worse, of) == 0
        assert worse.right == (0 if key == "cause" else best.right)
        assert (worse.wrong, worse.causes_false) == ((best.vlrt, 1) if key == "cause" else (0, 0))


def test_unknown_is_wrong_where_a_removal_removes_and_names_nothing(tmp_path: Path) -> None:
    run = made(tmp_path, stalls=[FREEZE])
    told = as_dict(diagnose(run))
    for row in (row for episode in told["episodes"] for row in episode["chains"]):
        row["cause"] = "unknown"
    found = score(run, told)
    assert (found.right, found.named, found.wrong, found.causes_told) == (0, 0, 0, 0)
    assert found.removable == found.vlrt > 50


def test_what_is_not_reported_is_not_right(tmp_path: Path) -> None:
    run = made(tmp_path, stalls=[FREEZE])
    found = score(run, as_dict(diagnose(run)) | {"episodes": []})
    assert (found.right, found.right_dropper, found.right_origin) == (0, 0, 0)
    assert found.causes["not reported"]["told"] == found.vlrt > 50


def told(experiment: Experiment, folder: Path) -> Score:
    """The score of its diagnosis."""
    sim.simulate(experiment, folder / "run")
    run = Dataset.open(folder / "run")
    return score(run, as_dict(diagnose(run)))


def two_systems_on_a_machine() -> dict[str, Any]:
    """app beside another system, which receives 400 requests at once, 0.8 s of work."""
    both = chain(nodes={"box": {"cores": 1}})
    both["tiers"]["app"]["node"] = "box"
    both["tiers"]["other"] = {"kind": "async", "node": "box"}
    both["interactions"]["servlet"]["at"]["app"]["compute"] = "1.8 ms"
    both["interactions"]["ping"] = {"at": {"other": {"compute": "2 ms"}}}
    both["workloads"]["users"]["entry"] = "web"
    batch = {"kind": "batch", "size": 400, "first": "7 s", "interaction": "ping", "entry": "other"}
    both["workloads"]["pings"] = batch
    return both


def doors_that_open() -> dict[str, Any]:
    """A thousand clients at once, at the moment when the recording begins."""
    users = {"clients": 1000, "think": "5 s", "start": "at once", "interaction": "page"}
    return chain(workloads={"users": users}, ramp="0 s", kernel={"syn": "linux-6.5"})


def two_entries() -> dict[str, Any]:
    """300 clients at once reach app, which web calls for others, and overflow it."""
    both = chain()
    both["tiers"]["app"]["backlog"] = 20
    both["workloads"]["users"]["entry"] = "web"
    batch = {"kind": "batch", "size": 300, "first": "6 s", "interaction": "servlet", "entry": "app"}
    both["workloads"]["others"] = batch
    return both


def released_at_once() -> dict[str, Any]:
    """Everything that app held while it stood still reaches db at once and shares its CPU: the first of it is answered
    late."""
    freed = chain(stalls=[{"kind": "freeze", "place": "app", "at": "6 s", "for": "600 ms"}])
    freed["tiers"] = {
        "web": {"kind": "async", "calls": ["app"]},
        "app": {"kind": "async", "calls": ["db"]},
        "db": {"workers": 100, "backlog": 20},
    }
    freed["interactions"]["servlet"]["at"]["app"] = {"compute": "0.1 ms", "scv": 0, "calls": {"query": 1}}
    freed["interactions"]["query"]["at"]["db"] = {"compute": "2.4 ms", "scv": 0}
    return freed


def threads_that_wait_outside() -> dict[str, Any]:
    """Surges demand more of app than its 30 threads can do, which mostly wait for something outside of the system:
    web's connections to it, and then web's threads, run out, while hardware is idle."""
    surges = {"kind": "modulated", "rates": [200, 600], "stays": ["6 s", "1.5 s"], "interaction": "page"}
    waiting = chain(workloads={"users": surges}, duration="30 s")
    waiting["tiers"]["web"]["workers"] = 100
    waiting["tiers"]["app"]["workers"] = 30
    waiting["interactions"]["servlet"]["at"]["app"]["wait"] = "70 ms"
    return waiting


def waves_in_front_of_a_quota() -> dict[str, Any]:
    """120 at once every 5 s wait in web for connections to db, whose quota is used up in period after period."""
    return {
        "seed": 1,
        "duration": "30 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "kernel": {"syn": "linux-6.5"},
        "tiers": {
            "web": {"workers": 60, "backlog": 32, "calls": {"db": {"kept": True, "pool": 30}}},
            "db": {"workers": 100, "backlog": 64, "quota": {"time": "60 ms"}},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.8 ms", "calls": {"query": 2}}}},
            "query": {"at": {"db": {"compute": "0.8 ms"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 300, "interaction": "page"},
            "waves": {"kind": "batch", "size": 120, "first": "5 s", "every": "5 s", "interaction": "page"},
        },
    }


def a_neighbour_of_another() -> dict[str, Any]:
    """db stands still, and meanwhile another process takes the CPU of web."""
    burn = {"kind": "burn", "place": "web", "at": "6.1 s", "for": "380 ms", "threads": 8, "weight": 20}
    return chain(stalls=[FREEZE, burn])


def far_apart(wait: str = "5 ms") -> dict[str, Any]:
    """Servers that mostly wait, with few workers and short backlogs: db stands still and loses the first packets
    itself, before most are lost in front of it."""
    system = chain(stalls=[{"kind": "freeze", "place": "db", "at": "5.2 s", "for": "800 ms", "every": "8.3 s"}])
    system |= {"duration": "30 s", "ramp": "3 s", "seed": 17, "kernel": {"syn": "linux-6.5"}}
    call, room = {"kept": False, "pool": 0}, {"workers": 40, "backlog": 16}
    system["tiers"] = {"web": {**room, "calls": {"app": call}}, "app": {**room, "calls": {"db": call}}, "db": room}
    system["interactions"] = {
        "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"servlet": 1}}}},
        "servlet": {"at": {"app": {"compute": "0.5 ms", "wait": wait, "calls": {"query": 1}}}},
        "query": {"at": {"db": {"compute": "0.5 ms", "wait": wait}}},
    }
    system["workloads"] = {"users": {"clients": 800, "think": "4 s", "interaction": "page"}}
    return system


def surges() -> dict[str, Any]:
    """Open arrivals at web, app and db that come twice as often every few seconds."""
    system = far_apart("0 s")
    system |= {"duration": "40 s", "stalls": []}
    system["interactions"]["servlet"]["at"]["app"]["compute"] = "1.2 ms"
    system["interactions"]["query"]["at"]["db"]["compute"] = "1.2 ms"
    users = {"kind": "modulated", "rates": [150, 330], "stays": ["3 s", "3 s"], "interaction": "page"}
    system["workloads"] = {"users": users}
    return system


def one_clock_for_two() -> dict[str, Any]:
    """app and db share a core whose governor is late: neither fills it alone."""
    system = surges()
    system["seed"] = 1
    governor = {"period": "1 s", "frequencies": ["1 GHz", "3.5 GHz"], "up": 0.95, "down": 0.5}
    system["nodes"] = {"box": {"cores": 1, "governor": governor}}
    system["tiers"]["app"]["node"] = system["tiers"]["db"]["node"] = "box"
    return system


def a_quota_before_busy_servers() -> dict[str, Any]:
    """app's quota is too small for surges, in which the queue of the server behind it may rise first by chance."""
    system = surges()
    call = {"kept": False, "pool": 0}
    system["seed"] = 34
    system["tiers"] = {
        "web": {"workers": 50, "backlog": 16, "calls": {"app": call}},
        "app": {"workers": 55, "backlog": 32, "quota": {"time": "45 ms"}, "calls": {"middle": call}},
        "middle": {"workers": 29, "backlog": 32, "calls": {"db": call}},
        "db": {"workers": 49, "backlog": 8},
    }
    system["interactions"] = {
        "page": {"at": {"web": {"compute": "1.271 ms", "calls": {"servlet": 1}}}},
        "servlet": {"at": {"app": {"compute": "1.5 ms", "calls": {"bean": 1}}}},
        "bean": {"at": {"middle": {"compute": "2.452 ms", "calls": {"query": 1}}}},
        "query": {"at": {"db": {"compute": "1.875 ms"}}},
    }
    system["workloads"]["users"] |= {"rates": [180, 400], "stays": ["4 s", "1 s"]}
    return system


@pytest.mark.parametrize(
    "system",
    [
        two_systems_on_a_machine,
        doors_that_open,
        two_entries,
        released_at_once,
        waves_in_front_of_a_quota,
        far_apart,
        a_neighbour_of_another,
        one_clock_for_two,
        a_quota_before_busy_servers,
        threads_that_wait_outside,
    ],
)
def test_the_diagnosis_of_systems_written_by_hand_is_right(tmp_path: Path, system: Callable[[], Any]) -> None:
    found = told(from_table(system()), tmp_path)
    if system is a_neighbour_of_another:
        pytest.xfail("the neighbour of db is charged with 15 of 58 requests; 8 do not occur without it")
    assert found.right > 0.9 * found.vlrt > 50
    assert found.wrong <= 0.01 * found.vlrt


def test_a_file_that_is_no_diagnosis_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for text, said in (("{", "not JSON"), ("{}", "not a diagnosis"), ('{"threshold_ns": 1, "episodes": [{}]}', "anew")):
        file.write_text(text)
        with pytest.raises(InputError, match=said):
            read_diagnosis(file)


def test_every_drawn_system_can_be_simulated() -> None:
    for seed in range(120):
        sim.lower(from_table(draw(seed)))


def test_a_sweep_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    whole = sweep.sweep([1, 3], tmp_path, processes=1)
    lines = (tmp_path / sweep.LINES).read_text().splitlines()
    cut = json.dumps(json.loads(lines[0]) | {"requests": -1})
    (tmp_path / sweep.LINES).write_text(f"{cut}\n{lines[1][:40]}")
    again = sweep.sweep([1, 3], tmp_path, processes=1)
    assert sorted(row["requests"] for row in again) == sorted([-1, json.loads(lines[1])["requests"]])
    assert {row["seed"] for row in again} == {row["seed"] for row in whole}
    assert json.loads((tmp_path / sweep.SUMMARY).read_text())["runs"] == 2


def test_the_diagnosis_keeps_its_score_on_a_fixed_sweep() -> None:
    """Forty systems on which the diagnosis was developed, with lower bounds below the results reached. The aims of
    docs/reference/score.md apply to seeds that were not used."""
    found = sweep.summarise(sweep.sweep(range(40)))
    assert found.counts["vlrt"] > 5_000
    assert found.share("right_dropper") >= 0.98
    assert found.share("right") >= 0.7
    assert found.share("wrong") <= 0.02
    assert found.right_of_runs >= 0.75
