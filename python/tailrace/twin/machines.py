"""Nodes of the twin. Servers that share a node in the recording share it in the twin, so that one takes CPU time from
another there as well; a loss that the recording accounts to another of them is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.ledger.account import Account, Line
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.losses.neighbour import CAUSE as NEIGHBOUR
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.series import AT_WORK
from tailrace.diagnosis.view import View
from tailrace.twin.cpu import in_cpus, own_use
from tailrace.twin.structure import Structure

LEAST = 5
"""Samples in which several servers wanted a full CPU: of fewer, one that was sampled at the wrong moment counts."""
WEIGHTS = (0.01, 100.0)
"""Bounds of a CPU weight: Linux' are 1 and 10,000 around 100 (cgroup-v2, cpu.weight)."""


@dataclass(frozen=True)
class Machines:
    shared: Mapping[str, str]
    """Server → the node that it shares with another server."""
    cores: Mapping[str, float]
    """Of each server's node."""

    def nodes(self, found: Structure) -> dict[str, Any]:
        """`[nodes]`: the name of a tier means its own nodes. A tier of which some servers share a node names all."""
        own = {
            tier: {"cores": self.cores[servers[0]]}
            for tier, servers in found.members.items()
            if not set(servers) & self.shared.keys()
        }
        named = {
            name: {"cores": self.cores[server]}
            for servers in found.members.values()
            for server, name in zip(servers, self.of_tier(servers).get("node", ()), strict=False)
        }
        return own | named

    def of_tier(self, servers: tuple[str, ...]) -> dict[str, Any]:
        """The key `node` of a tier of which any server shares its node."""
        if not set(servers) & self.shared.keys():
            return {}
        return {"node": [self.shared.get(server, f"node of {server}") for server in servers]}

    def without_neighbours(self, seen: Seen, account: Account, lost: Mapping[Line, Shares]) -> dict[Line, Shares]:
        """Without what one server of the twin took from another on its node. What no cause accounts for is at most what
        all of them left of the node."""

        def beside(line: Line) -> bool:
            cause, server = line
            other = account.who(line)
            return cause == NEIGHBOUR and server in self.shared and self.shared.get(other or "") == self.shared[server]

        found = {line: share for line, share in lost.items() if not beside(line)}
        for cause, server in found:
            if cause == UNKNOWN and server in self.shared:
                found[cause, server] = np.minimum(found[cause, server], self._unused(seen, account, server))
        return found

    def _unused(self, seen: Seen, account: Account, server: str) -> Shares:
        """The share of the node of a server that no server on it used, by samples, or else by their visits."""
        used = np.zeros(len(seen.steps))
        for other, node in self.shared.items():
            if node == self.shared[server]:
                own = own_use(seen.view, other)
                cores = self.cores[other] if own is not None and in_cpus(seen.view, own) else 1.0
                used += account.busy(other) if own is None else own.extended(seen.steps.middles) / cores
        unused: Shares = np.clip(1.0 - used, 0.0, 1.0)
        return unused


def find(view: View, account: Account) -> Machines:
    number, topology = account.recorded.number, view.topology
    on: dict[str, list[str]] = {}
    for server in account.recorded.servers:
        node = topology.node_of(server)
        if node is not None and node.cores:  # of an unknown number of cores, servers may have one each
            on.setdefault(node.name, []).append(server)
    shared = {
        server: node if topology.server(node) is None else f"node {node}"
        for node, servers in on.items()
        if len(servers) > 1
        for server in servers
    }
    return Machines(shared, {server: account.replay.cores[number[server]] for server in account.recorded.servers})


def weights(seen: Seen, account: Account, machines: Machines) -> dict[str, float]:
    """CPU weights of servers that share a node, the first having 1: their CPU use while all had work and the node had
    no more."""
    found: dict[str, float] = {}
    for node in dict.fromkeys(machines.shared.values()):
        first, *others = (server for server, its in machines.shared.items() if its == node)
        for other in others:
            one, its = _used(seen, account, first), _used(seen, account, other)
            if one is None or its is None:
                continue
            (use, work), (its_use, its_work) = one, its
            full = (use + its_use >= AT_WORK) & (work >= AT_WORK) & (its_work >= AT_WORK) & (use > 0.0)
            if full.sum() >= LEAST:
                found[other] = float(np.clip(np.median(its_use[full] / use[full]), *WEIGHTS))
    return found


def _used(seen: Seen, account: Account, server: str) -> tuple[Shares, Shares] | None:
    """By sample, the CPU use of a server, and the share of the time that visits had work for it."""
    own = own_use(seen.view, server)
    if own is None:
        return None
    busy = np.array(account.replay.busy(account.recorded.number[server])) / STEP_NS
    sample, size = own.which(seen.steps.middles), len(own.end)
    count = np.maximum(np.bincount(sample, minlength=size), 1)
    return own.value, np.bincount(sample, weights=busy, minlength=size) / count
