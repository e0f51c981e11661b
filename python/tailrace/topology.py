"""Servers, the calls between them, and their limits: `topology.toml`.

Unknown keys are left out and stay None; nothing here guesses. Servers and nodes are found by name. `places` maps the
places of samples and events (a collectl host, a cgroup) to those names where the two differ.
"""

from __future__ import annotations

import heapq
import ipaddress
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, Field
from pydantic_core import ErrorDetails

from tailrace import toml, whole
from tailrace.bounds import CALLS, PATH_CHARACTERS, SERVERS
from tailrace.errors import InputError, UsageError
from tailrace.toml import Count, Name, Table


def _ip_address(text: str) -> str:
    ipaddress.ip_address(text)
    return text


def endpoint(text: str) -> str:
    """`ip:port` as it may appear in a packet. No program listens at port 0, but a packet may contain it."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError
    ipaddress.ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    return text


CpuNumber = Annotated[int, Field(ge=0, lt=2**16, strict=True)]
Nanoseconds = Annotated[int, Field(gt=-(2**63), lt=2**63, strict=True)]
Address = Annotated[str, AfterValidator(_ip_address)]
Endpoint = Annotated[str, AfterValidator(endpoint)]


class Node(Table):
    """A machine, container or network namespace, which has its CPUs, memory and disks in common."""

    name: Name
    address: Address | None = None
    cores: Count | None = None
    host: Name | None = None
    """The machine that it is on: nodes of one host may share its CPUs, unless they are pinned to different ones."""


class Server(Table):
    """A program that listens at one address."""

    name: Name
    address: Endpoint | None = None
    """`ip:port`, `[ip]:port` for IPv6."""
    node: Name | None = None
    tier: Annotated[Count, Field(le=SERVERS)] | None = None
    """Longest distance from the clients in the call graph; the entry server has 1."""
    kind: Literal["sync", "async"] | None = None
    """Whether a worker is held while a request waits downstream."""
    protocol: Name | None = None
    workers: Count | None = None
    backlog: Count | None = None
    queue_max: Count | None = None
    """The most requests that it can hold at once, waiting ones included, before it drops."""
    kept: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    """The share of its visits that a sampler kept at random."""
    chosen: bool | None = None
    """Whether its requests were kept for what happened in them (tail sampling)."""


class Call(Table):
    """Server `caller` calls server `callee`."""

    caller: Name
    callee: Name
    visits_mean: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Visits to the callee per visit to the caller."""


class Pool(Table):
    """A limit on the connections of one caller to one callee."""

    name: Name
    caller: Name
    callee: Name
    size: Count
    interactions: Annotated[tuple[Name, ...], Field(min_length=1, max_length=SERVERS)] | None = None
    """Only the calls of visits for one of these use the pool. Default: all calls."""


class Balancer(Table):
    """`server` spreads its calls over `candidates`."""

    name: Name
    server: Name
    candidates: Annotated[tuple[Name, ...], Field(max_length=SERVERS)]
    policy: Name | None = None


class Clock(Table):
    """Time of `capture` + `offset_ns` = time of the first capture, to within `bound_ns`."""

    capture: Annotated[str, Field(min_length=1, max_length=PATH_CHARACTERS)]
    offset_ns: Nanoseconds
    bound_ns: Annotated[Nanoseconds, Field(ge=0)] | None = None


