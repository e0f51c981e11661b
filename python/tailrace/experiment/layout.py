"""The part of an experiment that a diagnosis may know: its topology."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.experiment import places
from tailrace.experiment.catalogue import interactions
from tailrace.experiment.model import Experiment
from tailrace.topology import Balancer, Call, Node, Pool, Server, Topology


def topology(experiment: Experiment) -> Topology:
    servers, levels = places.servers(experiment), places.levels(experiment)
    group = _groups(experiment, servers)
    called = [(name, callee, call) for name, tier in experiment.tiers.items() for callee, call in tier.calls.items()]
    return Topology(
        nodes=tuple(
            Node(name=name, cores=int(node.cores) if node.cores.is_integer() else None)
            for name, node in places.nodes(experiment).items()
        ),
        servers=tuple(_server(experiment, server, levels[server.tier], group[server.tier]) for server in servers),
        calls=tuple(Call(caller=group[name], callee=group[callee]) for name, callee, _ in called),
        pools=tuple(pool for name, callee, _ in called for pool in _pools(experiment, name, callee, group)),
        balancers=tuple(
            Balancer(name=f"{name} to {callee}", server=group[name], candidates=(group[callee],), policy=call.policy)
            for name, callee, call in called
            if experiment.tiers[callee].count > 1
        ),
    )


def with_neighbours(known: Topology, experiment: Experiment) -> Topology:
    """Also the node on which each simulated neighbour burns CPU, which `host` states: a guest beside the servers of
    that machine."""
    on = {name: node for (node, _), name in places.neighbours(experiment).items()}
    hosts = tuple(n.model_copy(update={"host": n.name}) if n.name in on.values() else n for n in known.nodes)
    guests = tuple(Node(name=name, host=node) for name, node in on.items())
    return known.model_copy(update={"nodes": hosts + guests})


def _groups(experiment: Experiment, servers: tuple[places.Server, ...]) -> dict[str, str]:
    """The name by which calls mean all servers of each tier: that of the tier. Tier a11 has another one if tier a1 has
    a server a11."""
    tier_of = {server.name: server.tier for server in servers}
    return {name: name if tier_of.get(name, name) == name else f"{name} (all)" for name in experiment.tiers}


def _server(experiment: Experiment, server: places.Server, level: int, group: str) -> Server:
    tier = experiment.tiers[server.tier]
    holds = tier.kind != "async"
    workers = (tier.workers or 0) * tier.processes if holds else 0
    inside = workers + (tier.light_queue or 0)
    return Server(
        name=server.name,
        node=server.node,
        group=group if tier.count > 1 else None,
        tier=level,
        kind="sync" if holds else "async",
        protocol=tier.protocol,
        workers=workers or None,
        backlog=tier.backlog or None,
        # a backlog of n holds n + 1; a further process would start after the first overflow
        queue_max=inside + tier.backlog + 1 if inside else None,
    )


def _pools(experiment: Experiment, name: str, callee: str, group: Mapping[str, str]) -> list[Pool]:
    """One pool, which each caller has for each candidate; and one for each servlet where `pool_per` has them."""
    tier = experiment.tiers[name]
    call = tier.calls[callee]
    if not call.pool:
        return []
    scopes = call.pool_per or ()
    size = call.pool * (tier.processes if "process" in scopes else 1)
    asked: dict[str, tuple[str, ...]] = {}
    for one, found in interactions(experiment).items() if "interaction" in scopes else ():
        work, what = found.at.get(name) or found.at.get(tier.role or name), f", {found.servlet or one}"
        if work and work.calls:
            asked[what] = (*asked.get(what, ()), one)
    return [
        Pool(
            name=f"{name} to {callee}{what}",
            caller=group[name],
            callee=group[callee],
            size=size,
            interactions=its or None,
        )
        for what, its in (asked or {"": ()}).items()
    ]
