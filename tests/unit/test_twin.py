"""The twin of a recording: an experiment that repeats it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tailrace import experiment, sim, twin
from tailrace.cli import perform
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.twin import clients
from tailrace.units import SECOND

CHAIN: dict[str, Any] = {
    "duration": "12 s",
    "ramp": "2 s",
    "tiers": {
        "web": {"software": "apache", "calls": ["app"], "workers": 30, "backlog": 20},
        "app": {"software": "tomcat", "calls": ["db"]},
        "db": {"software": "mysql"},
    },
    "workloads": {"steady": {"clients": 1400, "think": "2 s", "think_max": "0 ns"}},
    "stalls": [{"kind": "slow", "place": "db", "at": "5 s", "for": "500 ms", "left": 0.05}],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Three tiers; the database is slow for half a second, and the web server drops requests."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    sim.simulate(experiment.from_table(CHAIN), folder)
    return Dataset.open(folder)


@pytest.fixture(scope="module")
def learnt(run: Dataset) -> twin.Twin:
    return twin.learn(run)


def test_a_twin_repeats_its_recording(run: Dataset, learnt: twin.Twin) -> None:
    gate = twin.gate(learnt, run)
    assert len(gate.recorded.vlrt) > 50
    assert gate.passed, gate.off


def test_what_is_written_runs_like_the_twin(learnt: twin.Twin, tmp_path: Path) -> None:
    path = learnt.write(tmp_path / "twin")
    again = sim.count(experiment.read(path.parent))
    assert again.drops == sim.count(learnt.experiment).drops


def test_without_the_loss_nothing_is_very_slow(learnt: twin.Twin) -> None:
    whole = learnt.experiment.model_copy(update={"losses": ()})
    assert sim.count(learnt.experiment).over_1s > 50
    assert sim.count(whole).over_1s == 0


def test_demands_are_those_of_the_system(learnt: twin.Twin) -> None:
    web = [need for need in learnt.demands if need.tier == "web"]
    mean = sum(need.compute_ns * need.visits for need in web) / sum(need.visits for need in web)
    assert mean == pytest.approx(270_000, rel=0.05)  # `rubbos.web`
    assert all(need.error_ns < need.compute_ns for need in web)


def test_clients_that_wait_for_answers_are_chained(learnt: twin.Twin) -> None:
    [rows] = learnt.arrivals.values()
    follows = rows["think"].is_not_null()
    assert follows.mean() > 0.5  # type: ignore[operator]
    assert rows.filter(follows)["think"].mean() == pytest.approx(2.0, rel=0.2)


def simulated(folder: Path, **parts: Any) -> Dataset:
    """CHAIN with other tiers, workloads, …; tables of tables are merged."""
    table = {key: {**CHAIN[key], **value} if isinstance(value, dict) else value for key, value in parts.items()}
    sim.simulate(experiment.from_table({**CHAIN, **table}), folder / "run")
    return Dataset.open(folder / "run")


def learnt_of(folder: Path, duration: str, **parts: dict[str, Any]) -> twin.Twin:
    """The twin of a recording of a system that has only these parts. The recording is `folder / "run"`."""
    sim.simulate(experiment.from_table({"duration": duration, "ramp": "1 s", **parts}), folder / "run")
    return twin.learn(folder / "run")


def test_a_balancer_s_policy_is_a_mechanism_of_the_twin(tmp_path: Path) -> None:
    tiers = {
        "web": {"software": "apache", "calls": {"app": {"policy": "current_load"}}},
        "app": {"software": "tomcat", "count": 2},
    }
    interactions = {"page": {"at": {"web": {"compute": "200 us", "calls": {"page": 1}}, "app": {"compute": "1 ms"}}}}
    loads = {"all": {"kind": "poisson", "rate": 800.0, "interaction": "page"}}
    found = learnt_of(tmp_path, "3 s", tiers=tiers, interactions=interactions, workloads=loads)
    assert found.servers == {"web": "web", "app1": "app1", "app2": "app2"}
    assert found.experiment.tiers["app"].count == 2
    assert found.experiment.tiers["web"].calls["app"].policy == "current_load"


def test_clients_that_hedge_do_so_in_the_twin(tmp_path: Path) -> None:
    hedged = {"steady": {"clients": 1400, "think": "2 s", "think_max": "0 ns", "hedge": "300 ms"}}
    found = twin.learn(simulated(tmp_path, workloads=hedged))
    [load] = found.experiment.workloads.values()
    assert load.hedge == pytest.approx(300e6, rel=0.01)
    requests = Dataset.open(tmp_path / "run").requests().collect().height
    within = pl.col("time") * SECOND < found.experiment.duration  # clients go on later
    sent = sum(len(rows.filter(within)) for rows in found.arrivals.values())
    assert sent < requests  # those sent twice are the twin's own doing


def test_clients_of_another_tier_have_habits_of_their_own(tmp_path: Path) -> None:
    tiers = {
        "web": {"workers": 30, "calls": ["app"]},
        "gate": {"workers": 30, "calls": ["app"]},
        "app": {"workers": 60},
    }
    interactions = {
        "page": {"at": {"web": {"compute": "1 ms", "calls": {"part": 1}}, "gate": {"compute": "1 ms"}}},
        "part": {"at": {"app": {"compute": "1 ms"}}},
    }
    interactions["other page"] = {"at": {"gate": {"compute": "1 ms", "calls": {"part": 1}}}}
    loads = {
        "users": {"entry": "web", "kind": "poisson", "rate": 80.0, "interaction": "page", "hedge": "200 ms"},
        "others": {"entry": "gate", "kind": "poisson", "rate": 80.0, "interaction": "other page"},
    }
    stalls = {"stalls": [{"kind": "freeze", "place": "app", "at": "2 s", "for": "600 ms"}]}
    found = learnt_of(tmp_path, "4 s", tiers=tiers, interactions=interactions, workloads=loads, **stalls)
    hedges = {name: load.hedge for name, load in found.experiment.workloads.items()}
    assert hedges == {"web": pytest.approx(200e6, rel=0.01), "gate": 0}


def test_visits_that_wait_do_not_hold_up_an_event_loop(tmp_path: Path) -> None:
    """A proxy before servers that were not recorded: its loop goes on with other requests while some wait."""
    tiers = {"web": {"kind": "async", "workers": 0}}
    interactions = {"page": {"at": {"web": {"compute": "1 ms", "wait": "100 ms", "scv": 0}}}}
    loads = {"users": {"kind": "poisson", "rate": 50.0, "interaction": "page"}}
    found = learnt_of(tmp_path, "6 s", tiers=tiers, interactions=interactions, workloads=loads)
    assert found.experiment.tiers["web"].workers == 0
    gate = twin.gate(found, tmp_path / "run")
    longest = gate.recorded.longest["web"]
    assert longest > 5  # one loop could serve ten a second
    assert gate.reproduced[0].longest["web"] == pytest.approx(longest, abs=3)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_packets_that_were_lost_on_their_way_are_lost_in_the_twin(share: float, tmp_path: Path) -> None:
    """No queue refused them: the kernel of the server counted no drop."""
    lost = [{"kind": "packet-loss", "place": "web", "at": "5 s", "for": "500 ms", "share": share}]
    run = simulated(tmp_path, stalls=lost)
    found = twin.learn(run)
    [stall] = found.table["stalls"]
    assert (stall["kind"], stall["place"]) == ("packet-loss", "web")
    assert stall["share"] == pytest.approx(share, abs=0.1)
    before, after = len(twin.gate(found, run).recorded.vlrt), sim.count(found.experiment).over_1s
    assert before > 50
    assert after == pytest.approx(before, rel=0.15)


def test_visits_account_for_the_cpu_time_of_a_server_that_was_slow_for_long(tmp_path: Path) -> None:
    """It is busy for longer than its visits compute, and no request is missing."""
    stalls = [{"kind": "slow", "place": "db", "at": "3 s", "for": "6 s", "left": 0.3}]
    tiers = {"db": {"software": "mysql", "demand_factor": 1.5}}
    found = twin.learn(simulated(tmp_path, tiers=tiers, stalls=stalls))
    assert found.accounted["db"] > 0.9


def test_servers_that_share_a_node_share_it_in_the_twin(tmp_path: Path) -> None:
    tiers = {
        "web": {"software": "apache", "calls": ["app"], "workers": 30, "backlog": 20},
        "app": {"software": "tomcat", "calls": ["db"]},
        "db": {"software": "mysql", "node": "app"},
    }
    found = twin.learn(simulated(tmp_path, tiers=tiers, stalls=[]))
    nodes = {name: tier.node for name, tier in found.experiment.tiers.items()}
    assert nodes["app"] == nodes["db"] != ()
    assert nodes["web"] == ()


def seconds_lost(steps: list[tuple[float, float]]) -> float:
    """The last step ends the loss."""
    return sum(share * (end - begin) for (begin, share), (end, _) in pairwise(steps))


def test_what_takes_cpu_time_of_a_shared_node_is_not_lost_a_second_time(tmp_path: Path) -> None:
    """While a burst is served, each of two servers lacks what the other uses."""
    tiers = {"app": {"workers": 40, "calls": ["db"]}, "db": {"workers": 40, "node": "app"}}
    interactions = {"page": {"at": {"app": {"compute": "3 ms", "calls": {"query": 2}}}}}
    interactions["query"] = {"at": {"db": {"compute": "2 ms"}}}
    loads = {
        "users": {"kind": "poisson", "rate": 40.0, "interaction": "page"},
        "burst": {"kind": "batch", "size": 160, "first": "3 s", "every": "4 s", "interaction": "page"},
    }
    found = learnt_of(tmp_path, "12 s", tiers=tiers, interactions=interactions, workloads=loads)
    assert sum(seconds_lost(steps) for steps in found.losses.values()) < 0.1


def test_a_request_s_first_work_has_a_factor_of_its_own(learnt: twin.Twin) -> None:
    """A caller computes before its first call and after the answers, and the two are independent."""
    [rows] = learnt.arrivals.values()
    first, rest = rows["first.web"], rows["factor.web"]
    assert first.mean() == pytest.approx(1.0, abs=0.02)
    assert rest.mean() == pytest.approx(1.0, abs=0.02)
    assert abs(float(pl.DataFrame({"first": first, "rest": rest}).select(pl.corr("first", "rest")).item())) < 0.5
    assert "first.db" not in rows.columns


def test_a_tier_has_both_factors_or_none() -> None:
    """Without the factor of its first work, a request would have that of the rest there."""
    usual, twice = np.ones(3), np.full(3, 2.0)
    factor = {"factor.app": twice, "first.app": usual, "factor.db": usual, "first.db": usual}
    assert clients.unusual(factor).keys() == {"factor.app", "first.app"}
    factor |= {"factor.app": usual, "first.app": twice}
    assert clients.unusual(factor).keys() == {"factor.app", "first.app"}


def test_visits_of_an_event_loop_need_what_it_served_them_with(tmp_path: Path) -> None:
    """A visit that waits for its turn gets nothing of the CPU, unlike one that shares it."""
    tiers = {"web": {"kind": "async", "calls": ["db"]}, "db": {"workers": 40}}
    interactions = {"page": {"at": {"web": {"compute": "6 ms", "calls": {"query": 1}}}}}
    interactions["query"] = {"at": {"db": {"compute": "1 ms"}}}
    loads = {
        "users": {"kind": "poisson", "rate": 60.0, "interaction": "page"},
        "burst": {"kind": "batch", "size": 80, "first": "2 s", "every": "2 s", "interaction": "page"},
    }
    found = learnt_of(tmp_path, "10 s", tiers=tiers, interactions=interactions, workloads=loads)
    [web] = [need for need in found.demands if need.tier == "web" and need.visits > 100]
    assert web.before == pytest.approx(0.5, abs=0.1)


def test_calls_are_made_in_the_order_of_the_recording(tmp_path: Path) -> None:
    tiers = {"web": {"workers": 40, "calls": ["search", "archive"]}}
    tiers |= {name: {"workers": 40, "calls": []} for name in ("search", "archive")}
    calls = {"search page": 1, "archive page": 2}
    interactions: dict[str, Any] = {"page": {"at": {"web": {"compute": "2 ms", "calls": calls}}}}
    interactions |= {f"{name} page": {"at": {name: {"compute": "1 ms"}}} for name in ("search", "archive")}
    loads = {"users": {"kind": "poisson", "rate": 60.0, "interaction": "page"}}
    found = learnt_of(tmp_path, "5 s", tiers=tiers, interactions=interactions, workloads=loads)
    work = found.experiment.interactions["page"].at["web"]
    assert [visits.to for visits in work.calls.values()] == ["search", "archive"]


@pytest.mark.parametrize("workers", [25, 60], ids=["they hold all workers", "there are workers left"])
def test_visits_that_wait_for_something_else_compute_nothing(workers: int, tmp_path: Path) -> None:
    """Many reports wait at once. They do not share the CPU, whatever the number of those that are inside."""
    tiers = {"web": {"workers": 100, "backlog": 60, "calls": ["db"]}, "db": {"workers": workers, "backlog": 20}}
    interactions = {
        "page": {"at": {"web": {"compute": "2 ms", "calls": {"query": 1}}}},
        "query": {"at": {"db": {"compute": "2 ms"}}},
        "all pages": {"at": {"web": {"compute": "100 us", "calls": {"report": 1}}}},
        "report": {"at": {"db": {"compute": "100 us", "wait": "1200 ms"}}},
    }
    loads = {
        "users": {"kind": "poisson", "rate": 150.0, "interaction": "page"},
        "reports": {"kind": "batch", "size": 30, "first": "4 s", "every": "6 s", "interaction": "all pages"},
    }
    found = learnt_of(tmp_path, "14 s", tiers=tiers, interactions=interactions, workloads=loads)
    waits = [need for need in found.demands if need.tier == "db" and need.interaction == "report"]
    mean = sum(need.wait_ns * need.visits for need in waits) / sum(need.visits for need in waits)
    assert mean == pytest.approx(1.2e9, rel=0.02)
    assert max(need.compute_ns for need in waits) < 10e6
    gate = twin.gate(found, tmp_path / "run")
    assert len(gate.reproduced[0].vlrt) == pytest.approx(len(gate.recorded.vlrt), rel=0.15)


def test_interactions_with_the_names_of_rubbos_have_the_recorded_work(run: Dataset, tmp_path: Path) -> None:
    """Only the first tier was recorded, so its visits make no calls."""
    folder = shutil.copytree(run.path, tmp_path / "run")
    visits = run.visits().filter(pl.col("server").cast(pl.String) == "web").collect()
    visits.write_parquet(folder / "visits.parquet")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["rows"]["visits"] = len(visits)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert sim.count(twin.learn(folder).experiment).requests > 0


def test_calls_whose_caller_was_lost_belong_to_visits_that_lack_them(run: Dataset, tmp_path: Path) -> None:
    """A tenth of the calls to the database have no caller: no client sends them in the twin."""
    folder = shutil.copytree(run.path, tmp_path / "run")
    lost = (pl.col("server").cast(pl.String) == "db") & (pl.col("parent") % 10 == 0)
    null = pl.lit(None, pl.UInt64)
    visits = run.visits().with_columns(parent=pl.when(lost).then(null).otherwise("parent"))
    visits.with_columns(request=pl.when(lost).then(null).otherwise("request")).collect().write_parquet(
        folder / "visits.parquet"
    )
    found = twin.learn(folder)
    assert set(found.arrivals) == {"requests-web.parquet"}
    assert twin.gate(found, run).passed


def test_second_calls_of_others_belong_to_visits_that_lack_them_too(run: Dataset, tmp_path: Path) -> None:
    """Of every ten calls to the application server, one has no caller, and one seems to be of the caller before."""
    folder = shutil.copytree(run.path, tmp_path / "run")
    visits = run.visits().with_columns(server=pl.col("server").cast(pl.String)).collect()
    calls = visits.filter(pl.col("server") == "app").sort("arrival").with_row_index("place")
    parent = (
        pl.when(pl.col("place") % 10 == 0)
        .then(None)
        .when(pl.col("place") % 10 == 5)
        .then(pl.col("parent").shift(1))
        .otherwise("parent")
    )
    again = calls.select("visit", meant=parent)
    changed = visits.join(again, on="visit", how="left", maintain_order="left").with_columns(
        parent=pl.when(pl.col("server") == "app").then("meant").otherwise("parent")
    )
    schema = dict(pl.read_parquet_schema(run.path / "visits.parquet"))
    changed.drop("meant").cast(schema).write_parquet(folder / "visits.parquet")
    found = twin.learn(folder)
    assert set(found.arrivals) == {"requests-web.parquet"}
    [rows] = found.arrivals.values()
    calls_of = {
        name: sum(visits.count for visits in one.at["web"].calls.values())
        for name, one in found.experiment.interactions.items()
        if "web" in one.at
    }
    usual = rows["interaction"].replace_strict(calls_of, return_dtype=pl.Float64) == 1.0
    assert float(usual.cast(pl.Float64).sum()) > 0.93 * len(rows)


def lacking(run: Dataset, folder: Path, table: str) -> Path:
    """A copy of the run without a table."""
    shutil.copytree(run.path, folder)
    (folder / f"{table}.parquet").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["rows"][table]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_without_samples_the_twin_says_what_it_lacks(run: Dataset, tmp_path: Path) -> None:
    lacks = [unknown.datum for unknown in twin.learn(lacking(run, tmp_path / "run", "samples")).unknowns]
    assert "samples of cpu_busy of db, 50 ms apart" in lacks


def test_a_run_without_visits_is_refused(run: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no visits of requests to servers"):
        twin.learn(lacking(run, tmp_path / "run", "visits"))


def test_a_recording_without_very_slow_requests_does_not_pass(tmp_path: Path) -> None:
    calm = simulated(tmp_path, stalls=[])
    gate = twin.gate(twin.learn(calm), calm)
    assert not gate.passed
    assert any("a recording of a time with very slow requests" in sentence for sentence in gate.off)


def test_a_twin_of_another_recording_does_not_pass(run: Dataset, learnt: twin.Twin) -> None:
    other = replace(learnt, table={**learnt.table, "losses": []})
    gate = twin.gate(other, run)
    assert not gate.passed
    assert any(sentence.startswith("very slow requests: ") for sentence in gate.off)


def test_the_command_shows_both(run: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["twin", str(run.path), "-o", str(tmp_path / "twin"), "--quiet"]
    assert perform(words) == 0
    assert "the twin repeats the recording" in capsys.readouterr().out
    assert perform([*words, "--json"]) == 2, "the experiment exists already"
    capsys.readouterr()
    assert perform([*words, "--json", "--overwrite"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["passed"] is True
    assert told["origins"]["tiers.web.workers"] == "seen in topology.toml"
    written = pl.read_csv(tmp_path / "twin" / "demands.csv")
    assert len(written) == len(told["demands"])
    for row, demand in zip(written.iter_rows(named=True), told["demands"], strict=True):
        assert row["error_ns"] == pytest.approx(demand["error_ns"], abs=1e-3)
    computing = [demand for demand in told["demands"] if demand["visits"] > 100 and demand["compute_ns"]]
    assert computing
    assert all(0 < demand["error_ns"] < 0.2 * demand["compute_ns"] for demand in computing)


def test_visits_that_call_each_other_in_a_circle_are_cut(run: Dataset, tmp_path: Path) -> None:
    folder = shutil.copytree(run.path, tmp_path / "run")
    first, second = run.visits().filter(pl.col("parent").is_null()).head(2).collect()["visit"].to_list()
    circle = {first: second, second: first}
    parent = pl.col("visit").replace_strict(circle, default=pl.col("parent"), return_dtype=pl.UInt64)
    run.visits().with_columns(parent=parent).collect().write_parquet(folder / "visits.parquet")
    assert len(twin.gate(twin.learn(folder), run).reproduced[0].vlrt) > 50


def test_a_recording_of_some_requests_does_not_pass(run: Dataset, tmp_path: Path) -> None:
    """A sampled trace: one request in four, and the CPU time of all of them."""
    folder = shutil.copytree(run.path, tmp_path / "run")
    some = pl.col("request") % 4 == 0
    run.requests().filter(some).collect().write_parquet(folder / "requests.parquet")
    run.visits().filter(some).collect().write_parquet(folder / "visits.parquet")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["rows"] = {"samples": manifest["rows"]["samples"], "events": manifest["rows"]["events"]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    gate = twin.gate(twin.learn(folder), folder)
    assert gate.missing
    assert any("sampled traces hold a part" in sentence for sentence in gate.off)


def test_servers_with_similar_names_have_files_of_their_own(run: Dataset, tmp_path: Path) -> None:
    """Names of the simulator are plain; those of recordings are addresses, or whatever a trace calls a service."""
    folder = shutil.copytree(run.path, tmp_path / "run")
    other = {"web": "A/B", "app": "a b", "db": "é" * 500}
    text = (folder / "topology.toml").read_text()
    for name, new in other.items():
        text = text.replace(f'"{name}"', f'"{new}"')
    (folder / "topology.toml").write_text(text)
    for table, columns in (("visits", ["server", "caller"]), ("requests", ["server"])):
        rows = getattr(run, table)().with_columns(pl.col(*columns).cast(pl.String).replace(other)).collect()
        rows.with_columns(pl.col(*columns).cast(pl.Categorical)).write_parquet(folder / f"{table}.parquet")
    found = twin.learn(folder)
    assert set(found.servers) == set(other.values())
    assert sim.count(experiment.read(found.write(tmp_path / "twin"))).over_1s > 50