class Topology(Table):
    nodes: Annotated[tuple[Node, ...], Field(max_length=SERVERS)] = ()
    servers: Annotated[tuple[Server, ...], Field(max_length=SERVERS)] = ()
    calls: Annotated[tuple[Call, ...], Field(max_length=CALLS)] = ()
    pools: Annotated[tuple[Pool, ...], Field(max_length=SERVERS)] = ()
    balancers: Annotated[tuple[Balancer, ...], Field(max_length=SERVERS)] = ()
    clocks: Annotated[tuple[Clock, ...], Field(max_length=SERVERS)] = ()
    places: Annotated[Mapping[Name, Name], Field(max_length=CALLS)] = Field(default_factory=dict)
    """Place in samples and events → name of a server or node."""
    cpus: Annotated[Mapping[Name, tuple[CpuNumber, ...]], Field(max_length=CALLS)] = Field(default_factory=dict)
    """Place in samples → numbers of the CPUs of its host that it may use, where it may not use all."""

    @cached_property
    def _index(self) -> _Index:
        return _Index.of(self)

    def __copy__(self) -> Topology:
        copied = super().__copy__()
        copied.__dict__.pop("_index", None)  # the copy may be given other servers
        return copied

    def server(self, name: str) -> Server | None:
        return self._index.servers.get(name)

    def node(self, name: str) -> Node | None:
        return self._index.nodes.get(name)

    def callers_of(self, name: str) -> tuple[str, ...]:
        return tuple(self._index.callers.get(name, ()))

    def callees_of(self, name: str) -> tuple[str, ...]:
        return tuple(self._index.callees.get(name, ()))

    def downstream_of(self, name: str) -> tuple[str, ...]:
        """Every server that calls from `name` reach, nearest first, without `name` itself."""
        reached = {name: None}
        waiting = deque([name])
        while waiting:
            for callee in self._index.callees.get(waiting.popleft(), ()):
                if callee not in reached:
                    reached[callee] = None
                    waiting.append(callee)
        return tuple(reached)[1:]

    def node_of(self, server: str) -> Node | None:
        """The node that a server runs on; None if unknown."""
        known = self.server(server)
        return self.node(known.node) if known and known.node else None

    def servers_on(self, node: str) -> tuple[Server, ...]:
        return tuple(self._index.servers_on.get(node, ()))

    def place_to_server(self, place: str) -> Server | None:
        """The server that a place of samples or events means: mapped, by name, by address, or alone on the node of that
        name. None for a node with several servers, and for an unknown place."""
        server = self._index.server_places.get(self.places.get(place, place))
        if server is not None:
            return server
        node = self.place_to_node(place)
        alone = self.servers_on(node.name) if node else ()
        return alone[0] if len(alone) == 1 else None

    def called(self, place: str) -> str:
        """A place of samples or events in the terms of a reader: the server that it is mapped to, or its own name."""
        target = self.places.get(place, place)
        return target if self.server(target) else place

    def place_to_node(self, place: str) -> Node | None:
        """Find the node for a place of samples or events: by the mapping, its name, its address or a server's name."""
        target = self.places.get(place, place)
        node = self._index.node_places.get(target)
        server = self._index.server_places.get(target) if node is None else None
        return self.node(server.node) if server and server.node else node


@dataclass(frozen=True)
class _Index:
    """Indexes for looking up servers and nodes. If several match, the first counts."""

    servers: dict[str, Server] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    server_places: dict[str, Server] = field(default_factory=dict)
    node_places: dict[str, Node] = field(default_factory=dict)
    servers_on: dict[str, list[Server]] = field(default_factory=dict)
    callers: dict[str, dict[str, None]] = field(default_factory=dict)
    callees: dict[str, dict[str, None]] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology) -> _Index:
        index = cls()
        for server in topology.servers:
            index.servers.setdefault(server.name, server)
            for place in (server.name, server.address):
                index.server_places.setdefault(place or server.name, server)
            if server.node:
                index.servers_on.setdefault(server.node, []).append(server)
        for node in topology.nodes:
            index.nodes.setdefault(node.name, node)
            for place in (node.name, node.address):
                index.node_places.setdefault(place or node.name, node)
        for call in topology.calls:
            index.callers.setdefault(call.callee, {})[call.caller] = None
            index.callees.setdefault(call.caller, {})[call.callee] = None
        return index


