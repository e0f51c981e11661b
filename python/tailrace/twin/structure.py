"""Servers of a recording as tiers of an experiment: the candidates of one balancer are one tier."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tailrace.topology import Topology


@dataclass(frozen=True)
class Structure:
    members: Mapping[str, tuple[str, ...]]
    """Tier → its servers, as the recording names them."""
    policy: Mapping[tuple[str, str], str]
    """Calling and called tier → the balancer's policy."""

    @cached_property
    def tier(self) -> dict[str, str]:
        """Server → its tier."""
        return {server: tier for tier, servers in self.members.items() for server in servers}

    @cached_property
    def name(self) -> dict[str, str]:
        """Server → its name in the twin."""
        return {
            server: tier if len(servers) == 1 else f"{tier}{number}"
            for tier, servers in self.members.items()
            for number, server in enumerate(servers, 1)
        }


def find(topology: Topology, servers: tuple[str, ...]) -> Structure:
    members: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    for balancer in topology.balancers:
        candidates = dict.fromkeys(one for name in balancer.candidates for one in topology.members(name))
        group = tuple(name for name in candidates if name in servers)
        if len(group) > 1 and not taken & set(group):
            members[_stem(group, servers)] = group
            taken |= set(group)
    members |= {name: (name,) for name in servers if name not in taken}
    ordered = dict(sorted(members.items(), key=lambda item: servers.index(item[1][0])))
    tier = {server: name for name, group in ordered.items() for server in group}
    policy = {
        (tier[server], tier[balancer.candidates[0]]): balancer.policy
        for server in servers
        for balancer in topology.balancers_of(server)
        if balancer.policy and balancer.candidates and balancer.candidates[0] in tier
    }
    return Structure(ordered, policy)


def _stem(group: tuple[str, ...], servers: tuple[str, ...]) -> str:
    """The name of a tier whose servers are called NAME1 to NAMEn; else one that no server has."""
    stem = re.sub(r"\d+$", "", group[0])
    if stem and stem not in servers and group == tuple(f"{stem}{number}" for number in range(1, len(group) + 1)):
        return stem
    return f"{group[0]} and others"
