"""A run folder becomes a packet capture: the packets that a recorder would have seen of its visits.

The engine writes the packets (crates/core/src/export/). This module determines the address and the protocol of each
server. Rules for what the topology does not state are in docs/how-to/give-a-run-to-wireshark.md.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import whole
from tailrace.bounds import EXPORT_BYTES
from tailrace.dataset import TABLES, Dataset
from tailrace.errors import InputError, TailraceError, UsageError, cannot_read, cannot_write
from tailrace.topology import Server, Topology, distances
from tailrace.units import format_bytes

SNAPLEN_MIN, SNAPLEN_MAX = 96, 262_144
PROTOCOLS = ("http", "ajp", "mysql", "opaque")
_PORTS = {"http": 80, "ajp": 8009, "mysql": 3306, "opaque": 4433}
_CAPTURE = "capture.pcap"


@dataclass(frozen=True)
class WireServer:
    """The address and the protocol of a server."""

    name: str
    address: str
    """`ip:port`, `[ip]:port` for IPv6."""
    protocol: str


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    path: Path
    packets: int
    bytes: int
    connections: int
    visits: int
    failed_requests: int
    """Requests that never became a visit."""
    servers: tuple[WireServer, ...]
    changed: Mapping[str, int] = field(default_factory=dict)
    """Visits that read back differently, by what differs."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that are not in the capture, by reason."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "path": str(self.path)}


def describe(written: Exported) -> list[str]:
    """Counts, what reads back differently, and the command that reads the capture back."""
    servers = " ".join(f"--server {shlex.quote(f'{server.name}={server.address}')}" for server in written.servers)
    return [
        f"{written.path}: {written.visits:,} visits, {written.packets:,} packets, {written.connections:,} connections",
        *(f"note: {count:,} visits read back with another {what}" for what, count in sorted(written.changed.items())),
        *(f"note: left out: {count:,} {why}" for why, count in sorted(written.left_out.items())),
        f"read it back: tailrace read {shlex.quote(str(written.path))} {servers} -o RUN",
    ]


