"""From an experiment and its targets to the engine's plan (`crates/core/src/load/plan.rs`): names become indices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

from tailrace.bounds import LOAD_WORKERS
from tailrace.errors import UsageError
from tailrace.experiment import Experiment, arrivals, places
from tailrace.experiment.workloads import AnyWorkload, Closed
from tailrace.load import paths
from tailrace.load.targets import Target

Json = dict[str, Any]

WORKER_CLIENTS = 18_000
"""Clients of one worker by default: it can have 20,000 open files, or less if its limit is lower."""


@dataclass(frozen=True)
class Share:
    """The part of the load that this command runs: part `index` of `parts`, by `workers` processes."""

    index: int = 0
    parts: int = 1
    workers: int = 1

    @property
    def shares(self) -> int:
        return self.parts * self.workers

    def numbers(self) -> range:
        """Numbers of this command's workers among all workers."""
        return range(self.index * self.workers, (self.index + 1) * self.workers)


@dataclass(frozen=True)
class Settings:
    """Settings of a load beyond the experiment. Times are in ns."""

    drain: int = 10_000_000_000
    """How long to wait for answers after the end."""
    late_after: int = 10_000_000
    """If a request is sent this late, the time since then is invalid."""
    requests: int = 0
    """The most requests, of all shares together; 0: no limit."""
    sources: tuple[str, ...] = ()
    """Source addresses, used in turn."""
    headers: tuple[str, ...] = ()
    """`Name: value`, sent with every request."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Rows of the board's data (`paths.SIZES`)."""
    paths: Path | None = None
    epoch: int | None = None
    """Offset of the record's times from CLOCK_MONOTONIC. None: from the system clock at the begin."""


def plan(experiment: Experiment, targets: Sequence[Target], settings: Settings) -> Json:
    """The plan of all workers; `for_worker` makes that of one. Raises UsageError."""
    patterns = paths.read(settings.paths)
    known = paths.ranges(settings.sizes)
    classes: list[Json] = []
    numbers: dict[str, int] = {}

    def class_of(interaction: str) -> int:
        pattern = patterns.get(interaction, interaction if interaction.startswith("/") else f"/{interaction}")
        if interaction not in numbers:
            numbers[interaction] = len(classes)
            classes.append(paths.class_of(interaction, pattern, known))
        return numbers[interaction]

    names = _names(experiment, targets)
    workloads = [_workload(experiment, name, load, names, class_of) for name, load in experiment.workloads.items()]
    return {
        "seed": experiment.seed,
        "replication": experiment.replication,
        "duration": experiment.ramp + experiment.duration,
        "record_from": experiment.ramp,
        "drain": settings.drain,
        "late_after": settings.late_after,
        "sources": list(settings.sources),
        "targets": [_target(name, target, settings) for name, target in zip(names, targets, strict=True)],
        "classes": classes,
        "workloads": workloads,
    }


def for_worker(plan: Json, number: int, share: Share, requests: int, sockets: int) -> Json:
    """The part of one worker: its clients, and its part of a limited number of requests."""
    part, more = divmod(requests, share.shares)
    most = part + (number < more)
    return {**plan, "share": number, "shares": share.shares, "requests_max": most, "sockets_max": sockets}


