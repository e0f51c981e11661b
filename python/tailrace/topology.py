"""Servers, the calls between them, and their limits: `topology.toml`.

Unknown keys are left out and stay None; nothing here guesses. Servers and nodes are found by name. `places` maps the
places of samples and events (a collectl host, a cgroup) to those names where the two differ.
"""

from __future__ import annotations

import heapq
import ipaddress
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, Field
from pydantic_core import ErrorDetails

from tailrace import toml, whole
from tailrace.bounds import CALLS, PAIRS, PATH_CHARACTERS, SERVERS
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
    """A program that listens at one address, or at several."""

    name: Name
    address: Endpoint | None = None
    """`ip:port`, `[ip]:port` for IPv6."""
    addresses: Annotated[tuple[Endpoint, ...], Field(min_length=1, max_length=SERVERS)] | None = None
    """All of them, if it listens at several."""
    node: Name | None = None
    group: Name | None = None
    """The servers of one group are instances of one service. Where calls, pools and balancers name a group, they hold
    for each of its servers."""
    tier: Annotated[Count, Field(le=SERVERS)] | None = None
    """Longest distance from the clients in the call graph; the entry server has 1."""
    kind: Literal["sync", "async"] | None = None
    """Whether a worker is held while a request waits downstream."""
    protocol: Name | None = None
    software: Name | None = None
    """The program that it runs, such as `nginx`: for the lines that `tailrace advise` prints."""
    workers: Count | None = None
    backlog: Count | None = None
    queue_max: Count | None = None
    """The most requests that it can hold at once, waiting ones included, before it drops."""
    kept: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    """The share of its visits that a sampler kept at random."""
    chosen: bool | None = None
    """Whether its requests were kept for what happened in them (tail sampling)."""

    @property
    def all_addresses(self) -> tuple[str, ...]:
        first = () if self.address is None else (self.address,)
        return tuple(dict.fromkeys((*first, *(self.addresses or ()))))


class Call(Table):
    """Server `caller` calls server `callee`. Each of them may be a group: each of its servers calls, or is called."""

    caller: Name
    callee: Name
    visits_mean: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Visits to the callee per visit to the caller."""


class Pool(Table):
    """A limit on the connections of one caller to one callee. For groups, each pair of their servers has its own."""

    name: Name
    caller: Name
    callee: Name
    size: Count
    interactions: Annotated[tuple[Name, ...], Field(min_length=1, max_length=SERVERS)] | None = None
    """Only the calls of visits for one of these use the pool. Default: all calls."""


class Balancer(Table):
    """`server` spreads its calls over `candidates`; each server of a group does so on its own."""

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

    def members(self, name: str) -> tuple[str, ...]:
        """The servers that a name in calls, pools and balancers means: a server, or all of a group."""
        return (name,) if name in self._index.servers else tuple(self._index.groups.get(name, ()))

    def names_of(self, server: str) -> tuple[str, ...]:
        """The names that calls, pools and balancers may give to a server: its own, and that of its group."""
        known = self.server(server)
        return (server,) if known is None or known.group is None else (server, known.group)

    def callers_of(self, name: str) -> tuple[str, ...]:
        return self._servers(self._index.callers, name)

    def callees_of(self, name: str) -> tuple[str, ...]:
        return self._servers(self._index.callees, name)

    def _servers(self, ends: Mapping[str, Iterable[str]], server: str) -> tuple[str, ...]:
        others = (other for name in self.names_of(server) for other in ends.get(name, ()))
        return tuple(dict.fromkeys(member for other in others for member in self.members(other)))

    def downstream_of(self, name: str) -> tuple[str, ...]:
        """Every server that calls from `name` reach, nearest first, without `name` itself."""
        reached, called = {name: None}, set[str]()
        waiting = deque([name])
        while waiting:
            for one in self.names_of(waiting.popleft()):
                if one in called:
                    continue
                called.add(one)  # all servers of a group call the same
                for callee in self._index.callees.get(one, ()):
                    new = [member for member in self.members(callee) if member not in reached]
                    reached |= dict.fromkeys(new)
                    waiting.extend(new)
        return tuple(reached)[1:]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Each caller with each server that it calls; a pair may come twice."""
        for call in self.calls:
            yield from product(self.members(call.caller), self.members(call.callee))

    def pools_of(self, caller: str) -> tuple[Pool, ...]:
        """The pools of a server, in the order of the file; their callees may be groups."""
        return tuple(self.pools[number] for number in self._numbers(self._index.pools, caller))

    def balancers_of(self, server: str) -> tuple[Balancer, ...]:
        """The balancers of a server, in the order of the file, as if each belonged to it alone."""
        return tuple(self._of_server(self.balancers[n], server) for n in self._numbers(self._index.balancers, server))

    def _numbers(self, index: Mapping[str, list[int]], server: str) -> list[int]:
        return sorted(number for name in self.names_of(server) for number in index.get(name, ()))

    def _of_server(self, known: Balancer, server: str) -> Balancer:
        candidates = tuple(dict.fromkeys(member for name in known.candidates for member in self.members(name)))
        name = known.name if known.server == server else f"{known.name} of {server}"
        return Balancer.model_construct(name=name, server=server, candidates=candidates, policy=known.policy)

    def apart(self) -> Topology:
        """The same without groups: a call and a pool for each pair of servers, a balancer for each server."""
        if not any(server.group for server in self.servers):
            return self
        calls = (
            call.model_copy(update={"caller": caller, "callee": callee})
            for call in self.calls
            for caller, callee in product(self.members(call.caller), self.members(call.callee))
        )
        pools = (
            pool.model_copy(update={"name": name, "caller": caller, "callee": callee})
            for pool in self.pools
            for caller, callee in product(self.members(pool.caller), self.members(pool.callee))
            for own in [(caller, callee) == (pool.caller, pool.callee)]
            for name in [pool.name if own else f"{pool.name}: {caller} to {callee}"]
        )
        balancers = (self._of_server(one, server) for one in self.balancers for server in self.members(one.server))
        servers = tuple(one.model_copy(update={"group": None}) for one in self.servers)
        parts = {"calls": tuple(calls), "pools": tuple(pools), "balancers": tuple(balancers)}
        return self.model_copy(update={"servers": servers, **parts})

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
    groups: dict[str, dict[str, None]] = field(default_factory=dict)
    callers: dict[str, dict[str, None]] = field(default_factory=dict)
    """Server or group → the servers and groups that call it."""
    callees: dict[str, dict[str, None]] = field(default_factory=dict)
    pools: dict[str, list[int]] = field(default_factory=dict)
    """Calling server or group → numbers of pools."""
    balancers: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology) -> _Index:
        index = cls()
        for server in topology.servers:
            index.servers.setdefault(server.name, server)
            for place in (server.name, *server.all_addresses):
                index.server_places.setdefault(place, server)
            if server.node:
                index.servers_on.setdefault(server.node, []).append(server)
            if server.group:
                index.groups.setdefault(server.group, {})[server.name] = None
        for node in topology.nodes:
            index.nodes.setdefault(node.name, node)
            for at in (node.name, node.address):
                index.node_places.setdefault(at or node.name, node)
        for call in topology.calls:
            index.callers.setdefault(call.callee, {})[call.caller] = None
            index.callees.setdefault(call.caller, {})[call.callee] = None
        for number, pool in enumerate(topology.pools):
            index.pools.setdefault(pool.caller, []).append(number)
        for number, balancer in enumerate(topology.balancers):
            index.balancers.setdefault(balancer.server, []).append(number)
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
    wrong = _wrong_reference(topology) or beyond(topology)
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


