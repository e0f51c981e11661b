"""One name for each server, node and place of several hosts.

A server is the same on two hosts if both see it at the same address. It gets the name that its own host uses. What two
hosts call the same without being the same gets the host's name before it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tailrace.dataset.connections import Connections, ServerConnections
from tailrace.errors import InputError
from tailrace.topology import Balancer, Call, Node, Pool, Server, Topology, distances

HOST = "host"
"""The recorder's name of the host as a whole."""
CLIENT = "client-"
"""Begins the name of a host on which no server was seen."""


@dataclass(frozen=True)
class Names:
    """What the names of one host become."""

    host: str
    servers: Mapping[str, str]
    nodes: Mapping[str, str]
    places: Mapping[str, str]
    """Places that the topology maps to a server or a node."""

    def place(self, text: str) -> str:
        if text in self.servers:
            return self.servers[text]
        if text in self.nodes:
            return self.nodes[text]
        node, colon, port = text.rpartition(":")
        if colon and node in self.nodes:
            return f"{self.nodes[node]}:{port}"
        return f"{self.host}/{text}"

    def caller(self, text: str) -> str:
        """A server, the address of a host, or a client as this host numbered it."""
        return f"{self.host}/{text}" if text.startswith(CLIENT) else self.server(text)

    def server(self, text: str) -> str:
        return self.servers.get(text, text)

    def pool(self, pool: Pool) -> Pool:
        ends = {"caller": self.server(pool.caller), "callee": self.server(pool.callee)}
        return pool.model_copy(update={"name": self.place(pool.name), **ends})

    def balancer(self, balancer: Balancer) -> Balancer:
        candidates = tuple(self.server(one) for one in balancer.candidates)
        moved = {"server": self.server(balancer.server), "candidates": candidates}
        return balancer.model_copy(update={"name": self.place(balancer.name), **moved})


@dataclass(frozen=True)
class Naming:
    hosts: Mapping[str, Names]
    topologies: Mapping[str, Topology]

    def topology(self, places: Iterable[str]) -> Topology:
        """The topology of all hosts. A place of samples that means nothing on its own host becomes a node of that host,
        so that it counts as a neighbour only there."""
        servers: dict[str, Server] = {}
        nodes: dict[str, Node] = {}
        calls: dict[tuple[str, str], Call] = {}
        mapped: dict[str, str] = {}
        cpus: dict[str, tuple[int, ...]] = {}
        pools: list[Pool] = []
        balancers: list[Balancer] = []
        for host, grouped in self.topologies.items():
            known = grouped.apart()
            names = self.hosts[host]
            for node in known.nodes:
                name, on = names.nodes[node.name], host if node.host == HOST else node.host
                nodes.setdefault(name, node.model_copy(update={"name": name, "host": on}))
            for server in known.servers:
                mine = server.model_copy(
                    update={"name": names.servers[server.name], "node": names.nodes.get(server.node or "")}
                )
                servers[mine.name] = _merged(servers.get(mine.name), mine, nodes)
            for call in known.calls:
                key = (names.server(call.caller), names.server(call.callee))
                calls.setdefault(key, call.model_copy(update={"caller": key[0], "callee": key[1]}))
            pools += [names.pool(pool) for pool in known.pools]
            balancers += [names.balancer(balancer) for balancer in known.balancers]
            mapped |= {names.place(place): names.place(to) for place, to in known.places.items()}
            cpus |= {names.place(place): numbers for place, numbers in known.cpus.items()}
        used = {one.node for one in servers.values()}
        nodes = {name: node for name, node in nodes.items() if name in used or node.host is not None}
        of_hosts = {f"{host}/": host for host in self.hosts}
        for place in places:
            owner = next((host for mark, host in of_hosts.items() if place.startswith(mark)), None)
            if owner and place not in mapped and place not in servers:
                nodes.setdefault(place, Node(name=place, host=owner))
        tiers = distances(list(servers), calls)
        return Topology(
            nodes=tuple(nodes.values()),
            servers=tuple(one.model_copy(update={"tier": tiers.get(one.name)}) for one in servers.values()),
            calls=tuple(calls.values()),
            pools=tuple(pools),
            balancers=tuple(balancers),
            places=mapped,
            cpus=cpus,
        )

    def connections(self, found: Mapping[str, Connections]) -> Connections:
        """For a server that several hosts see, the counts of the host that saw the most attempts: another host's are
        some of the same."""
        servers: dict[str, ServerConnections] = {}
        for host, of in found.items():
            for server, counts in of.servers.items():
                name = self.hosts[host].servers.get(server, server)
                before = servers.get(name)
                if before is None or counts.attempts > before.attempts:
                    servers[name] = counts
        apart = tuple(
            replace(one, to={self.hosts[host].servers.get(name, name): n for name, n in one.to.items()})
            for host, of in found.items()
            for one in of.apart
        )
        return Connections(servers=servers, apart=apart)


