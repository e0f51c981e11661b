"""The names of an experiment's servers and nodes.

```text
[tiers.app]  count = 2            servers app1, app2    on nodes app1-node, app2-node
[tiers.db]                        server  db            on node  db-node
[tiers.x]    node = "app"         server  x             on node  app1-node: the name of a tier means its own nodes
[tiers.y]    node = "big"         server  y             on node  big, declared as [nodes.big]
```

A node never has the name of a server, so that a place in samples and stalls means one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tailrace.experiment.machines import Node
from tailrace.experiment.model import Burn, Experiment
from tailrace.experiment.tiers import Call, Tier
from tailrace.units import SECOND

MOD_JK_RECOVER = 60 * SECOND
"""The default of `recover_time`."""


@dataclass(frozen=True)
class Server:
    name: str
    tier: str
    node: str


def server_names(name: str, tier: Tier) -> tuple[str, ...]:
    return numbered(name, tier.count)


def numbered(name: str, count: int) -> tuple[str, ...]:
    """The name of each of so many: app1, app2; without a number if there is one."""
    return (name,) if count == 1 else tuple(f"{name}{number}" for number in range(1, count + 1))


def own_nodes(experiment: Experiment, tier: str) -> tuple[str, ...]:
    """The nodes of a tier without `node`."""
    found = experiment.tiers.get(tier)
    return () if found is None or found.node else tuple(f"{name}-node" for name in server_names(tier, found))


def machines(experiment: Experiment, name: str) -> tuple[str, ...]:
    """The nodes that a name means."""
    return own_nodes(experiment, name) or (name,)


def servers(experiment: Experiment) -> tuple[Server, ...]:
    """In the order of the file, each with its node."""
    found = []
    for name, tier in experiment.tiers.items():
        on = [node for named in tier.node or (name,) for node in machines(experiment, named)]
        names = server_names(name, tier)
        found += [Server(server, name, on[number % len(on)]) for number, server in enumerate(names)]
    return tuple(found)


def nodes(experiment: Experiment) -> dict[str, Node]:
    """In the order of their first use."""
    settings = {
        node: experiment.nodes.get(node) or experiment.nodes.get(tier)
        for tier in experiment.tiers
        for node in own_nodes(experiment, tier)
    }
    on = dict.fromkeys(server.node for server in servers(experiment))
    return {node: settings.get(node) or experiment.nodes.get(node) or Node() for node in on}


def cores(experiment: Experiment) -> dict[str, float]:
    """The most cores that each server can use at once, and the cores of each node."""
    found = {name: node.cores for name, node in nodes(experiment).items()}
    for server in servers(experiment):
        limit = experiment.tiers[server.tier].cores
        found[server.name] = min(limit or found[server.node], found[server.node])
    return found


def cores_of_tier(experiment: Experiment, tier: str) -> float:
    """The most cores that all servers of a tier can use at once: servers on one node share its cores."""
    every = cores(experiment)
    wanted: dict[str, float] = {}
    for server in servers(experiment):
        if server.tier == tier:
            wanted[server.node] = wanted.get(server.node, 0.0) + every[server.name]
    return sum(min(every[node], most) for node, most in wanted.items())


def turns(experiment: Experiment) -> dict[str, int]:
    """How much later than the first of them the flusher of each node wakes whose phases are even, ns."""
    found = {name: node.disk.writeback for name, node in nodes(experiment).items() if node.disk}
    even = {name: writeback.period for name, writeback in found.items() if writeback and writeback.phases == "even"}
    return {name: period * number // len(even) for number, (name, period) in enumerate(even.items())}


def neighbours(experiment: Experiment) -> dict[tuple[str, float], str]:
    """The name of the neighbour, by node and weight; stalls of one weight share a neighbour."""
    found: dict[tuple[str, float], str] = {}
    for stall in (stall for stall in experiment.stalls if isinstance(stall, Burn)):
        for node in machines(experiment, stall.place):
            beside = sum(other == node for other, _ in found)
            found.setdefault((node, stall.weight), f"{node}-neighbour{beside + 1 if beside else ''}")
    return found


def endpoint(experiment: Experiment, caller: str, callee: str, call: Call) -> str:
    """mod_jk polls where it balances; with a single candidate it waits."""
    if call.endpoint:
        return call.endpoint
    return "original" if _mod_jk(experiment, caller, callee) else "wait"


def recover_time(experiment: Experiment, caller: str, callee: str, call: Call) -> int:
    """How long a candidate stays in the error state, ns; by default only mod_jk has one."""
    if call.recover_time is not None:
        return call.recover_time
    return MOD_JK_RECOVER if _mod_jk(experiment, caller, callee) else 0


def _mod_jk(experiment: Experiment, caller: str, callee: str) -> bool:
    return experiment.tiers[callee].count > 1 and experiment.tiers[caller].software == "apache"


def entries(experiment: Experiment) -> tuple[str, ...]:
    """Tiers that no other tier calls."""
    called = {callee for tier in experiment.tiers.values() for callee in tier.calls}
    return tuple(name for name in experiment.tiers if name not in called)


def behind(experiment: Experiment, tiers: Iterable[str]) -> list[str]:
    """The tiers that these call, directly or not, each once."""
    reached = list(dict.fromkeys(callee for tier in tiers for callee in experiment.tiers[tier].calls))
    for tier in reached:  # grows during the loop
        reached += [callee for callee in experiment.tiers[tier].calls if callee not in reached]
    return reached


def levels(experiment: Experiment) -> dict[str, int]:
    """Longest distance of each tier from the clients; an entry has 1. Tiers in a cycle of calls, and behind it, have
    none."""
    callers = Counter(callee for tier in experiment.tiers.values() for callee in tier.calls)
    known = [name for name in experiment.tiers if not callers[name]]
    found = dict.fromkeys(known, 1)
    for name in known:  # grows during the loop
        for callee in experiment.tiers[name].calls:
            found[callee] = max(found.get(callee, 0), found[name] + 1)
            callers[callee] -= 1
            if not callers[callee]:
                known.append(callee)
    return {name: found[name] for name in known}
