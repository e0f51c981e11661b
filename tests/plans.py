"""Plans of small systems (crates/core/src/sim/plan.rs), and how tests run them and check the results."""

from __future__ import annotations

import copy
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import _core, sim
from tailrace.dataset import Dataset
from tailrace.experiment import from_table

MS = 1_000_000
S = 1_000_000_000

Plan = dict[str, Any]

REPLICATIONS = 8
# Student's t with 7 degrees of freedom: an exact simulator fails one comparison in a thousand draws of seeds.
T_999 = 5.408


def made(table: dict[str, Any], folder: Path) -> Dataset:
    """The run of an experiment in the notation of its file."""
    sim.simulate(from_table(table), folder)
    return Dataset.open(folder)


def stalled(duration: str, clients: int, workers: int, backlog: int, **stall: str) -> dict[str, Any]:
    """An experiment: web calls app, and app freezes again and again."""
    return {
        "duration": duration,
        "ramp": "1 s",
        "kernel": {"syn": "linux-6.5"},
        "tiers": {
            "web": {"workers": workers, "backlog": backlog, "calls": {"app": {"pool": workers}}},
            "app": {"workers": workers},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "500 us", "calls": {"part": 1}}}},
            "part": {"at": {"app": {"compute": "2 ms"}}},
        },
        "workloads": {"users": {"kind": "closed", "clients": clients, "think": "1.5 s", "interaction": "page"}},
        "stalls": [{"kind": "freeze", "place": "app", **stall}],
    }


def exponential(mean_ns: float) -> Plan:
    return {"exponential": mean_ns}


def poisson(rate: float, classes: Sequence[tuple[int, float]] = ((0, 1.0),), **more: Any) -> Plan:
    return workload({"poisson": {"rate": rate}}, classes, **more)


def closed(clients: int, think: Plan, classes: Sequence[tuple[int, float]] = ((0, 1.0),), **more: Any) -> Plan:
    return workload({"closed": {"clients": clients, "think": think}}, classes, **more)


def trace(times: Sequence[int], **more: Any) -> Plan:
    return workload({"trace": {"times": list(times)}}, **more)


def workload(arrivals: Plan, classes: Sequence[tuple[int, float]] = ((0, 1.0),), **more: Any) -> Plan:
    return {"name": "w", "entries": [0], "choice": {"mix": [list(c) for c in classes]}, "arrivals": arrivals, **more}


def server(name: str, programs: Sequence[int | None] = (0,), *, cores: float = 1.0, **more: Any) -> Plan:
    """A synchronous server without limits, alone on its node."""
    limits = {"holds": True, "workers": 0, "backlog": 1_000_000}
    return {"name": name, "programs": list(programs), "cores": cores, **limits, **more}


def connector(*candidates: int, **more: Any) -> Plan:
    return {"candidates": list(candidates), "kept": True, **more}


def call(to: int = 0, of: int = 0, **more: Any) -> Plan:
    return {"call": {"connector": to, "class": of, **more}}


def system(
    servers: Sequence[Plan], programs: Sequence[Sequence[Plan]], *workloads: Plan, duration: int, **more: Any
) -> Plan:
    """Servers on nodes of their own; a class for each entry of a server's programs."""
    bare = [{key: value for key, value in s.items() if key != "cores"} for s in servers]
    names = [s["name"] for s in servers]
    cores = [s["cores"] for s in servers]
    return {
        "seed": 1,
        "epoch": 0,
        "duration": duration,
        "nodes": [{"name": f"node of {n}", "cores": c} for n, c in zip(names, cores, strict=True)],
        "groups": [{"name": n, "node": i, "cores": c} for i, (n, c) in enumerate(zip(names, cores, strict=True))],
        "servers": [{**s, "group": i} for i, s in enumerate(bare)],
        "classes": [{"name": f"class {i}"} for i in range(len(servers[0]["programs"]))],
        "programs": [list(p) for p in programs],
        "workloads": list(workloads),
        **more,
    }


def station(work: Plan, load: Plan, *, duration: int, cores: float = 1.0, ramp: int = 0, **limits: Any) -> Plan:
    """One server that does `work` for each request."""
    only = server("station", cores=cores, **limits)
    return system([only], [[{"compute": work}]], load, duration=duration, record_from=ramp)


def changed(plan: Plan, **changes: Any) -> Plan:
    return {**copy.deepcopy(plan), **changes}


@dataclass(frozen=True)
class Run:
    report: dict[str, Any]
    visits: pl.DataFrame
    requests: pl.DataFrame
    samples: pl.DataFrame
    events: pl.DataFrame


def run(plan: Plan, folder: Path) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    report = json.loads(_core.simulate(json.dumps(plan), str(folder)))
    names = ("visits", "requests", "samples", "events")
    tables = {name: pl.read_parquet(folder / f"{name}.parquet") for name in names}
    return Run(report, **{name: with_integer_times(table) for name, table in tables.items()})


def with_integer_times(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.col(pl.Datetime).cast(pl.Int64), pl.col(pl.Categorical).cast(pl.String))


def counts(plan: Plan) -> dict[str, Any]:
    """The counts of a run, without tables."""
    counted: dict[str, Any] = json.loads(_core.simulate(json.dumps(plan)))["counts"]
    assert counted["unfinished"] == 0
    return counted


def response_s(counted: dict[str, Any]) -> float:
    return float(counted["response_ns"] / counted["answered"]) / 1e9


def replicate(plan: Plan, measure: Callable[[dict[str, Any]], float] = response_s) -> list[float]:
    return [measure(counts(changed(plan, replication=i))) for i in range(REPLICATIONS)]


def assert_is(values: Sequence[float], exact: float, within: float) -> None:
    """The 99.9 % confidence interval of the replications' mean contains the exact value, and is narrow enough."""
    mean = statistics.fmean(values)
    half = T_999 * statistics.stdev(values) / math.sqrt(len(values))
    said = f"{mean:.6g} ± {half:.2g}, exact {exact:.6g}"
    assert half <= within * exact, f"too few observations: {said}"
    assert abs(mean - exact) <= half, said