def of(topologies: Mapping[str, Topology]) -> Naming:
    chosen = _at_addresses(topologies)
    taken = set(chosen.values())
    hosts = {}
    for host, known in topologies.items():
        if not host or "/" in host or host == HOST:
            raise InputError(host, "this cannot be the name of a host", "give NAME=RUN")
        servers = {}
        for server in known.servers:
            name = next((chosen[address] for address in _addresses(server)), None)
            if name is None:
                name = f"{host}/{server.name}" if server.name in taken else server.name
                taken.add(name)
            servers[server.name] = name
        hosts[host] = Names(host, servers, {HOST: host, **_nodes(host, known, topologies)}, known.places)
    return Naming(hosts, topologies)


def _nodes(host: str, known: Topology, all_of: Mapping[str, Topology]) -> dict[str, str]:
    """The recorder's own name for the host becomes the host's name. A node with an address has it as its name on each
    host; two hosts may use any other name for different nodes."""
    others = {node.name for other, topology in all_of.items() if other != host for node in topology.nodes} | {*all_of}

    def named(node: Node) -> str:
        if node.name == HOST:
            return host
        return f"{host}/{node.name}" if node.name in others and node.name != node.address else node.name

    return {node.name: named(node) for node in known.nodes}


def _at_addresses(topologies: Mapping[str, Topology]) -> dict[str, str]:
    """Address → the server's name: on its own host, if that host has one, else the first that is not its address. A
    name that two addresses claim gets the host's name before it."""
    best: dict[str, tuple[int, str, str]] = {}
    for host, known in topologies.items():
        for server in known.servers:
            for address in _addresses(server):
                rank = 0 if server.node else 1 if server.name != address else 2
                best[address] = min(best.get(address, (3, "", "")), (rank, server.name, host), key=lambda one: one[0])
    chosen: dict[tuple[str, str], str] = {}
    for _, name, host in best.values():
        if (name, host) not in chosen:
            chosen[name, host] = f"{host}/{name}" if name in chosen.values() else name
    return {address: chosen[name, host] for address, (_, name, host) in best.items()}


def _addresses(server: Server) -> list[str]:
    """The addresses of a server at which other hosts can reach it."""
    ips = {address: ipaddress.ip_address(address.rpartition(":")[0].strip("[]")) for address in server.all_addresses}
    return [address for address, ip in ips.items() if not (ip.is_loopback or ip.is_unspecified)]


def _merged(one: Server | None, other: Server, nodes: Mapping[str, Node]) -> Server:
    """What either host knows of a server. Where both know it, the first one counts; of nodes, the one that was
    sampled."""
    if one is None:
        return other
    node = next((name for name in (one.node, other.node) if name and nodes[name].host), one.node or other.node)
    missing = {key: value for key, value in other.model_dump().items() if getattr(one, key) is None}
    return one.model_copy(update={**missing, "node": node})
