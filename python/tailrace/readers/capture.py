"""Packet captures: the engine decodes them together; its report becomes topology, clocks, losses and notes.

crates/core/src/capture/decode.rs describes the engine's options and report.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import polars as pl

from tailrace.dataset import Connections, Writer, scan
from tailrace.errors import TailraceError, cannot_read, cannot_write
from tailrace.readers import captured_software
from tailrace.readers.capture_quic import quic_notes
from tailrace.readers.decoding import Decoding
from tailrace.topology import Call, Clock, Node, Server, Topology, distances
from tailrace.units import format_duration

_MAGIC = (
    b"\xd4\xc3\xb2\xa1",  # pcap, µs, little endian
    b"\xa1\xb2\xc3\xd4",
    b"\x4d\x3c\xb2\xa1",  # pcap, ns
    b"\xa1\xb2\x3c\x4d",
    b"\x0a\x0d\x0d\x0a",  # pcapng section header
)


def sniff(name: str, head: bytes) -> bool:
    return head.startswith(_MAGIC)


def decode(
    paths: Sequence[str],
    writer: Writer,
    decoding: Decoding,
    progress: Callable[[int, int], None] | None,
    say: Callable[[str], None] | None = None,
) -> Topology:
    """Decode captures into the writer's folder; returns the topology that they show."""
    from tailrace._core import decode as engine

    folder = str(writer.folder)
    try:
        report = json.loads(engine(list(paths), folder, json.dumps(decoding.options()), progress))
    except OSError as error:
        if str(error.filename or "").startswith(folder):
            raise cannot_write(writer.folder, error) from error
        raise cannot_read(error.filename or paths[0], error) from error
    except ValueError as error:
        if folder in str(error):
            raise cannot_write(writer.folder, error) from error
        raise TailraceError(str(error)) from error  # the engine's sentence names the file and the byte
    if say and (why := report.get("started_over")):
        say(f"what an earlier reading had finished is of no use: {why}")
    called = _called(paths)
    for file in report.get("files", []):
        file["path"] = called.get(file["path"], file["path"])
    writer.clocks = clocks(report, paths)
    for name, count in losses(report).items():
        writer.lose(name, count)
    writer.notes += notes(report)
    writer.connections = connections(report)
    visits = writer.folder / "visits.parquet"
    return topology_of(report, scan(visits) if visits.exists() else None)


def _called(paths: Sequence[str]) -> dict[str, str]:
    """The names of captures in a run folder: the shortest unique end of the path. The folders before it are private to
    the user who reads them."""
    called: dict[str, str] = {}
    for path in paths:
        parts = PurePath(path).parts
        ends = (PurePath(*parts[-length:]) for length in range(1, len(parts) + 1))
        others = [PurePath(other) for other in paths if other != path]
        alone = (str(end) for end in ends if not any(other.parts[-len(end.parts) :] == end.parts for other in others))
        called[path] = next(alone, path)
    return called


def topology_of(report: Mapping[str, Any], visits: pl.LazyFrame | None) -> Topology:
    """Servers and nodes of the report, and the calls between them: from the call graph, else from the callers'
    hosts."""
    machines = (report.get("graph") or {}).get("machines", {})
    seen = [{**server, "host": machines.get(server["name"], server["host"])} for server in _servers(report)]
    names = {server["name"] for server in seen}
    on_host: dict[str, list[str]] = {}
    for server in seen:
        if server["host"] is not None:
            on_host.setdefault(server["host"], []).append(server["name"])
    by_host = {host: servers[0] for host, servers in on_host.items() if len(servers) == 1}
    made = _linked(report, names)
    if not made and visits is not None:
        made = _counted(visits, names, by_host)
    tiers = distances(names, ((call.caller, call.callee) for call in made))
    software = captured_software.of(seen, ((call.caller, call.callee) for call in made))
    return Topology(
        nodes=tuple(Node(name=host, address=_ip_address(host)) for host in sorted(on_host)),
        servers=tuple(
            Server(
                name=server["name"],
                address=server.get("address"),
                node=server["host"],
                protocol=server.get("protocol"),
                software=software.get(server["name"]),
                tier=tiers[server["name"]],
            )
            for server in sorted(seen, key=lambda server: (tiers[server["name"]], server["name"]))
        ),
        calls=made,
    )


def _ip_address(host: str) -> str | None:
    """A host is named by its address, except those that are combined into one."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def _linked(report: Mapping[str, Any], names: set[str]) -> tuple[Call, ...]:
    edges = (report.get("graph") or {}).get("edges", [])
    return tuple(
        Call(caller=edge["caller"], callee=edge["callee"], visits_mean=edge["calls_mean"] if edge["observed"] else None)
        for edge in edges
        if {edge["caller"], edge["callee"]} <= names
    )


def _counted(visits: pl.LazyFrame, names: set[str], by_host: Mapping[str, str]) -> tuple[Call, ...]:
    counted = (
        visits.group_by(pl.col("caller").cast(pl.String), pl.col("server").cast(pl.String))
        .agg(pl.len().alias("visits"))
        .sort("caller", "server")
        .collect(engine="streaming")
    )
    stays: dict[str, int] = {}
    between: dict[tuple[str, str], int] = {}
    for caller, server, count in counted.iter_rows():
        stays[server] = stays.get(server, 0) + count
        name = caller if caller in names else by_host.get(caller)
        if name is not None and name != server and server in names:
            between[name, server] = between.get((name, server), 0) + count
    return tuple(
        Call(caller=caller, callee=callee, visits_mean=count / stays[caller] if stays.get(caller) else None)
        for (caller, callee), count in sorted(between.items())
    )


def clocks(report: Mapping[str, Any], paths: Sequence[str]) -> tuple[Clock, ...]:
    """Offsets of the captures' clocks, if there are several captures."""
    files = report.get("files", [])
    if len(files) < 2:
        return ()
    return tuple(
        Clock(
            capture=str(file["path"]),
            offset_ns=int(file["clock"]["offset_ns"]),
            bound_ns=file["clock"].get("bound_ns"),
        )
        for file in files
    )


