"""What the testbed cannot do of an experiment is refused by name before anything is created; notes say what it does
differently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tailrace.errors import UsageError
from tailrace.experiment import Experiment, places, rubbos
from tailrace.experiment.losses import NEIGHBOUR
from tailrace.experiment.model import Lock
from tailrace.experiment.tiers import Tier
from tailrace.testbed import disk, lossy, swap, syn
from tailrace.testbed.servers import KINDS
from tailrace.testbed.settings import settings
from tailrace.units import MILLISECOND, format_duration

Refusal = tuple[str, str]

SIMULATED = {
    "iowait": "real waiting needs a busy disk: use nodes.NAME.disk with a flush",
    "dns": "it has no server of names",
    "restart": "a real server that is restarted refuses connections, and its callers get errors",
}
"""Stalls that only the simulator makes, and why."""
NEEDS = {"memory": swap.problem, "packet-loss": lossy.problem}
"""Why this machine cannot make a stall of a kind."""
HELD = "visits wait for it, and the server loses no capacity"
BUSY_DISK = "real waiting needs a busy disk: use nodes.NAME.disk"
ARISES = "it arises by itself from requests that hold places, or are many at once"
NOT_TAKEN = SIMULATED | {
    "memory": "use a stall of this kind",
    "lock": HELD,
    "packet-loss": HELD,
    "log-flush": BUSY_DISK,
    "writeback": BUSY_DISK,
    "log-flush or writeback": BUSY_DISK,
    "concurrency-overhead": ARISES,
    "soft-resource": ARISES,
}
"""Causes of losses that no control group can take from a server, and why."""
TAKEN = ("freeze", "garbage-collection", "cpu-quota", "frequency-step", NEIGHBOUR, "own-work", "unknown")
"""The others, by the diagnosis's names: `stalls.losing` takes them."""


def refuse(experiment: Experiment) -> None:
    for key, why in _refusals(experiment):
        raise UsageError(f"the testbed cannot do {key}: {why}")


def notes(experiment: Experiment) -> list[str]:
    """What real servers do in their own way, whatever the experiment says."""
    own = [name for name, tier in experiment.tiers.items() if tier.software not in ("tomcat", "xtomcat")]
    return [
        f"{', '.join(own)}: a visit takes the real server's CPU time; only the simulator uses demands",
        *(
            f"{name}: the server has a thread for each connection; only the simulator has {tier.workers} workers"
            for name, tier in experiment.tiers.items()
            if tier.software == "mysql" and tier.kind == "sync" and tier.workers
        ),
        *(
            f"{loss.place}: what it lost to {loss.cause} is withheld by a CPU quota, which samples show"
            for loss in experiment.losses
            if loss.cause not in (NEIGHBOUR, "cpu-quota")
        ),
    ]


def _refusals(experiment: Experiment) -> Iterator[Refusal]:
    from tailrace._core import SAMPLING_NS

    least, most = SAMPLING_NS
    for name, tier in experiment.tiers.items():
        if tier.software not in KINDS:
            yield f"tiers.{name}.software", _software(tier)
        if tier.spawn and tier.software != "apache":
            yield f"tiers.{name}.spawn", "only Apache starts further processes"
        if tier.quota and tier.quota.burst:
            yield f"tiers.{name}.quota.burst", "it sets the quota and its period"
        if tier.cores:
            yield f"tiers.{name}.cores", f"control groups limit a server by nodes.{name}.cores or by tiers.{name}.quota"
        if tier.limit:
            yield f"tiers.{name}.limit", "its servers have fixed limits: workers, backlog, pools"
        if tier.order != "arrival":
            yield f"tiers.{name}.order", "its servers do not know the interaction of a request; try calls.NAME.priority"
    if not least <= experiment.sampling.interval <= most:
        apart = f"{format_duration(least)} to {format_duration(most)} apart"
        yield "sampling.interval", f"the recorder takes samples {apart}"
    yield from _of_machines(experiment)
    yield from _of_workloads(experiment)
    nowhere = dict.fromkeys(places.nodes(experiment), "")
    for setting in settings(experiment, nowhere, Path()).values():
        for key, why in KINDS[setting.tier.software or ""].refuses(setting):
            yield f"tiers.{setting.name}.{key}", why


