"""The part of an experiment that a diagnosis may know: its topology."""

from __future__ import annotations

from itertools import product

from tailrace.experiment import places
from tailrace.experiment.catalogue import interactions
from tailrace.experiment.model import Experiment
from tailrace.experiment.tiers import Tier
from tailrace.topology import Balancer, Call, Node, Pool, Server, Topology


def topology(experiment: Experiment) -> Topology:
    servers, levels = places.servers(experiment), places.levels(experiment)
    pairs = [
        (caller, callee, call)
        for name, tier in experiment.tiers.items()
        for callee, call in tier.calls.items()
        for caller in places.server_names(name, tier)
    ]
    return Topology(
        nodes=tuple(
            Node(name=name, cores=int(node.cores) if node.cores.is_integer() else None)
            for name, node in places.nodes(experiment).items()
        ),
        servers=tuple(_server(experiment, server, levels[server.tier]) for server in servers),
        calls=tuple(
            Call(caller=caller, callee=candidate)
            for caller, callee, _ in pairs
            for candidate in places.server_names(callee, experiment.tiers[callee])
        ),
        pools=tuple(
            pool
            for name, tier in experiment.tiers.items()
            for callee in tier.calls
            for pool in _pools(experiment, name, tier, callee)
        ),
        balancers=tuple(
            Balancer(
                name=f"{caller} to {callee}",
                server=caller,
                candidates=places.server_names(callee, experiment.tiers[callee]),
                policy=call.policy,
            )
            for caller, callee, call in pairs
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


def _server(experiment: Experiment, server: places.Server, level: int) -> Server:
    tier = experiment.tiers[server.tier]
    holds = tier.kind != "async"
    workers = (tier.workers or 0) * tier.processes if holds else 0
    inside = workers + (tier.light_queue or 0)
    return Server(
        name=server.name,
        node=server.node,
        tier=level,
        kind="sync" if holds else "async",
        protocol=tier.protocol,
        workers=workers or None,
        backlog=tier.backlog or None,
        # a backlog of n holds n + 1; a further process would start after the first overflow
        queue_max=inside + tier.backlog + 1 if inside else None,
    )


def _pools(experiment: Experiment, name: str, tier: Tier, callee: str) -> list[Pool]:
    """One pool for each caller, and for each candidate and servlet where `pool_per` has them."""
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
    ways = product(places.server_names(name, tier), places.server_names(callee, experiment.tiers[callee]))
    return [
        Pool(
            name=f"{caller} to {candidate}{what}", caller=caller, callee=candidate, size=size, interactions=its or None
        )
        for caller, candidate in ways
        for what, its in (asked or {"": ()}).items()
    ]
