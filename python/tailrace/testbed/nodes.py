"""Assigns nodes to CPUs of this machine and starts them: namespaces, groups, and one room for each server.

A small machine has fewer CPUs than an experiment has nodes. The last CPUs then belong to the tiers that matter most:
first the one whose CPU is contended, then the application's. All other nodes, clients and monitors share CPU 0.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from math import ceil

from tailrace.errors import UsageError
from tailrace.experiment import Experiment, places
from tailrace.experiment.losses import NEIGHBOUR
from tailrace.experiment.model import Burn
from tailrace.testbed import net
from tailrace.testbed.cgroup import Group, mounted
from tailrace.testbed.ledger import Ledger, refuse_taken
from tailrace.testbed.program import Room
from tailrace.testbed.site import Site

CLIENTS, MONITORS = "clients", "monitors"
SHIELD = 250.0
"""The testbed's weight against everything else on the machine: at equal weights, other work made 40 % VLRT without any
stall. Programs outside of groups weigh 1 each: against 26 of them, a weight of 50 left a node two thirds of its CPU."""
WATCHERS = 4.0
"""Weight of clients and monitors against a node: on a shared CPU, a late client would measure its own lateness."""


@dataclass(frozen=True)
class Nodes:
    """The running nodes and servers: of each node its address and CPUs, of each server its room."""

    site: Site
    addresses: dict[str, str]
    cpus: dict[str, str]
    rooms: dict[str, Room]
    top: Group

    def group(self, node: str) -> Group:
        return Group(self.top.hierarchies, f"{self.top.path}/{node}")

    def groups(self) -> dict[str, tuple[Group, int]]:
        """The group of each node, server and neighbour, and how many CPUs it may use."""
        found = {node: self.group(node) for node in self.cpus if node != MONITORS}
        found |= {name: room.group for name, room in list(self.rooms.items()) if name not in (CLIENTS, MONITORS)}
        node_of = {name: group.path.split("/")[1] for name, group in found.items()}
        return {name: (group, self.cpus[node_of[name]].count(",") + 1) for name, group in found.items()}

    def groups_of(self, node: str) -> dict[str, Group]:
        """The groups of a node and of everything on it."""
        own = self.group(node).path
        return {name: group for name, (group, _) in self.groups().items() if f"{group.path}/".startswith(f"{own}/")}

    def beside(self, node: str, name: str, weight: float = 1.0) -> Room:
        """One more room in a node, for a neighbour of its servers."""
        group = Group(self.top.hierarchies, f"{self.top.path}/{node}/{name}").make(self.cpus[node], weight)
        return Room(self.site.namespace(node), group)


def up(site: Site, ledger: Ledger, experiment: Experiment, sysctls: dict[str, str]) -> Nodes:
    nodes = places.nodes(experiment)
    addresses = net.addresses([CLIENTS, *nodes])
    net.up(site, ledger, addresses, sysctls)
    every = sorted(os.sched_getaffinity(0))
    cpus = {CLIENTS: listed(every[:1]), MONITORS: listed(every[:1]), **pinned(experiment, every)}
    found = Nodes(site, addresses, cpus, {}, top(site, ledger, every))
    for node, on in cpus.items():
        found.group(node).make(on, WATCHERS if node in (CLIENTS, MONITORS) else 1.0)
        cores = nodes[node].cores if node in nodes else 1.0
        if not cores.is_integer():
            found.group(node).share(cores)
    for server in places.servers(experiment):
        tier = experiment.tiers[server.tier]
        room = found.rooms[server.name] = found.beside(server.node, server.name, tier.weight)
        if tier.quota:
            room.group.limit(tier.quota.time, tier.quota.period)
    found.rooms[CLIENTS] = found.beside(CLIENTS, "load")
    found.rooms[MONITORS] = Room(None, found.group(f"{MONITORS}/all").make(cpus[MONITORS]))
    found.rooms[MONITORS].group.be_prompt()
    return found


def top(site: Site, ledger: Ledger, cpus: list[int]) -> Group:
    """The group that contains all others."""
    group = Group(mounted(), site.group)
    there = group.known_by()
    remove = f"rmdir {' '.join(f'{root}/{group.path}' for root in there)}"
    refuse_taken(f"a control group {group.path}", bool(there), remove)
    ledger.note("group", group.path)
    group.place()
    ledger.made("group", group.path, json.dumps(group.known_by()))
    return group.make(listed(cpus), SHIELD)


def pinned(experiment: Experiment, every: list[int]) -> dict[str, str]:
    """The CPUs of each node, as the kernel lists them. Tiers that get fewer than they want share them."""
    nodes = places.nodes(experiment)
    first, *own = every
    found: dict[str, str] = {}
    for tier in sorted(experiment.tiers, key=lambda tier: _rank(experiment, tier)):
        mine = [
            server.node for server in places.servers(experiment) if server.tier == tier and server.node not in found
        ]
        wanted = {node: ceil(nodes[node].cores) for node in mine}
        too_many = next((node for node, cores in wanted.items() if cores > len(every)), None)
        if too_many:
            advice = f"--set nodes.{too_many}.cores={len(every)}, or a larger machine"
            raise UsageError(
                f"the testbed cannot do nodes.{too_many}.cores: there are {len(every)} CPUs", advice=advice
            )
        given = own[: sum(wanted.values())]
        own = own[len(given) :]
        turn = 0
        for node, cores in wanted.items():
            choice = (given or [first])[turn:] + (given or [first])[:turn]
            spare = [cpu for cpu in every if cpu not in choice]
            found[node] = listed([*choice, *spare][:cores])
            turn = (turn + cores) % len(given or [first])
    return found


def _rank(experiment: Experiment, tier: str) -> int:
    """The tier with a contended CPU comes first, then the application."""
    on = [server.node for server in places.servers(experiment)]
    mine = [server.node for server in places.servers(experiment) if server.tier == tier]
    burnt = [node for s in experiment.stalls if isinstance(s, Burn) for node in places.machines(experiment, s.place)]
    beside = {loss.place for loss in experiment.losses if loss.cause == NEIGHBOUR}
    burnt += [server.node for server in places.servers(experiment) if server.name in beside]
    if any(on.count(node) > 1 or node in burnt for node in mine):
        return 0
    return 1 if experiment.tiers[tier].role == "app" else 2


def listed(cpus: list[int]) -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus))
