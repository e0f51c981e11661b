"""The simulator's Python side: lowering, refusals, and the content of a run folder."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tailrace import experiment, sim
from tailrace.dataset import Dataset
from tailrace.errors import InputError, UsageError
from tailrace.experiment import truth
from tailrace.experiment.arrivals import law
from tailrace.sim.lowering import EPOCH

ROOT = Path(__file__).parents[2]
THREE: dict[str, Any] = {
    "duration": "6 s",
    "ramp": "2 s",
    "tiers": {
        "web": {"software": "apache", "calls": ["app"]},
        "app": {"software": "tomcat", "calls": ["db"]},
        "db": {"software": "mysql"},
    },
    "workloads": {"steady": {"clients": 700, "think": "1 s"}},
}


def changed(**parts: Any) -> experiment.Experiment:
    """THREE with other tiers, workloads, …; tables of tables are merged."""
    table = {**THREE}
    for key, value in parts.items():
        table[key] = {**THREE.get(key, {}), **value} if isinstance(value, dict) else value
    return experiment.from_table(table)


def steps(plan: dict[str, Any], server: str, interaction: str) -> list[dict[str, Any]]:
    number = [one["name"] for one in plan["classes"]].index(interaction)
    [found] = [one for one in plan["servers"] if one["name"] == server]
    program: list[dict[str, Any]] = plan["programs"][found["programs"][number]]
    return program


def page(**work: Any) -> experiment.Experiment:
    """One page of the application tier that does `work`, and a query q."""
    interactions = {
        "page": {"at": {"web": {"calls": {"page": 1}}, "app": work}},
        "q": {"at": {"db": {"compute": "1 ms"}}},
    }
    return changed(interactions=interactions, workloads={"steady": {"clients": 1, "interaction": "page"}})


def test_computing_is_interleaved_with_calls_in_equal_parts() -> None:
    found = steps(sim.lower(page(compute="4 ms", calls={"q": 3})), "app", "page")
    assert [next(iter(step)) for step in found] == ["compute", "call", "compute", "call", "compute", "call", "compute"]
    assert [step["compute"] for step in found[::2]] == [{"exponential": 1e6}] * 4


def test_a_call_that_is_made_only_sometimes_has_no_part_of_its_own() -> None:
    found = steps(sim.lower(page(compute="4 ms", calls={"q": 1.5})), "app", "page")
    assert [next(iter(step)) for step in found] == ["compute", "call", "compute", "call"]
    assert [step["call"]["count"] for step in found[1::2]] == [1, 0.5]
    assert sum(step["compute"]["exponential"] for step in found[::2]) == 4e6


def test_the_part_before_the_first_call_can_be_smaller() -> None:
    found = steps(sim.lower(page(compute="4 ms", calls={"q": 2}, before=0.1)), "app", "page")
    assert [step["compute"]["exponential"] for step in found[::2]] == pytest.approx([0.4e6, 1.8e6, 1.8e6])
    found = steps(sim.lower(page(compute="4 ms", calls={"q": 0.3}, before=0.5)), "app", "page")
    assert [step["compute"]["exponential"] for step in found[::2]] == pytest.approx([2e6, 2e6])


def test_calls_that_begin_together_are_one_step_with_one_part_after_it() -> None:
    interactions = {
        "page": {
            "at": {"web": {"compute": "4 ms", "calls": {"a": 1, "b": {"count": 2, "with_previous": True}, "c": 1}}}
        },
        "a": {"at": {"app": {}}},
        "b": {"at": {"app": {}}},
        "c": {"at": {"app": {}}},
    }
    found = changed(interactions=interactions, workloads={"steady": {"clients": 1, "interaction": "page"}})
    plan = sim.lower(found)
    made = steps(plan, "web", "page")
    assert [next(iter(step)) for step in made] == ["compute", "join", "compute", "call", "compute"]
    names = [plan["classes"][call["class"]]["name"] for call in (*made[1]["join"], made[3]["call"])]
    assert names == ["a", "b", "c"]
    assert [call["count"] for call in made[1]["join"]] == [1, 2]


def test_without_interleaving_half_is_done_before_and_half_after() -> None:
    found = steps(sim.lower(page(compute="4 ms", scv=0, calls={"q": 3}, interleaved=False, wait="1 ms")), "app", "page")
    assert [next(iter(step)) for step in found] == ["compute", "wait", "call", "call", "call", "compute"]
    assert (found[0], found[5]) == ({"compute": {"constant": 2e6}},) * 2


@pytest.mark.parametrize("interleaved", [True, False])
def test_an_event_loop_makes_each_call_itself(interleaved: bool, tmp_path: Path) -> None:
    """The first answer is back at 3 ms, when the loop works on another request until 12.5 ms; only then does it call
    again, which takes 2 ms, and 1 ms more to the client."""
    (tmp_path / "two.csv").write_text("time,interaction\n0,twice\n0.0015,busy\n")
    parts = {
        "duration": "1 s",
        "latency": "1 ms",
        "tiers": {"front": {"kind": "async", "calls": ["back"]}, "back": {}},
        "interactions": {
            "twice": {"at": {"front": {"calls": {"q": 2}, "interleaved": interleaved}}},
            "busy": {"at": {"front": {"compute": "10 ms", "scv": 0}}},
            "q": {"at": {"back": {}}},
        },
        "workloads": {"w": {"kind": "trace", "file": str(tmp_path / "two.csv")}},
    }
    sim.simulate(experiment.from_table(parts), tmp_path / "run")
    requests = pl.read_parquet(tmp_path / "run" / "requests.parquet").sort("sent")
    assert (requests["end"] - requests["sent"]).to_list() == [15_500_000, 12_000_000]


@pytest.mark.parametrize("scv", [0, 0.25, 1 / 3, 1, 4, 11])
def test_a_law_has_the_mean_and_the_scv_that_were_asked_for(scv: float) -> None:
    [(name, value)] = law(100.0, scv).items()
    mean, square = {
        "constant": lambda v: (v, v**2),
        "exponential": lambda v: (v, 2 * v**2),
        "erlang": lambda v: (v["mean"], v["mean"] ** 2 * (1 + 1 / v["shape"])),
        "hyperexponential": lambda v: (
            v["share"] * v["first"] + (1 - v["share"]) * v["second"],
            2 * (v["share"] * v["first"] ** 2 + (1 - v["share"]) * v["second"] ** 2),
        ),
    }[name](value)
    assert (mean, square / mean**2 - 1) == (pytest.approx(100), pytest.approx(scv))


def test_nothing_is_repeated_once_it_is_given_up() -> None:
    [load] = sim.lower(changed(kernel={"give_up": "9 s"}))["workloads"]
    assert load["syn"] == {"repeats": [3_000_000_000], "give_up": 9_000_000_000, "data_repeats": []}


def test_an_interaction_without_weight_in_a_mix_is_never_requested() -> None:
    mix = {"StoriesOfTheDay": 2, "ViewStory": 0}
    plan = sim.lower(changed(workloads={"steady": {"clients": 1, "mix": mix}}))
    assert plan["workloads"][0]["choice"] == {"mix": [[0, 2.0]]}
    assert "ViewStory" not in [one["name"] for one in plan["classes"]]


def test_moments_count_from_the_end_of_the_ramp() -> None:
    batch = {"kind": "batch", "interaction": "ViewStory", "entry": "web", "first": "1 s", "begin": "1 s"}
    plan = sim.lower(
        changed(workloads={"batch": batch}, stalls=[{"kind": "freeze", "place": "db", "at": "1 s", "every": "2 s"}])
    )
    assert (plan["record_from"], plan["duration"]) == (2_000_000_000, 8_000_000_000)
    lowered = plan["workloads"][1]
    assert lowered["begin"] + lowered["arrivals"]["batch"]["first"] == 3_000_000_000
    assert [stall["begin"] for stall in plan["stalls"]] == [3_000_000_000, 5_000_000_000, 7_000_000_000]


def test_only_what_a_workload_reaches_is_in_the_plan() -> None:
    names = [one["name"] for one in sim.lower(experiment.from_table(THREE))["classes"]]
    assert "ViewStory" in names
    assert "SELECT stories" in names
    assert not {"StoreStory", "INSERT submissions", "logo"} & set(names)


def test_pages_rank_by_their_queries_and_searches_are_of_one_servlet() -> None:
    rubbos = {"form": "plain", "forms": {"StoriesOfTheDay": "joined"}}
    classes = sim.lower(experiment.from_table(THREE | {"rubbos": rubbos}))["classes"]
    ranks = {one["name"]: one["rank"] for one in classes}
    assert [ranks[page] for page in ("StoriesOfTheDay", "ViewStory", "SearchInStories", "SELECT users")] == [0, 3, 4, 0]
    servlets = {one["name"]: classes[one["servlet"]]["name"] for one in classes}
    assert len({servlet for page, servlet in servlets.items() if page.startswith("Search")}) == 1
    assert all(servlet == name for name, servlet in servlets.items() if not name.startswith("Search"))


def test_a_router_reads_from_one_and_writes_to_all() -> None:
    tiers = {
        "app": {"software": "tomcat", "calls": ["router"]},
        "router": {"software": "cjdbc", "calls": ["db"]},
        "db": {"software": "mysql", "count": 2},
    }
    plan = sim.lower(changed(tiers=tiers, workloads={"steady": {"clients": 1, "interaction": "StoreStory"}}))
    [read] = [step["call"] for step in steps(plan, "router", "SELECT users") if "call" in step]
    [write] = [step["call"] for step in steps(plan, "router", "INSERT submissions") if "call" in step]
    assert (read["all"], write["all"]) == (False, True)


TOMCAT = {"software": "tomcat"}


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (
            {"tiers": {"app": {**TOMCAT, "calls": ["db", "other"]}, "other": {"software": "mysql"}}},
            "tiers.app.calls.other.for_visit",
        ),
        ({"tiers": {"app": {**TOMCAT, "calls": {"db": {"kept": False}}}}}, "connects for each call unless kept"),
        (
            {"interactions": {"ViewStory": {"at": {"app": {"calls": {"SELECT stories": {"all": True}}}}}}},
            "interactions.ViewStory.at.app",
        ),
        ({"tiers": {"db": {"software": "mysql", "count": 33}}}, "at most 32 candidates"),
        (
            {
                "tiers": {"app": {**TOMCAT}, "db": {"software": "mysql"}},
                "workloads": {"steady": {"clients": 1, "entry": "web"}},
            },
            "goes to no tier that app calls (none); unless it sends pages of RUBBoS, a workload needs",
        ),
        ({"workloads": {"steady": {"clients": 1, "entry": "web", "interaction": "SELECT users"}}}, "comes to web"),
        (
            {"tiers": {"front": {}}, "workloads": {"steady": {"clients": 1, "entry": "front"}}},
            "StoriesOfTheDay comes to front, and interactions.StoriesOfTheDay.at has no front; unless it sends pages "
            "of RUBBoS, a workload needs `interaction` or `mix`",
        ),
        ({"duration": "1000000 h"}, "cannot do duration: at most 6 days"),
        ({"latency": "1000 h"}, "cannot do latency: at most 6 days, got 3600000 s"),
        (
            {
                "tiers": {"db": {"software": "mysql", "demand_factor": 1e300}},
                "interactions": {"q": {"at": {"db": {"compute": "1 ms"}}}},
                "rubbos": {"db": 0},
            },
            "tiers.db.demand_factor: at most 6 days of q, which computes 1 ms without it",
        ),
        (
            {"tiers": {"db": {"software": "mysql", "backlog": 10**12}}},
            "tiers.db.backlog: at most 4,294,967,294, got 1000000000000",
        ),
        ({"sampling": {"interval": "1 ns"}}, "sampling.interval: 8,000,000,000 times in this run, at most 100,000,000"),
        ({"nodes": {"db": {"governor": {"period": "1 ns"}}}}, "nodes.db.governor.period: 8,000,000,000 times"),
        (
            {"tiers": {"db": {"quota": {"time": "1 ns", "period": "1 ns"}}}},
            "tiers.db.quota.period: 8,000,000,000 times",
        ),
        (
            {"workloads": {"b": {"kind": "modulated", "rates": [1, 2], "stays": ["1 ns", "1 ns"]}}},
            "workloads.b.stays: 4,000,000,000 times",
        ),
        (
            {"stalls": [{"kind": "freeze", "place": "db", "at": "1 s", "for": "1 ns", "every": "1 ns"}]},
            "stalls[0].every: 6,000,000,000 stalls, at most 100,000",
        ),
        (
            {"stalls": [{"kind": "freeze", "place": "db", "at": "1 s", "for": "1000 h"}]},
            "stalls[0].for: at most 6 days",
        ),
        ({"interactions": {"ViewStory": {"request": 10**30}}}, "ViewStory.request: at most 9,223,372,036,854,775,807"),
    ],
)
def test_what_cannot_be_simulated_is_refused_by_name(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        sim.lower(changed(**parts))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (b"time\nsoon\n", "trace.csv: row 0"),
        (b"time,interaction\n1,ViewStory\n2,\n", "some rows have an interaction"),
        (b"", "names no column time"),
        (b"when\n1\n", "names no column time"),
        (b"time\n1\n\x80", "trace.csv: byte 7: not UTF-8 text"),
        (b"time,interaction\n1," + b"x" * 200_000, "trace.csv: not CSV"),
        (b"time,interaction\n1,ViewStroy\n", "trace.csv: interaction must be the name of .* did you mean 'ViewStory'"),
        (b"time\n-100\n1\n", "trace.csv: the first request comes at -100 s, before the workload begins"),
        (b"time\n", "trace.csv: no request comes before the end of the run, 6 s"),
        (b"time\n6\n7\n", "trace.csv: no request comes before the end of the run, 6 s"),
    ],
)
def test_an_error_in_a_trace_names_file_and_row(tmp_path: Path, written: bytes, sentence: str) -> None:
    (tmp_path / "trace.csv").write_bytes(written)
    load = {"kind": "trace", "file": str(tmp_path / "trace.csv"), "entry": "web"}
    with pytest.raises(InputError, match=sentence):
        sim.lower(changed(workloads={"replayed": load}))


def test_a_run_folder_is_valid_and_keeps_the_laws(tmp_path: Path) -> None:
    found = changed(stalls=[{"kind": "freeze", "place": "db", "at": "1 s"}])
    outcome = sim.simulate(found, tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    run.validate(checksums=True)
    requests = pl.read_parquet(tmp_path / "run" / "requests.parquet")
    assert requests.height == outcome.requests
    # a closed loop: clients = throughput · (response + think), Little's law
    rate = outcome.requests / 6
    assert rate * (1 + outcome.response_ns_mean / 1e9) == pytest.approx(700, rel=3 / math.sqrt(outcome.requests) + 0.02)
    told = truth.read(tmp_path / "run")
    assert told.experiment == found
    assert [(stall.kind, stall.place, stall.end - stall.begin) for stall in told.stalls] == [
        ("freeze", "db", 400_000_000)
    ]
    assert told.stalls[0].begin == EPOCH + 3_000_000_000
    assert run.topology.server("web") is not None


def test_a_run_folder_says_beside_whom_a_neighbour_burns(tmp_path: Path) -> None:
    burns = [{"kind": "burn", "place": "web", "at": "1 s", "weight": weight} for weight in (1, 2)]
    sim.simulate(changed(duration="2 s", stalls=burns), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    hosts = {node.name: node.host for node in run.topology.nodes}
    assert {"web-node": "web-node", "web-node-neighbour": "web-node", "web-node-neighbour2": "web-node"}.items() <= (
        hosts.items()
    )
    assert hosts["db-node"] is None
    places = set(run.samples().select("place").unique().collect()["place"].cast(pl.String))
    assert {"web-node-neighbour", "web-node-neighbour2"} <= places


def test_a_sampling_costs_the_servers_not_a_neighbour_that_has_nothing_to_do(tmp_path: Path) -> None:
    burn = [{"kind": "burn", "place": "web", "at": "1.9 s"}]
    sampling = {"interval": "10 ms", "cost": "1 ms"}
    sim.simulate(changed(duration="2 s", stalls=burn, sampling=sampling), tmp_path / "run")
    [begin] = [stall.begin for stall in truth.read(tmp_path / "run").stalls]
    used = (
        Dataset.open(tmp_path / "run")
        .samples()
        .filter(pl.col("metric").cast(pl.String) == "cpu_busy", pl.col("time") <= begin)
    )
    least = dict(used.group_by(pl.col("place").cast(pl.String)).agg(pl.col("value").min()).collect().iter_rows())
    most = used.filter(pl.col("place").cast(pl.String) == "web-node-neighbour").select(pl.col("value").max()).collect()
    assert most.item() == 0
    assert least["web"] >= 0.09


def test_equal_seeds_give_equal_bytes_and_others_do_not(tmp_path: Path) -> None:
    def digest(name: str, seed: int) -> dict[str, str]:
        sim.simulate(changed(seed=seed, duration="2 s"), tmp_path / name)
        checksums: dict[str, str] = json.loads((tmp_path / name / "manifest.json").read_text())["checksums"]
        return checksums

    first, again, other = digest("a", 3), digest("b", 3), digest("c", 4)
    assert first == again
    assert first["requests.parquet"] != other["requests.parquet"]


def test_counting_alone_says_the_same(tmp_path: Path) -> None:
    found = changed(duration="2 s")
    assert sim.count(found) == sim.simulate(found, tmp_path / "run")


def test_unanswered_requests_are_reported(tmp_path: Path) -> None:
    """A database that a request takes years of."""
    tiers = {"db": {"software": "mysql", "cores": 1e-9}}
    outcome = sim.simulate(changed(tiers=tiers, duration="2 s"), tmp_path / "run")
    assert outcome.unfinished > 0
    lost = json.loads((tmp_path / "run/manifest.json").read_text())["lost"]
    assert lost == {"requests and calls still under way 10 minutes after the end": outcome.unfinished}
    assert sim.count(changed(duration="2 s")).unfinished == 0


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sim.simulate(changed(duration="60 s"), tmp_path / "run", progress=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("software", "dropper"),
    [
        (("apache", "tomcat", "mysql"), "web"),
        (("nginx", "tomcat", "mysql"), "app"),
        (("nginx", "xtomcat", "mysql"), "db"),
        (("nginx", "xtomcat", "xmysql"), None),
    ],
)
def test_drops_move_behind_the_last_server_that_does_not_wait(software: tuple[str, ...], dropper: str | None) -> None:
    """`rpc-vs-async` figures 3, 7, 9 and 10: the same stalls, servers replaced one by one."""
    replaced = [f"tiers.{tier}.software={name}" for tier, name in zip(("web", "app", "db"), software, strict=True)]
    found = experiment.read(ROOT / "experiments/rpc-vs-async/base", [*replaced, "duration=50s"])
    assert set(sim.count(found).drops) == ({dropper} if dropper else set())


def frozen(**call: Any) -> experiment.Experiment:
    """Two servers, one of which stands still for a while, and a web server that opens a connection to them for each
    call."""
    return experiment.from_table(
        {
            "duration": "40 s",
            "ramp": "0 s",
            "kernel": {"syn": ["100 ms"], "give_up": "200 ms"},
            "tiers": {
                "web": {"software": "apache", "calls": {"app": {"kept": False, **call}}},
                "app": {"count": 2, "workers": 4, "backlog": 4},
            },
            "interactions": {
                "page": {"at": {"web": {"compute": "0.1 ms", "calls": {"work": 1}}}},
                "work": {"at": {"app": {"compute": "1 ms"}}},
            },
            "workloads": {"w": {"kind": "poisson", "rate": 100, "interaction": "page"}},
            "stalls": [{"kind": "freeze", "place": "app1", "at": "5 s", "for": "10 s"}],
        }
    )


@pytest.mark.parametrize("policy", ["total_request", "total_traffic", "sessions", "round_robin"])
def test_a_call_that_cannot_connect_goes_to_another_candidate(policy: str) -> None:
    without = sim.count(frozen(policy=policy, endpoint="wait", recover_time="0 s"))
    assert sim.count(frozen(policy=policy, endpoint="wait")).failed == 0 < without.failed


@pytest.mark.parametrize(
    "path", sorted((ROOT / "experiments").rglob("experiment.toml")), ids=lambda path: path.parent.as_posix()[-40:]
)
def test_every_experiment_can_be_simulated(path: Path) -> None:
    assert sim.lower(experiment.read(path))["workloads"]
