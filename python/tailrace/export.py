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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import whole
from tailrace.dataset import TABLES, Dataset
from tailrace.errors import InputError, TailraceError, UsageError, cannot_read, cannot_write
from tailrace.topology import Server, Topology

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
    parties = Parties.of(run)
    report = _write(run, target, {"snaplen": snaplen, **parties.options()}, progress)
    counts = {name: report[name] for name in ("packets", "bytes", "connections", "visits", "failed_requests")}
    return Exported(
        path=target, servers=parties.servers, changed=report["changed"], left_out=report["left_out"], **counts
    )


def _write(
    run: Dataset, target: Path, options: Mapping[str, Any], progress: Callable[[int, int], None] | None
) -> dict[str, Any]:
    from tailrace._core import export

    try:
        folder = Path(tempfile.mkdtemp(prefix=".tailrace-", dir=target.parent))
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        report: dict[str, Any] = json.loads(export(str(run.path), str(folder), json.dumps(options), progress))
        with (folder / _CAPTURE).open("rb") as capture:
            os.fsync(capture.fileno())
        (folder / _CAPTURE).chmod(0o666 & ~_umask())
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
        clients = [call.caller for call in called if call.caller is not None and call.caller not in names]
        hosts = _hosts(dict.fromkeys(clients), {server.address.rpartition(":")[0] for server in servers})
        return cls(servers, hosts, next(iter(hosts.values()), "10.0.0.1"), run.topology)

    def options(self) -> dict[str, Any]:
        callers = {server.name: self.topology.callers_of(server.name) for server in self.servers}
        return {
            "servers": [{"name": s.name, "address": s.address, "protocol": s.protocol} for s in self.servers],
            "hosts": dict(self.hosts),
            "anyone": self.anyone,
            "callers": {callee: found[0] for callee, found in callers.items() if len(found) == 1},
            "pools": [[pool.caller, pool.callee] for pool in self.topology.pools],
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
    said = {(call.caller, call.callee) for call in topology.calls}
    return said | {(c.caller, c.server) for c in called if c.caller in names and c.caller != c.server}


def _tiers(names: Sequence[str], calls: set[tuple[str, str]], topology: Topology) -> dict[str, int]:
    """Distance from the clients: from the topology, else the longest path. The entry has 1. A cycle counts once."""
    tiers: dict[str, int] = {}

    def tier(name: str, path: tuple[str, ...]) -> int:
        above = [
            tier(caller, (*path, name)) for caller, callee in sorted(calls) if callee == name and caller not in path
        ]
        return 1 + max(above, default=0)

    for name in names:
        server = topology.server(name)
        tiers[name] = server.tier if server and server.tier else tier(name, (name,))
    return tiers


def _protocols(
    topology: Topology, names: Sequence[str], calls: set[tuple[str, str]], tiers: Mapping[str, int]
) -> dict[str, str]:
    """From the topology; else HTTP at the entry, AJP behind an HTTP server, MySQL at the end of longer chains."""
    said = {server.name: server.protocol for server in topology.servers if server.protocol}
    protocols: dict[str, str] = {}
    for name in sorted(names, key=lambda name: tiers[name]):
        callers = [caller for caller, callee in calls if callee == name]
        leaf = all(caller != name for caller, _ in calls)
        if name in said:
            protocols[name] = said[name] if said[name] in PROTOCOLS else "opaque"
        elif tiers[name] == 2 and any(protocols.get(caller) == "http" for caller in callers):
            protocols[name] = "ajp"
        elif tiers[name] > 2 and leaf:
            protocols[name] = "mysql"
        else:
            protocols[name] = "http"
    return protocols


def _addresses(
    topology: Topology, names: Sequence[str], tiers: Mapping[str, int], protocols: Mapping[str, str]
) -> tuple[WireServer, ...]:
    """From the topology, else the server's node and its protocol's port, else 10.0.TIER.N."""
    taken = {server.address for server in topology.servers if server.address}
    made: dict[str, str] = {}
    for name in names:
        server = topology.server(name) or Server(name=name)
        if server.address is None:
            made[name] = _address(topology, server, tiers[name], _PORTS[protocols[name]], taken)
            taken.add(made[name])
        else:
            made[name] = server.address
    return tuple(WireServer(name, made[name], protocols[name]) for name in names)


def _address(topology: Topology, server: Server, tier: int, port: int, taken: set[str]) -> str:
    node = topology.node(server.node) if server.node else None
    if node is not None and node.address is not None:
        host = f"[{node.address}]" if ":" in node.address else node.address
        return next(a for a in (f"{host}:{port + n}" for n in range(10_000)) if a not in taken)
    hosts = {address.rpartition(":")[0] for address in taken}
    free = (ip for ip in _network(tier) if ip not in hosts)
    return f"{next(free)}:{port}"


def _network(tier: int) -> Iterable[str]:
    """Addresses of a tier: 10.0.TIER.1 to .254, then 10.1.TIER.1 and so on."""
    return (f"10.{block}.{min(tier, 255)}.{n}" for block in range(256) for n in range(1, 255))


def _hosts(clients: Iterable[str], taken: set[str]) -> dict[str, str]:
    """Callers that are addresses keep them; others get 10.0.0.N."""
    hosts: dict[str, str] = {}
    for name in clients:
        try:
            hosts[name] = str(ipaddress.ip_address(name))
        except ValueError:
            used = {*taken, *hosts.values()}
            hosts[name] = next(ip for ip in _network(0) if ip not in used)
    return hosts


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