_FILE_LOSSES = {
    "lost_bytes": "bytes that could not be read",
    "late": "packets stored too late to be sorted",
    "times_repaired": "packets with an impossible time",
}
_COUNT_LOSSES = {
    "gap_bytes": "bytes missing in holes of the capture",
    "segments_unfollowed": "segments of connections beyond the limit of open ones",
    "connections_evicted": "connections given up because too many were open or silent",
    "strays": "segments with numbers that are not of their connection",
    "responses_unseen": "responses that fell into a hole of the capture",
}


def losses(report: Mapping[str, Any]) -> dict[str, int]:
    lost: dict[str, int] = {}
    for file in report.get("files", []):
        for key, what in _FILE_LOSSES.items():
            if file.get(key):
                lost[f"{file['path']}: {what}"] = int(file[key])
        dropped = sum(
            int(interface.get(by) or 0)
            for interface in file.get("interfaces", [])
            for by in ("dropped_interface", "dropped_system")
        )
        if dropped:
            lost[f"{file['path']}: packets that the capture itself lost"] = dropped
    if report.get("incomplete"):
        lost["visits without an essential value"] = int(report["incomplete"])
    for key, what in _COUNT_LOSSES.items():
        if report.get("counts", {}).get(key):
            lost[what] = int(report["counts"][key])
    return lost


_COUNTED = {
    "attempts": "attempts",
    "established": "connections",
    "half_open": "half_open",
    "attempts_under_way": "attempts_unfinished",
    "under_way": "visits_unfinished",
}


def connections(report: Mapping[str, Any]) -> Connections:
    """The manifest's `connections`: the engine's counts for each server, and attempts that are not requests."""
    strangers = report.get("strangers") or {}
    failed, end = strangers.get("kept", {}), report.get("end")
    servers = {}
    for server in _servers(report):
        counts = {key: server.get(said, 0) for key, said in _COUNTED.items()} | failed.get(server["name"], {})
        since = server.get("unfinished_since")
        if since is not None and end is not None:
            counts["under_way_longest_ns"] = end - since
        servers[server["name"]] = counts
    apart = [{**row, "to": dict(row["to"])} for row in (*report.get("apart", ()), *strangers.get("apart", ()))]
    return Connections.from_table({"servers": servers, "apart": apart})


def _servers(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Servers of the report, and the addresses and ports that clients failed to reach because nothing accepted
    there."""
    seen = list(report.get("servers", []))
    known = {server["name"] for server in seen}
    for name, counts in (report.get("strangers") or {}).get("kept", {}).items():
        if name not in known:
            host = name.rpartition(":")[0].strip("[]")
            where = {"address": name, "host": host} if host else {"host": None}
            seen.append({"name": name, "attempts": sum(counts.values()), **where})
    return seen


def _lookups(counts: Mapping[str, int]) -> Iterator[str]:
    """Notes about names that were looked up over UDP with more than one try, or without an answer."""
    queries, repeated, unanswered = (counts.get(key, 0) for key in ("queries", "repeated", "unanswered"))
    if repeated:
        yield (
            f"{repeated} DNS queries over UDP were sent again, of {queries}; the slowest answer came after "
            f"{format_duration(counts['longest_ns'])}. A client waits for a name before it connects, and the visit of "
            "the server that it then calls does not contain this wait"
        )
    if unanswered:
        yield f"{unanswered} of {queries} DNS queries over UDP have no answer in the captures, and make no visit"


def _quic_packets(report: Mapping[str, Any]) -> int:
    return sum(file.get("not_tcp", {}).get("QUIC handshake", 0) for file in report.get("files", []))


def notes(report: Mapping[str, Any]) -> list[str]:
    """Notes for the reader about how the captures were read."""
    said = [str(note) for note in report.get("notes", [])]
    said.extend(_lookups(report.get("lookups", {})))
    said.extend(quic_notes(report.get("quic", {}), handshakes=_quic_packets(report)))
    for file in report.get("files", []):
        for loss in file.get("losses", []):
            said.append(f"{file['path']}: at byte {loss['offset']}: {loss['reason']} ({loss['bytes']} bytes lost)")
        clock = file.get("clock", {})
        if clock.get("basis") == "unknown":
            said.append(
                f"{file['path']}: it shares no packet with another capture, so its clock is taken as equal to theirs"
            )
        if clock.get("drift_ppm"):
            said.append(f"{file['path']}: its clock drifts by {clock['drift_ppm']:.1f} ppm, which was corrected")
    for server in _servers(report):
        for reason, count in server.get("opaque", {}).items():
            said.append(f"{server['name']}: {count} connections read by change of direction only: {reason}")
        for asked, count in server.get("tls", {}).items():
            said.append(f"{server['name']}: {count} TLS connections to {asked or 'a server that they do not name'}")
        if server.get("unheard"):
            said.append(
                f"{server['name']}: it speaks first, and said nothing on {server['unheard']} connections that clients "
                f"held for up to {format_duration(server['unheard_longest_ns'])}: it may not know of them, because "
                "their last packet met a full accept queue. Without a time limit, such a client waits for ever"
            )
        for reason, count in server.get("unreadable", {}).items():
            said.append(f"{server['name']}: {count} bytes could not be read: {reason}")
    return said
