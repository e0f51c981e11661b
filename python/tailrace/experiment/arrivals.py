"""Clients and arrivals in the form that the engines take (`crates/core/src/workload/plan.rs`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tailrace.errors import InputError
from tailrace.experiment import burstiness, rubbos, traces
from tailrace.experiment.interactions import Rubbos
from tailrace.experiment.workloads import AnyWorkload, Batch, Closed, Modulated, Poisson, Trace, Workload
from tailrace.units import exact_duration

Json = dict[str, Any]


def choice(load: Workload, content: Rubbos, class_of: Callable[[str], int]) -> Json:
    """Independent draws, or the walk through pages. From the walk, the engine draws pages for clients that do not stay.
    `class_of` numbers interactions."""
    if isinstance(load, Trace) and (names := traces.read(load.file).names):
        return {
            "mix": [[class_of(name), 1.0] for name in dict.fromkeys(names)]
        }  # never drawn: the file names the interactions
    if load.interaction:
        return {"mix": [[class_of(load.interaction), 1.0]]}
    if load.mix:
        return {"mix": [[class_of(name), weight] for name, weight in load.mix.items() if weight]}
    walked = load.walk or "browse-only"
    users, authors = rubbos.walk(walked)
    walk = _walk(users, content, class_of)
    if authors:
        walk |= {"other": _walk(authors, content, class_of), "other_share": load.authors}
    return {"walk": walk}


def _walk(table: rubbos.Table, content: Rubbos, class_of: Callable[[str], int]) -> Json:
    """The states that the walk can reach; the rows of other states hold leftovers."""
    reached = [table.states.index(rubbos.HOME)]
    for state in reached:  # grows during the loop
        reached += [to for to, chance in enumerate(table.rows[state]) if chance > 0 and to not in reached]
    reached.sort()
    names = [table.states[state] for state in reached]
    dead_ends = [
        {"state": names.index(name), "share": share, "to": [names.index(to) for to in links if to in names]}
        for name, (share, links) in rubbos.dead_ends(content).items()
        if share > 0 and name in names
    ]
    return {
        "classes": [class_of(name) for name in names],
        "transitions": [[table.rows[state][to] for to in reached] for state in reached],
        "back": [table.back[state] for state in reached],
        "end": [table.end[state] for state in reached],
        "start": names.index(rubbos.HOME),
        "length_max": rubbos.SESSION_MAX,
    } | ({"dead_ends": dead_ends} if dead_ends else {})


def arrivals(
    load: AnyWorkload, ramp: int, end: int, class_of: Callable[[str], int], tiers: Sequence[str] | None = None
) -> Json:
    """`ramp` is the rest of the ramp when the workload begins (negative if it begins later); `end` is that of the
    run. Recorded clients wait for answers, and recorded requests have their own work in these `tiers`; without any,
    each is sent at its recorded time, and its work is unknown."""
    match load:
        case Closed():
            return {"closed": _closed(load)}
        case Poisson():
            return {"poisson": {"rate": load.rate}}
        case Modulated():
            return {"modulated": {"rates": list(load.rates), "stays": list(load.stays)}}
        case Batch():
            return {"batch": {"size": load.size, "first": ramp + load.first_at, "period": load.every}}
        case Trace():
            requests = traces.read(load.file)
            times = requests.times
            if not times or times[0] >= end:
                raise InputError(load.file, f"no request comes before the end of the run, {exact_duration(end)}")
            if ramp + times[0] < 0:
                found = f"the first request comes at {exact_duration(times[0])}, before the workload begins"
                raise InputError(load.file, found, f"it begins at {exact_duration(-ramp)}")
            if tiers is None:
                return {"trace": traces.plan(replace(requests, clients=[], thinks=[], factors={}), ramp, class_of, ())}
            return {"trace": traces.lowered(load.file, ramp, class_of, tiers)}


def _closed(load: Closed) -> Json:
    lowered: Json = {
        "clients": load.clients,
        "think": law(float(load.think), load.think_scv),
        "think_max": load.think_max,
        "spread": {"thinking": None, "staggered": load.think, "at once": 0}[load.start],
        "aggregate": load.aggregate,
    }
    if load.index_of_dispersion > 1:
        modes = burstiness.fit(load)
        lowered["chain"] = {
            "slow": modes.slow,
            "fast": modes.fast,
            "to_fast": modes.to_fast,
            "to_slow": modes.to_slow,
            "chains": load.client_processes if load.chain == "process" else 0,
        }
    return lowered


def law(mean: float, scv: float) -> Json:
    """A distribution with this mean (ns) and squared coefficient of variation. Above 1 it has two exponentials with
    balanced means (Tijms, Stochastic Models, 1994), which mean and SCV determine."""
    if scv == 0:
        return {"constant": mean}
    if scv == 1:
        return {"exponential": mean}
    if scv < 1:
        return {"erlang": {"mean": mean, "shape": round(1 / scv)}}
    share = (1 + ((scv - 1) / (scv + 1)) ** 0.5) / 2
    return {"hyperexponential": {"share": share, "first": mean / (2 * share), "second": mean / (2 * (1 - share))}}
