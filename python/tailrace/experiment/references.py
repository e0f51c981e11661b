"""Finds the first name that an experiment uses and does not declare, or values that contradict each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tailrace.experiment import burstiness, places, rubbos
from tailrace.experiment.interactions import JOINED_MOST, Interaction
from tailrace.experiment.machines import Governor
from tailrace.experiment.model import SYN_SCHEDULES, Burn, Experiment, Iowait, Lock, NoAnswer, PacketLoss
from tailrace.experiment.tiers import NAMES
from tailrace.experiment.workloads import Batch, Closed, Modulated, Workload, never
from tailrace.foreign import listed
from tailrace.toml import nearest, wrong_name
from tailrace.units import exact_duration, format_count

Use = tuple[str, str, set[str], str]
"""Key, the name used there, the declared names, what they name."""
REPEATS_MAX = 255
LEVELS_MAX = 100
"""Programs are built along the calls, each inside its caller's."""
_ROLES = ("web", "app", "middleware", "db")
"""Tiers of RUBBoS's interactions; a system need not have them all."""


def wrong(experiment: Experiment) -> str | None:
    for key, name, known, what in _uses(experiment):
        if name not in known:
            add = f"; to have such a node, add [nodes.{name}]" if what == "node" and name.isidentifier() else ""
            return wrong_name(key, name, known, what) + add
    return next(_contradictions(experiment), None)


def _uses(experiment: Experiment) -> Iterator[Use]:
    tiers = set(experiment.tiers)
    servers = places.servers(experiment)
    own = {name for name in tiers if places.own_nodes(experiment, name)}
    nodes = own | {server.node for server in servers}
    nodes_to_be = set(experiment.nodes) | own | {node for name in own for node in places.own_nodes(experiment, name)}
    known = set(rubbos.names()) | set(experiment.interactions)
    kernels = set(SYN_SCHEDULES)
    roles = tiers | {tier.role or name for name, tier in experiment.tiers.items()}
    yield from ((f"nodes.{name}", name, nodes, "node that a tier is on") for name in experiment.nodes)
    if isinstance(experiment.kernel.syn, str):
        yield "kernel.syn", experiment.kernel.syn, kernels, "kernel"
    for name, tier in experiment.tiers.items():
        yield from ((f"tiers.{name}.node", node, nodes_to_be, "node") for node in tier.node)
        for callee, call in tier.calls.items():
            yield f"tiers.{name}.calls.{callee}", callee, tiers - {name}, "tier"
            if call.kernel:
                yield f"tiers.{name}.calls.{callee}.kernel", call.kernel, kernels, "kernel"
    yield from (
        (f"rubbos.{key}.{name}", name, set(rubbos.asking()), "page that makes queries")
        for key in ("forms", "queries")
        for name in getattr(experiment.rubbos, key)
    )
    for name, interaction in experiment.interactions.items():
        for place, work in interaction.at.items():
            yield f"interactions.{name}.at.{place}", place, roles | set(_ROLES), "tier or role"
            for called, visits in work.calls.items():
                yield f"interactions.{name}.at.{place}.calls.{called}", called, known, "interaction"
                if visits.to:
                    yield f"interactions.{name}.at.{place}.calls.{called}.to", visits.to, tiers, "tier"
    for name, workload in experiment.workloads.items():
        yield from _uses_of_workload(f"workloads.{name}", workload, tiers, known, kernels)
    for number, stall in enumerate(experiment.stalls):
        if isinstance(stall, Iowait | Burn):
            yield f"stalls[{number}].place", stall.place, nodes, "node"
        else:
            yield f"stalls[{number}].place", stall.place, tiers | {server.name for server in servers}, "server or tier"
        if isinstance(stall, NoAnswer):
            asked = {name for name, tier in experiment.tiers.items() if tier.protocol == NAMES}
            asked |= {server.name for server in servers if server.tier in asked}
            yield f"stalls[{number}].place", stall.place, asked, 'server or tier with protocol = "dns"'
        if isinstance(stall, PacketLoss) and stall.sender:
            yield f"stalls[{number}].sender", stall.sender, tiers, "tier"
        if isinstance(stall, Lock):
            for i, name in enumerate(stall.interactions):
                yield f"stalls[{number}].interactions[{i}]", name, known, "interaction"
    for number, loss in enumerate(experiment.losses):
        yield f"losses[{number}].place", loss.place, {server.name for server in servers}, "server"