def _software(tier: Tier) -> str:
    if tier.software:
        return f"it must be one of {', '.join(KINDS)}, got {tier.software}"
    chain = "a database at the end, Tomcat before it, and Apache or nginx before Tomcat"
    return f"it must be one of {', '.join(KINDS)}: without one, it plays {chain}"


def _of_machines(experiment: Experiment) -> Iterator[Refusal]:
    if experiment.latency > MILLISECOND:
        yield "latency", "packets pass from namespace to namespace in some tens of µs"
    if problem := syn.problem(experiment):
        yield "kernel.syn", problem
    if experiment.kernel.data:
        yield "kernel.data", "this machine's kernel repeats data in its own way"
    for name, node in places.nodes(experiment).items():
        if node.disk and node.disk.writeback and node.disk.writeback.phases == "drawn":
            yield f"nodes.{name}.disk.writeback.phases", "its flushers wake at even times"
        if node.disk and (why := disk.problem()):
            yield f"nodes.{name}.disk", why
    yield from _of_losses(experiment)
    for number, stall in enumerate(experiment.stalls):
        if why := SIMULATED.get(stall.kind) or NEEDS.get(stall.kind, lambda: None)():
            yield f"stalls[{number}].kind", why
        if isinstance(stall, Lock):
            yield from _of_lock(experiment, f"stalls[{number}]", stall)


def _of_lock(experiment: Experiment, key: str, lock: Lock) -> Iterator[Refusal]:
    tier = next(server.tier for server in places.servers(experiment) if lock.place in (server.name, server.tier))
    if experiment.tiers[tier].software != "mysql":
        yield f"{key}.place", "only the tables of a database can be locked"
    if lock.interactions:
        yield f"{key}.interactions", "a lock is on tables: name them in `tables`"


def _of_losses(experiment: Experiment) -> Iterator[Refusal]:
    node_of = {server.name: server.node for server in places.servers(experiment)}
    for number, loss in enumerate(experiment.losses):
        if loss.cause not in TAKEN:
            why = NOT_TAKEN.get(loss.cause, f"it takes capacity as {', '.join(TAKEN)} do")
            yield f"losses[{number}].cause = {loss.cause}", why
        beside = [other for other, node in node_of.items() if node == node_of[loss.place] and other != loss.place]
        if loss.cause == NEIGHBOUR and beside:
            yield f"losses[{number}]", f"a neighbour on the node would take as much from {', '.join(beside)}"


def _of_calls(experiment: Experiment) -> Iterator[Refusal]:
    for name, interaction in experiment.interactions.items():
        for place, work in interaction.at.items():
            for called, visits in work.calls.items():
                for key in ("parallel", "with_previous"):
                    if getattr(visits, key):
                        where = f"interactions.{name}.at.{place}.calls.{called}.{key}"
                        yield where, "its servers make one call after another: a page waits for each answer"


def _of_workloads(experiment: Experiment) -> Iterator[Refusal]:
    pages = {*rubbos.states(), rubbos.LOGO}
    for name in pages & experiment.interactions.keys():
        if experiment.interactions[name].servlet:
            yield f"interactions.{name}.servlet", "the bulletin board has servlets of its own, RUBBoS's"
    for name, interaction in experiment.interactions.items():
        if interaction.silent:
            yield f"interactions.{name}.silent", "the load generator sends a request on each of its connections"
    yield from _of_calls(experiment)
    for name, load in experiment.workloads.items():
        if load.kernel and load.kernel != experiment.kernel.syn:
            yield f"workloads.{name}.kernel", "all of its nodes run on one kernel"
        asked = [*load.mix, *([load.interaction] if load.interaction else []), *load.embedded]
        other = next((page for page in asked if page not in pages), None)
        if other:
            yield f"workloads.{name}", f"the bulletin board has no page {other}"
    for caller, tier in experiment.tiers.items():
        for callee, call in tier.calls.items():
            key = f"tiers.{caller}.calls.{callee}"
            if call.kernel and call.kernel != experiment.kernel.syn:
                yield f"{key}.kernel", "all of its nodes run on one kernel"
            if call.hedge:
                yield f"{key}.hedge", "its servers send each call once"
            if call.connect_timeout:
                yield f"{key}.connect_timeout", "its servers wait as long as the kernel repeats an attempt"
            if call.recover_time and tier.software != "apache":
                yield f"{key}.recover_time", "only its balancer mod_jk has an error state"