def workers(experiment: Experiment, parts: int) -> int:
    """As many as the clients need, but no more than there are chains of think-time modes."""
    clients = sum(load.clients for load in experiment.workloads.values() if isinstance(load, Closed))
    return max(1, min(ceil(clients / parts / WORKER_CLIENTS), _chains(experiment)[1] // parts))


def workers_max() -> int:
    """The largest useful number of workers: two for each CPU, but at least `LOAD_WORKERS`."""
    return max(LOAD_WORKERS, 2 * (os.cpu_count() or 1))


def refuse(experiment: Experiment, share: Share, settings: Settings) -> None:
    """Refuses what this generator cannot do."""
    if share.workers > workers_max():
        raise UsageError(
            f"{share.workers:,} workers are too many: this machine can run {workers_max()}",
            advice="one worker has 18,000 clients and keeps a CPU busy; run parts of the load on other machines "
            "(--share)",
        )
    name, chains = _chains(experiment)
    if share.shares > chains:
        raise UsageError(
            f"workloads.{name} has one chain of think-time modes for each of {chains} client processes, so at "
            f"most {chains} workers can run it, got {share.shares}",
            advice=f"raise workloads.{name}.client_processes or lower --workers and --share",
        )
    silent = [name for name, one in experiment.interactions.items() if one.silent]
    if silent:
        raise UsageError(
            f"interactions.{silent[0]}.silent works only in the simulator",
            advice="the load generator sends a request on each of its connections",
        )
    for load_name, load in experiment.workloads.items():
        for key in ("hedge", "retry_budget", "retried_as_one"):
            if getattr(load, key):
                raise UsageError(
                    f"workloads.{load_name}.{key} works only in the simulator",
                    advice="the load generator sends no hedges, repeats without a budget, and counts each repetition",
                )
    if 0 < settings.requests < share.shares:
        raise UsageError(
            f"{settings.requests} requests are too few for {share.shares} workers", advice="lower --workers"
        )


def _chains(experiment: Experiment) -> tuple[str, int]:
    """The workload that can be divided into the fewest parts, and their number."""
    bursty = {
        name: load.client_processes
        for name, load in experiment.workloads.items()
        if isinstance(load, Closed) and load.index_of_dispersion > 1 and load.chain == "process"
    }
    name = min(bursty, key=lambda name: bursty[name], default="")
    return name, bursty.get(name, 2**31)


def _names(experiment: Experiment, targets: Sequence[Target]) -> list[str]:
    """Names of the servers: as given, or those of the experiment if there is one for each target, or their
    addresses."""
    entries = [name for tier in _asked(experiment) for name in places.server_names(tier, experiment.tiers[tier])]
    if not any(target.name for target in targets) and len(entries) == len(targets):
        return entries
    return [target.name or target.address for target in targets]


def _asked(experiment: Experiment) -> dict[str, None]:
    first = places.entries(experiment)[0]
    return dict.fromkeys(load.entry or first for load in experiment.workloads.values())


def _workload(experiment: Experiment, name: str, load: AnyWorkload, names: Sequence[str], class_of: Any) -> Json:
    begin = 0 if load.begin is None else experiment.ramp + load.begin
    return {
        "name": name,
        "targets": _asks(experiment, name, load, names),
        "choice": arrivals.choice(load, experiment.rubbos, class_of),
        "arrivals": arrivals.arrivals(load, experiment.ramp - begin, experiment.duration, class_of),
        "embedded": [class_of(interaction) for interaction in load.embedded],
        "kept": load.kept,
        "timeout": load.timeout,
        "retries": load.retries,
        "retry_pause": load.retry_pause,
        "begin": begin,
        "end": None if load.end is None else experiment.ramp + load.end,
    }


def _asks(experiment: Experiment, name: str, load: AnyWorkload, names: Sequence[str]) -> list[int]:
    """The targets of a workload: those with names of servers of its entry, or all if there is only one entry."""
    tier = load.entry or places.entries(experiment)[0]
    servers = places.server_names(tier, experiment.tiers[tier])
    called = [number for number, target in enumerate(names) if target in servers]
    if called:
        return called
    if len(_asked(experiment)) == 1:
        return list(range(len(names)))
    raise UsageError(
        f"workloads.{name} sends requests to {tier}, and no target has the name {' or '.join(servers)}",
        advice=f"say {servers[0]}=URL",
    )


def _target(name: str, target: Target, settings: Settings) -> Json:
    fields = (f"Host: {target.host}", "User-Agent: tailrace-load", "Accept: */*", *settings.headers)
    return {
        "name": name,
        "address": target.address,
        "fields": "".join(f"{line}\r\n" for line in fields),
        "prefix": target.prefix,
    }