def _uses_of_workload(
    key: str, workload: Workload, tiers: set[str], known: set[str], kernels: set[str]
) -> Iterator[Use]:
    if workload.entry:
        yield f"{key}.entry", workload.entry, tiers, "tier"
    if workload.kernel:
        yield f"{key}.kernel", workload.kernel, kernels, "kernel"
    if workload.interaction:
        yield f"{key}.interaction", workload.interaction, known, "interaction"
    yield from ((f"{key}.mix.{name}", name, known, "interaction") for name in workload.mix)
    yield from ((f"{key}.embedded[{i}]", name, known, "interaction") for i, name in enumerate(workload.embedded))


def _contradictions(experiment: Experiment) -> Iterator[str]:
    yield from _contradictions_of_repeats(experiment)
    for name, node in experiment.nodes.items():
        if node.governor:
            yield from _contradictions_of_governor(f"nodes.{name}.governor", node.governor)
    yield from _contradictions_of_names(experiment)
    yield from _contradictions_of_tiers(experiment)
    for name, interaction in experiment.interactions.items():
        if not interaction.at and name not in rubbos.names():
            near = nearest(name, rubbos.names())
            yield f"interactions.{name}.at is missing: only changes to RUBBoS's interactions may omit it{near}"
        yield from _contradictions_of_calls(f"interactions.{name}", interaction)
    end = exact_duration(experiment.duration)
    for number, stall in enumerate(experiment.stalls):
        if stall.at >= experiment.duration:
            yield f"stalls[{number}].at must be before the end of the run, {end}"
        if stall.every and stall.every < stall.length:
            every, length = exact_duration(stall.every), exact_duration(stall.length)
            yield f"stalls[{number}].every must be at least for, {length}, got {every}: it would begin before it ends"
    yield from _contradictions_of_workloads(experiment)


def _contradictions_of_calls(key: str, interaction: Interaction) -> Iterator[str]:
    for place, work in interaction.at.items():
        calls = f"{key}.at.{place}.calls"
        for called, visits in work.calls.items():
            if visits.all and visits.count != 1:
                where = f"{calls}.{called}.count"
                yield f"{where} must be 1 where all is true: each candidate is called once, got {visits.count:g}"
        first = next(iter(work.calls), "")
        if first and work.calls[first].with_previous:
            yield f"{calls}.{first}.with_previous must be false: it is the first of the calls, and none is before it"
        if (most := max(map(len, work.steps()), default=0)) > JOINED_MOST:
            yield f"{calls} must have at most {format_count(JOINED_MOST)} that begin together, got {format_count(most)}"


def _contradictions_of_names(experiment: Experiment) -> Iterator[str]:
    """A place in samples and stalls means one server or one node."""
    servers = Counter(server.name for server in places.servers(experiment))
    [(name, times)] = servers.most_common(1)
    if times > 1:
        yield f"tiers must give different names to their servers, got {name!r} twice"
    shared = next((server.node for server in places.servers(experiment) if server.node in servers), None)
    if shared:
        yield f"nodes.{shared} must have another name: a server has this name"


def _contradictions_of_tiers(experiment: Experiment) -> Iterator[str]:
    levels = places.levels(experiment)
    for name, tier in experiment.tiers.items():
        if name not in levels and name in places.behind(experiment, [name]):
            yield f"tiers.{name}.calls must not lead back to it"
        if levels.get(name, 0) > LEVELS_MAX:
            yield f"tiers.{name} must be at most {LEVELS_MAX} tiers from the clients, got {levels[name]}"
        if tier.spawn and tier.spawn.processes_max < tier.processes:
            yield f"tiers.{name}.spawn.processes_max must be at least processes, {tier.processes}"
        if tier.heap and (tier.heap.old_every or tier.heap.old_above) and not tier.heap.old_collection:
            yield f"tiers.{name}.heap.old_collection is missing: state the cost of an old collection"
        if tier.quota and tier.quota.burst > tier.quota.time:
            time, burst = exact_duration(tier.quota.time), exact_duration(tier.quota.burst)
            yield f"tiers.{name}.quota.burst must be at most time, {time}, got {burst}"
        if tier.limit and not tier.limit.min <= tier.limit.initial <= tier.limit.max:
            limit = tier.limit
            yield f"tiers.{name}.limit.initial must be from min to max, {limit.min} to {limit.max}, got {limit.initial}"


