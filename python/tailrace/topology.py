"""Who serves, who calls whom, and what is limited: `topology.toml`.

What is unknown is left out and stays None; nothing here guesses. Servers and nodes are found by name; `places` maps
the places of samples and events (a collectl host, a cgroup) to those names where the two differ.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections import Counter
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from tailrace.errors import InputError, cannot_read


def _ip_address(text: str) -> str:
    ipaddress.ip_address(text)
    return text


def endpoint(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError
    ipaddress.ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    return text


Name = Annotated[str, StringConstraints(min_length=1)]
Count = Annotated[int, Field(gt=0, strict=True)]
Address = Annotated[str, AfterValidator(_ip_address)]
Endpoint = Annotated[str, AfterValidator(endpoint)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Node(_Table):
    """A machine, container or network namespace: what shares CPUs, memory and disks."""

    name: Name
    address: Address | None = None
    cores: Count | None = None


class Server(_Table):
    """A program that answers on one address."""

    name: Name
    address: Endpoint | None = None
    """`ip:port`, `[ip]:port` for IPv6."""
    node: Name | None = None
    tier: Count | None = None
    """Longest distance from the clients in the call graph; the entry is 1."""
    kind: Literal["sync", "async"] | None = None
    """Whether a worker is held while a request waits downstream."""
    protocol: Name | None = None
    workers: Count | None = None
    backlog: Count | None = None
    queue_max: Count | None = None
    """Requests it can hold at once, waiting ones included, before it drops."""


class Call(_Table):
    """Server `caller` calls server `callee`."""

    caller: Name
    callee: Name
    visits_mean: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Visits to the callee per visit to the caller."""


class Pool(_Table):
    """A limit on the connections of one caller to one callee."""

    name: Name
    caller: Name
    callee: Name
    size: Count


class Balancer(_Table):
    """`server` spreads its calls over `candidates`."""

    name: Name
    server: Name
    candidates: tuple[Name, ...]
    policy: Name | None = None


class Clock(_Table):
    """Time of `capture` + `offset_ns` = time of the first capture, to within `bound_ns`."""

    capture: Name
    offset_ns: Annotated[int, Field(strict=True)]
    bound_ns: Annotated[int, Field(ge=0, strict=True)] | None = None


class Topology(_Table):
    nodes: tuple[Node, ...] = ()
    servers: tuple[Server, ...] = ()
    calls: tuple[Call, ...] = ()
    pools: tuple[Pool, ...] = ()
    balancers: tuple[Balancer, ...] = ()
    clocks: tuple[Clock, ...] = ()
    places: Mapping[Name, Name] = Field(default_factory=dict)
    """Place in samples and events → name of a server or node."""

    def server(self, name: str) -> Server | None:
        return next((server for server in self.servers if server.name == name), None)

    def node(self, name: str) -> Node | None:
        return next((node for node in self.nodes if node.name == name), None)

    def callers_of(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(call.caller for call in self.calls if call.callee == name))

    def callees_of(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(call.callee for call in self.calls if call.caller == name))

    def downstream_of(self, name: str) -> tuple[str, ...]:
        """Every server reached by calls from `name`, nearest first, without `name` itself."""
        reached = [name]
        for server in reached:  # grows while it is walked: breadth first
            reached.extend(callee for callee in self.callees_of(server) if callee not in reached)
        return tuple(reached[1:])

    def servers_on(self, node: str) -> tuple[Server, ...]:
        return tuple(server for server in self.servers if server.node == node)

    def place_to_server(self, place: str) -> Server | None:
        """The server a place of samples or events means: mapped, by name, by address, or alone on the node of that
        name. None where it means a node with several servers, or nothing known."""
        target = self.places.get(place, place)
        for server in self.servers:
            if target in (server.name, server.address):
                return server
        node = self.place_to_node(place)
        alone = self.servers_on(node.name) if node else ()
        return alone[0] if len(alone) == 1 else None

    def place_to_node(self, place: str) -> Node | None:
        """The node a place of samples or events means: mapped, by name, by address, or through a server's name."""
        target = self.places.get(place, place)
        for node in self.nodes:
            if target in (node.name, node.address):
                return node
        server = next((server for server in self.servers if target in (server.name, server.address)), None)
        return self.node(server.node) if server and server.node else None


def read(path: str | PathLike[str]) -> Topology:
    """Read `topology.toml`; an error names the file, the key and what the key must be."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise cannot_read(path, error) from error
    except UnicodeDecodeError as error:
        raise InputError(path, "not UTF-8 text", "save it as UTF-8", byte=error.start) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(path, f"not TOML: {error}", "see docs/reference/dataset.md for an example") from error
    return from_table(table, path)


def from_table(table: Mapping[str, Any], path: str | PathLike[str] = "topology.toml") -> Topology:
    """Check a table of plain values; `path` is what errors name."""
    try:
        topology = Topology.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        key = _key(first["loc"])
        raise InputError(path, f"{key} {_demand(first)}") from error
    wrong = _wrong_reference(topology)
    if wrong:
        raise InputError(path, wrong)
    return topology


def write(topology: Topology, path: str | PathLike[str]) -> None:
    """Write `topology.toml`, without what is unknown."""
    table = topology.model_dump(mode="json", exclude_none=True)
    kept = {key: value for key, value in table.items() if value}
    Path(path).write_text(tomli_w.dumps(kept), encoding="utf-8")


def json_schema() -> dict[str, Any]:
    """For editors: the JSON Schema of `topology.toml`."""
    return Topology.model_json_schema()


def _key(location: tuple[int | str, ...]) -> str:
    key = ""
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key or "the file"


def _demand(error: Any) -> str:
    """What pydantic found wrong, as "must be …, got …"."""
    kind, got, context = error["type"], error.get("input"), error.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "is not a known key"
    field = error["loc"][-1] if error["loc"] else ""
    if field in ("offset_ns", "bound_ns"):
        need = "a whole number of nanoseconds" + (", 0 or more" if field == "bound_ns" else "")
    elif kind == "greater_than" or kind.startswith("int_"):
        need = "a whole number above 0"
    elif kind in ("greater_than_equal", "float_type", "float_parsing", "finite_number"):
        need = "a number of 0 or more"
    elif kind == "literal_error":
        need = str(context.get("expected", "one of the known words")).replace("'", '"')
    elif kind == "value_error":
        need = "ip:port, such as 10.0.0.3:80 or [::1]:80" if "servers" in error["loc"] else "an IP address"
    elif kind in ("string_type", "string_too_short"):
        need = "text that is not empty"
    else:
        need = {"tuple_type": "a list of tables", "mapping_type": "a table", "model_type": "a table"}.get(
            kind, error["msg"]
        )
    return f"must be {need}, got {got!r}"


def _wrong_reference(topology: Topology) -> str | None:
    """The first name used twice, or used and not declared."""
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
            listed = ", ".join(sorted(known)) or "none"
            return f"{key} must be the name of a {what} ({listed}), got {name!r}"
    return None