def write_pcap(
    run: Dataset,
    path: str | PathLike[str],
    *,
    snaplen: int = SNAPLEN_MAX,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write the capture of a run's visits: a pcap file with nanoseconds, of at most `snaplen` bytes a packet.

    `progress(rows done, rows in all)` may raise to stop the work. The file is written completely or not at all. Raises
    `InputError` for a run without visits, `UsageError` for a target that exists, `OutputError` for a full disk.
    """
    target = Path(path)
    if not SNAPLEN_MIN <= snaplen <= SNAPLEN_MAX:
        raise UsageError(f"a snap length of {snaplen} bytes", advice=f"{SNAPLEN_MIN} to {SNAPLEN_MAX} are possible")
    if not run.has("visits"):
        raise InputError(run.path / TABLES["visits"].file, "it has no visits to export")
    whole.refuse_unusual(target)
    if target.exists() and not overwrite:
        raise UsageError("it exists already", where=str(target), advice="choose another name, or --overwrite")
    _refuse_endless(run, target)
    parties = Parties.of(run)
    report = _write(run, target, {"snaplen": snaplen, **parties.options()}, progress)
    counts = {name: report[name] for name in ("packets", "bytes", "connections", "visits", "failed_requests")}
    return Exported(
        path=target, servers=parties.servers, changed=report["changed"], left_out=report["left_out"], **counts
    )


def _refuse_endless(run: Dataset, target: Path) -> None:
    """What the messages say of their lengths is written out byte by byte."""
    lengths = pl.sum_horizontal(pl.col("bytes_in", "bytes_out").cast(pl.Float64), ignore_nulls=True)
    wanted = float(run.visits().select(lengths.sum()).collect(engine="streaming").item() or 0)
    if wanted > EXPORT_BYTES:
        found = f"its messages have {format_bytes(int(wanted))}, and a capture of at most {format_bytes(EXPORT_BYTES)}"
        raise UsageError(f"{found} is written", where=str(target), advice="docs/reference/limits.md lists the bounds")


def _write(
    run: Dataset, target: Path, options: Mapping[str, Any], progress: Callable[[int, int], None] | None
) -> dict[str, Any]:
    from tailrace._core import export

    try:
        folder = Path(tempfile.mkdtemp(prefix=".tailrace-", dir=target.parent))
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        report: dict[str, Any] = json.loads(export(str(run.as_folder()), str(folder), json.dumps(options), progress))
        with (folder / _CAPTURE).open("rb") as capture:
            os.fsync(capture.fileno())
        (folder / _CAPTURE).replace(target)
    except OSError as error:
        if str(error.filename or folder).startswith(str(folder)):
            raise cannot_write(target, error) from error
        raise cannot_read(error.filename, error) from error
    except ValueError as error:
        if str(folder) in str(error):
            raise cannot_write(target, error) from error
        raise TailraceError(str(error)) from error  # the engine's sentence names the table and the column
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report


@dataclass(frozen=True)
class Parties:
    """The addresses and protocols of servers and callers."""

    servers: tuple[WireServer, ...]
    hosts: Mapping[str, str]
    """Address of each caller that is not a server."""
    anyone: str
    """Address of callers without a name."""
    topology: Topology

    @classmethod
    def of(cls, run: Dataset) -> Parties:
        called = _called(run)
        names = list(dict.fromkeys([*(server.name for server in run.topology.servers), *(c.server for c in called)]))
        calls = _calls(run.topology, called, set(names))
        tiers = _tiers(names, calls, run.topology)
        protocols = _protocols(run.topology, names, calls, tiers)
        servers = _addresses(run.topology, names, tiers, protocols)
        known = set(names)
        clients = dict.fromkeys(call.caller for call in called if call.caller is not None and call.caller not in known)
        hosts = _hosts(clients, {server.address.rpartition(":")[0] for server in servers})
        return cls(servers, hosts, next(iter(hosts.values()), "10.0.0.1"), run.topology)

    def options(self) -> dict[str, Any]:
        callers = {server.name: self.topology.callers_of(server.name) for server in self.servers}
        return {
            "servers": [{"name": s.name, "address": s.address, "protocol": s.protocol} for s in self.servers],
            "hosts": dict(self.hosts),
            "anyone": self.anyone,
            "callers": {callee: found[0] for callee, found in callers.items() if len(found) == 1},
            "pools": [
                [server.name, callee]
                for server in self.servers
                for pool in self.topology.pools_of(server.name)
                for callee in self.topology.members(pool.callee)
            ],
        }


@dataclass(frozen=True)
class _Called:
    caller: str | None
    server: str


def _called(run: Dataset) -> list[_Called]:
    """Callers of each server, the most frequent first."""
    pairs = (
        run.visits()
        .group_by(pl.col("caller").cast(pl.String), pl.col("server").cast(pl.String))
        .agg(pl.len().alias("visits"))
        .sort("visits", "server", "caller", descending=[True, False, False])
        .collect(engine="streaming")
    )
    entries = run.requests().select(pl.col("server").cast(pl.String)).unique().sort("server").collect()
    found = [_Called(caller, server) for caller, server, _ in pairs.iter_rows()]
    return found + [_Called(None, server) for (server,) in entries.iter_rows()]


def _calls(topology: Topology, called: Sequence[_Called], names: set[str]) -> set[tuple[str, str]]:
    said = set(topology.pairs())
    return said | {(c.caller, c.server) for c in called if c.caller in names and c.caller != c.server}


def _tiers(names: Sequence[str], calls: set[tuple[str, str]], topology: Topology) -> dict[str, int]:
    """Distance from the clients: from the topology, else the longest path. The entry has 1. A cycle counts once."""
    said = {server.name: server.tier for server in topology.servers if server.tier}
    return {**distances(names, calls), **said}


def _protocols(
    topology: Topology, names: Sequence[str], calls: set[tuple[str, str]], tiers: Mapping[str, int]
) -> dict[str, str]:
    """From the topology; else HTTP at the entry, AJP behind an HTTP server, MySQL at the end of longer chains."""
    said = {server.name: server.protocol for server in topology.servers if server.protocol}
    callers: dict[str, list[str]] = {}
    for caller, callee in calls:
        callers.setdefault(callee, []).append(caller)
    calling = {caller for caller, _ in calls}
    protocols: dict[str, str] = {}
    for name in sorted(names, key=lambda name: tiers[name]):
        if name in said:
            protocols[name] = said[name] if said[name] in PROTOCOLS else "opaque"
        elif tiers[name] == 2 and any(protocols.get(caller) == "http" for caller in callers.get(name, ())):
            protocols[name] = "ajp"
        elif tiers[name] > 2 and name not in calling:
            protocols[name] = "mysql"
        else:
            protocols[name] = "http"
    return protocols


def _addresses(
    topology: Topology, names: Sequence[str], tiers: Mapping[str, int], protocols: Mapping[str, str]
) -> tuple[WireServer, ...]:
    """From the topology, else the server's node and its protocol's port, else 10.0.TIER.N."""
    free = _Free({server.address for server in topology.servers if server.address})
    made: dict[str, str] = {}
    for name in names:
        server = topology.server(name) or Server(name=name)
        node = topology.node(server.node) if server.node else None
        port = _PORTS[protocols[name]]
        if server.address is not None:
            made[name] = server.address
        elif node is not None and node.address is not None:
            made[name] = free.on(f"[{node.address}]" if ":" in node.address else node.address, port)
        else:
            made[name] = free.on(free.host(min(tiers[name], 255)), port)
    return tuple(WireServer(name, made[name], protocols[name]) for name in names)


class _Free:
    """Free addresses; each is assigned once."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._hosts = {address.rpartition(":")[0] for address in taken}
        self._networks: dict[int, Iterator[str]] = {}
        self._ports: dict[tuple[str, int], Iterator[str]] = {}

    def on(self, host: str, port: int) -> str:
        """An address of this host; of this port, or the nearest above."""
        ports = self._ports.setdefault((host, port), (f"{host}:{n}" for n in range(port, 65536)))
        self._hosts.add(host)
        return self._first(ports, self._taken)

    def host(self, tier: int) -> str:
        networks = self._networks.setdefault(tier, _network(tier))
        return self._first(networks, self._hosts)

    def _first(self, addresses: Iterator[str], taken: set[str]) -> str:
        for address in addresses:
            if address not in taken:
                taken.add(address)
                return address
        raise UsageError("a capture has too few addresses for so many servers and clients", advice="leave some out")


def _network(tier: int) -> Iterator[str]:
    """A tier has the addresses 10.0.TIER.1 to .254, then 10.1.TIER.1 and so on. The clients (tier 0) use
    100.64.0.1 and the following addresses as well.
    """
    yield from (f"10.{block}.{tier}.{n}" for block in range(256) for n in range(1, 255))
    if tier == 0:
        yield from (f"100.{net}.{block}.{n}" for net in range(64, 128) for block in range(256) for n in range(1, 255))


def _hosts(clients: Mapping[str, None], taken: set[str]) -> dict[str, str]:
    """Callers that are addresses keep them; others get 10.0.0.N."""
    hosts: dict[str, str] = {}
    for name in clients:
        with suppress(ValueError):
            hosts[name] = str(ipaddress.ip_address(name))
    free = _Free({f"{host}:0" for host in (*taken, *hosts.values())})
    return {name: hosts.get(name) or free.host(0) for name in clients}