def _contradictions_of_workloads(experiment: Experiment) -> Iterator[str]:
    entries = places.entries(experiment)
    apart = {name: load.embedded_apart for name, load in experiment.workloads.items() if load.embedded}
    counted = [name for name in apart if not apart[name]]
    if any(apart.values()) and counted:
        yield f"workloads.{counted[0]}.embedded_apart must be true, too: all workloads count what pages embed, or none"
    late = [never(workload, experiment.duration) for workload in experiment.workloads.values()]
    if (first := late[0]) is not None and None not in late:
        name, workload = next(iter(experiment.workloads.items()))
        key, end = "first" if isinstance(workload, Batch) else "begin", exact_duration(experiment.duration)
        yield f"workloads.{name}.{key} must be before the end of the run, {end}, got {exact_duration(first)}"
    for name, workload in experiment.workloads.items():
        begin = -experiment.ramp if workload.begin is None else workload.begin
        if workload.end is not None and workload.end <= begin:
            yield f"workloads.{name}.end must be after its begin"
        if 0 < workload.timeout <= workload.hedge:
            timeout, hedge = exact_duration(workload.timeout), exact_duration(workload.hedge)
            yield f"workloads.{name}.hedge must be less than timeout, {timeout}, got {hedge}"
        if workload.retried_as_one and workload.embedded:
            yield f"workloads.{name}.retried_as_one must be false where pages embed objects"
        if not workload.entry and len(entries) != 1:
            yield (
                f"workloads.{name}.entry is missing: name one of the tiers that no other tier calls ({listed(entries)})"
            )
        chosen = [key for key in ("walk", "mix", "interaction") if getattr(workload, key)]
        if len(chosen) > 1:
            yield f"workloads.{name} must have only one of walk, mix and interaction, got {' and '.join(chosen)}"
        if workload.mix and not any(workload.mix.values()):
            yield f"workloads.{name}.mix must have a weight above 0"
        yield from _contradictions_of_arrivals(f"workloads.{name}", workload)


def _contradictions_of_repeats(experiment: Experiment) -> Iterator[str]:
    """The number of a repeat is stored in a byte."""
    syn, data = experiment.kernel.syn, experiment.kernel.data
    for key, moments in (("syn", () if isinstance(syn, str) else syn), ("data", data)):
        if list(moments) != sorted(moments):
            yield f"kernel.{key} must be moments in order, got {', '.join(map(exact_duration, moments))}"
        if len(moments) > REPEATS_MAX:
            yield f"kernel.{key} must be at most {REPEATS_MAX} moments, got {len(moments)}"
    if data and not experiment.latency:
        yield "latency must be above 0 where kernel.data is given: without, the handshake's last ACK comes with its SYN"


def _contradictions_of_governor(key: str, governor: Governor) -> Iterator[str]:
    if list(governor.frequencies) != sorted(governor.frequencies):
        listed = ", ".join(f"{hertz / 1e9:g} GHz" for hertz in governor.frequencies)
        yield f"{key}.frequencies must be slowest first, for the last is full speed, got {listed}"
    if governor.start is not None and governor.start not in governor.frequencies:
        yield f"{key}.start must be one of its frequencies, got {governor.start / 1e9:g} GHz"
    if governor.down > governor.up:
        yield f"{key}.down must be at most up, {governor.up:g}, got {governor.down:g}"


def _contradictions_of_arrivals(key: str, workload: Workload) -> Iterator[str]:
    if isinstance(workload, Modulated) and len(workload.rates) != len(workload.stays):
        yield f"{key}.stays must be as many as rates, {len(workload.rates)}, got {len(workload.stays)}"
    if isinstance(workload, Modulated) and not any(workload.rates):
        yield f"{key}.rates must have one above 0"
    if isinstance(workload, Batch) and not (workload.mix or workload.interaction or workload.walk):
        yield f"{key}.interaction is missing: name the interaction of the batch"
    if isinstance(workload, Batch) and (workload.begin or 0) > workload.first_at:
        yield f"{key}.first must not be before its begin"
    if isinstance(workload, Closed) and workload.aggregate:
        yield from _contradictions_of_aggregate(key, workload)
    if isinstance(workload, Closed) and workload.index_of_dispersion != 1:
        if workload.think_scv != 1:
            yield f"{key}.think_scv must be 1 where index_of_dispersion is given, got {workload.think_scv!r}"
        problem = burstiness.problem(workload)
        if problem:
            yield f"{key}.{problem}"


def _contradictions_of_aggregate(key: str, workload: Closed) -> Iterator[str]:
    if not workload.think:
        yield f"{key}.think must be above 0 for aggregate thinkers"
    if 0 < workload.think_max < 7 * workload.think:
        yield f"{key}.think_max must be 0 or seven times think for aggregate thinkers, who think as long as they draw"
    if workload.start != "thinking":
        yield f"{key}.start must be thinking for aggregate thinkers, got {workload.start}"
    for name in ("think_scv", "index_of_dispersion"):
        if (value := getattr(workload, name)) != 1:
            yield f"{key}.{name} must be 1 for aggregate thinkers, got {value:g}"
