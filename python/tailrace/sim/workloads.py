"""Workloads in the engine's plan: arrivals, what the clients request, and how they send it."""

from __future__ import annotations

from typing import Any

from tailrace.errors import InputError
from tailrace.experiment import Experiment, arrivals, places
from tailrace.experiment.kernels import schedule
from tailrace.experiment.workloads import AnyWorkload, Trace
from tailrace.sim.programs import Programs
from tailrace.toml import wrong_name

Json = dict[str, Any]


def workload(experiment: Experiment, name: str, load: AnyWorkload, programs: Programs, servers: dict[str, int]) -> Json:
    entry = load.entry or places.entries(experiment)[0]
    begin = 0 if load.begin is None else experiment.ramp + load.begin

    def class_of(interaction: str) -> int:
        if isinstance(load, Trace) and interaction not in programs.interactions:
            raise InputError(load.file, wrong_name("interaction", interaction, programs.interactions, "interaction"))
        return programs.asked(entry, interaction)

    return {
        "name": name,
        "entries": [servers[server] for server in places.server_names(entry, experiment.tiers[entry])],
        "choice": arrivals.choice(load, experiment.rubbos, class_of),
        "arrivals": arrivals.arrivals(
            load, experiment.ramp - begin, experiment.duration, class_of, list(experiment.tiers)
        ),
        "embedded": [class_of(interaction) for interaction in load.embedded],
        **({"embedded_apart": True} if load.embedded_apart else {}),
        "kept": load.kept,
        "syn": schedule(experiment, load.kernel),
        "timeout": load.timeout,
        "retries": load.retries,
        "retry_pause": load.retry_pause,
        "hedge": load.hedge,
        **({"hedge_elsewhere": True} if load.hedge_elsewhere else {}),
        **({"retried_as_one": True} if load.retried_as_one else {}),
        **({} if load.retry_budget is None else {"retry_budget": load.retry_budget}),
        "begin": begin,
        "end": None if load.end is None else experiment.ramp + load.end,
    }