def distances(names: Collection[str], calls: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The longest distance from the clients; a server that no other calls is 1. A cycle is entered at its server that
    fewest others call, the first by name, as if the calls to it from within the cycle were not there."""
    callers: dict[str, set[str]] = {name: set() for name in names}
    callees: dict[str, set[str]] = {name: set() for name in names}
    for caller, callee in calls:
        if caller != callee:
            callers[callee].add(caller)
            callees[caller].add(callee)
    waits = {name: len(found) for name, found in callers.items()}
    entries = [(count, name) for name, count in waits.items()]
    heapq.heapify(entries)
    tiers: dict[str, int] = {}
    while entries:
        count, name = heapq.heappop(entries)
        if name in tiers or count != waits[name]:
            continue
        tiers[name] = 1 + max((tiers[caller] for caller in callers[name] if caller in tiers), default=0)
        for callee in callees[name]:
            if callee not in tiers:
                waits[callee] -= 1
                heapq.heappush(entries, (waits[callee], callee))
    return tiers


def read(path: str | PathLike[str], *, untrusted: bool = False) -> Topology:
    """Read `topology.toml`; `untrusted` if it comes from a folder that somebody else made. An error names the file, the
    key and what the key must be."""
    return from_table(toml.read(path, "docs/reference/topology.md", untrusted=untrusted), path)


def known_servers(servers: Mapping[str, str], topology: Topology | None) -> dict[str, str]:
    """Names that the user gave to addresses; --server takes precedence over a topology file."""
    known = {s.name: s.address for s in topology.servers if s.address} if topology else {}
    for name, address in servers.items():
        try:
            known[name] = endpoint(address)
        except ValueError:
            said = f"--server {name}={address}: the address must have the form ip:port"
            raise UsageError(said, advice="such as 10.0.0.3:80 or [::1]:80") from None
    addresses: dict[str, str] = {}
    for name, address in known.items():
        other = addresses.setdefault(address, name)
        if other != name:
            raise UsageError(f"{address} has two names, {other} and {name}", advice="give it one name")
    return known


def from_table(table: Mapping[str, Any], path: str | PathLike[str] = "topology.toml") -> Topology:
    """Check a table of plain values; errors name `path`."""
    topology = toml.check(Topology, table, path, _need)
    wrong = _wrong_reference(topology)
    if wrong:
        raise InputError(path, wrong)
    return topology


def write(topology: Topology, path: str | PathLike[str]) -> None:
    """Write `topology.toml`, without unknown keys."""
    table = topology.model_dump(mode="json", exclude_none=True)
    kept = {key: value for key, value in table.items() if value}
    whole.write(Path(path), tomli_w.dumps(kept).encode())


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `topology.toml`, for editors."""
    return Topology.model_json_schema()


def _need(error: ErrorDetails) -> str | None:
    """Descriptions of keys that are clearer than their types."""
    field = error["loc"][-1] if error["loc"] else ""
    if field in ("offset_ns", "bound_ns"):
        return "a whole number of nanoseconds" + (", 0 or more" if field == "bound_ns" else "")
    if error["type"] == "value_error":
        return "ip:port, such as 10.0.0.3:80 or [::1]:80" if "servers" in error["loc"] else "an IP address"
    return None


def _wrong_reference(topology: Topology) -> str | None:
    """The first name that is used twice, or used and not declared."""
    servers = {server.name for server in topology.servers}
    nodes = {node.name for node in topology.nodes}
    for kind in ("nodes", "servers", "pools", "balancers"):
        repeated = [name for name, n in Counter(item.name for item in getattr(topology, kind)).items() if n > 1]
        if repeated:
            return f"{kind} must have different names, got {repeated[0]!r} twice"
    uses: list[tuple[str, str, set[str], str]] = [
        (f"servers[{i}].node", server.node, nodes, "node") for i, server in enumerate(topology.servers) if server.node
    ]
    for kind in ("calls", "pools"):
        for i, item in enumerate(getattr(topology, kind)):
            uses += [(f"{kind}[{i}].{end}", getattr(item, end), servers, "server") for end in ("caller", "callee")]
    for i, balancer in enumerate(topology.balancers):
        uses.append((f"balancers[{i}].server", balancer.server, servers, "server"))
        uses += [(f"balancers[{i}].candidates[{j}]", c, servers, "server") for j, c in enumerate(balancer.candidates)]
    uses += [(f"places.{place}", name, servers | nodes, "server or node") for place, name in topology.places.items()]
    for key, name, known, what in uses:
        if name not in known:
            return toml.wrong_name(key, name, known, what)
    return None