def beyond(topology: Topology) -> str | None:
    """Which calls, pools or balancers mean more pairs of servers than a topology may have, and how many; else None."""

    def size(*names: str) -> int:
        return sum(len(topology.members(name)) for name in names)

    pairs = {
        "calls": sum(size(call.caller) * size(call.callee) for call in topology.calls),
        "pools": sum(size(pool.caller) * size(pool.callee) for pool in topology.pools),
        "balancers": sum(size(one.server) * size(*one.candidates) for one in topology.balancers),
    }
    kind = next((kind for kind, count in pairs.items() if count > PAIRS), None)
    return kind and f"{kind} mean {pairs[kind]:,} pairs of servers, and at most {PAIRS:,} are allowed"


def _wrong_reference(topology: Topology) -> str | None:
    """The first name that is used twice, or used and not declared."""
    servers = {server.name for server in topology.servers}
    nodes = {node.name for node in topology.nodes}
    for kind in ("nodes", "servers", "pools", "balancers"):
        repeated = [name for name, n in Counter(item.name for item in getattr(topology, kind)).items() if n > 1]
        if repeated:
            return f"{kind} must have different names, got {repeated[0]!r} twice"
    groups = {server.group for server in topology.servers if server.group}
    both = next((f"servers[{i}].name" for i, one in enumerate(topology.servers) if one.name in groups), None)
    if both:
        return f"{both} is the name of a group, too; give one of them another name"
    callers = servers | groups
    uses: list[tuple[str, str, set[str], str]] = [
        (f"servers[{i}].node", server.node, nodes, "node") for i, server in enumerate(topology.servers) if server.node
    ]
    for kind in ("calls", "pools"):
        for i, item in enumerate(getattr(topology, kind)):
            uses += [(f"{kind}[{i}].{end}", getattr(item, end), callers, "server") for end in ("caller", "callee")]
    for i, balancer in enumerate(topology.balancers):
        uses.append((f"balancers[{i}].server", balancer.server, callers, "server"))
        uses += [(f"balancers[{i}].candidates[{j}]", c, callers, "server") for j, c in enumerate(balancer.candidates)]
    uses += [(f"places.{place}", name, servers | nodes, "server or node") for place, name in topology.places.items()]
    for key, name, known, what in uses:
        if name not in known:
            return toml.wrong_name(key, name, known, what)
    return None
