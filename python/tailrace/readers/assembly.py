"""Combines what several files contain into the tables and the topology of one run folder."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from tailrace import topology as topology_file
from tailrace.dataset import COUNTED, TABLES, Dataset, Writer, tables
from tailrace.dataset.merging import written as parts
from tailrace.errors import UsageError, cannot_write
from tailrace.readers import alike, carried, disagreements, failures, logged, outliers
from tailrace.readers.source import Found, Frames, Source
from tailrace.topology import Server, Topology, distances

JVM = "jvm"
"""The place of a JVM's log whose server is unknown: the diagnosis then uses time alone."""


_EVENT_COLUMNS = {name: pl.col(name) for name in ("kind", "begin", "end", "detail")}


Text = tuple[Source, str, Found]
"""A file (of several that belong together, the first), the name of its reader, and what that found."""


def add(writer: Writer, texts: Sequence[Text]) -> None:
    """Put what readers found into the tables; events of a JVM's log get a place."""
    events: list[pl.DataFrame] = []
    writer.topology = logged.settle(failures.settle(writer.topology, texts), texts)
    for source, kind, found in texts:
        counted, visits, servers = _add_stays(writer, kind, source, found)
        placed = all("place" in frame.columns for frame in found.events)
        place, note = (None, None) if placed else (source.place, None)
        if not placed and place is None:
            place, note = jvm_place(source, writer.topology)
        found.notes += [note] if note else []
        for frame in found.events:
            kept = outliers.without(frame, "begin", found, source.path.name)
            at = pl.col("place") if placed else pl.lit(place)
            events.append(kept.select(place=at, **_EVENT_COLUMNS))
        places = {
            str(one)
            for frame in (*found.samples, *found.events)
            if "place" in frame.columns
            for one in frame["place"].unique()
        }
        places |= {place} if place and found.events else set()
        writer.inputs.append(
            carried.of_found(
                *(source.path.name, kind, found), counted=counted, visits=visits, servers=servers, places=places
            )
        )
        writer.notes += found.notes
        for what, count in found.lost.items():
            writer.lose(f"{source.path.name}: {what}", count)
    samples = [frame for _, _, found in texts for frame in found.samples]
    if samples:
        writer.append_table("samples", pl.concat(samples))
    if events:
        writer.append_table("events", pl.concat(events))


def _add_stays(writer: Writer, kind: str, source: Source, found: Found) -> tuple[bool, bool, set[str]]:
    """Visits and requests of a log or a trace, beside those that are there. A server's visits come from one input, and
    so do the requests, because two inputs would count the same ones twice. Returns whether its requests count, whether
    it has visits that do, and the servers of both."""
    visits, name = found.visits, source.path.name
    first, with_visits, with_requests = _there(writer)
    if visits and with_visits:
        visits = visits.changed(lambda frame: frame.filter(~pl.col("server").cast(pl.String).is_in(with_visits)))
        _forget_shares(writer, found, with_visits)
        left_out = sum(frame.height for frame in found.visits) - sum(frame.height for frame in visits)
        if left_out:
            found.notes.append(f"{name}: {left_out} visits of servers that another input shows were left out")
    if with_visits or with_requests:
        found.notes += disagreements.notes(writer, name, kind, found)
    entered = not with_requests or _beside(writer, kind, found, {*with_visits, *with_requests})
    if not entered:
        visits = _without_broken_chains(visits, found, with_visits, name)
    if found.requests and not entered:
        rest = "are visits only" if found.visits else "are left out"
        found.notes.append(f"{name}: the requests of another input count; this one's {rest}")
    moved = [(pl.col(key) + first).alias(key) for key in ("visit", "parent")]
    request = pl.col("request") + first if entered else pl.lit(None, pl.UInt64)
    visits = visits.changed(lambda frame: frame.with_columns(*moved, request.alias("request")))
    with_rows = _append(writer, "visits", visits)
    if entered:
        _append(writer, "requests", found.requests.changed(lambda frame: frame.with_columns(pl.col("request") + first)))
    _, visited, requested = _there(writer)
    return entered, with_rows, set(visited).difference(with_visits) | set(requested).difference(with_requests)


def _append(writer: Writer, table: str, frames: Frames) -> bool:
    """Add rows to a table; returns whether there are any. The table is never in memory as a whole, and rows that are in
    order are not either."""
    is_new = not (writer.folder / TABLES[table].file).exists()
    if not frames.ordered:
        together = [frame for frame in frames if frame.height]
        if not together:
            return False
        frames = Frames([(pl.concat(together, how="diagonal_relaxed").sort(TABLES[table].sorted_by),)])
    if is_new:
        return writer.write_ordered(table, frames) > 0
    before = tables.shape(writer.folder / TABLES[table].file).rows
    return writer.merge_table(table, frames) > before


def _forget_shares(writer: Writer, found: Found, servers: Collection[str]) -> None:
    """The share that a sampler kept is that of this input's visits. Those of these servers come from another one."""
    own = found.topology.servers if found.topology else ()
    wrong = {server.name for server in own if server.kept is not None}.intersection(servers)
    writer.topology = writer.topology.model_copy(
        update={
            "servers": tuple(
                server.model_copy(update={"kept": None}) if server.name in wrong else server
                for server in writer.topology.servers
            )
        }
    )


def _without_broken_chains(visits: Frames, found: Found, elsewhere: Sequence[str], name: str) -> Frames:
    """Visits without those of servers that call servers whose visits come from another input. Without its calls, such a
    server seems to work as long as it waits for them, and no link joins its visits to the requests that count."""
    server = pl.col("server").cast(pl.String)
    nobody = pl.Series(dtype=pl.UInt64)
    calling = [frame.filter(server.is_in(elsewhere))["parent"].drop_nulls().unique() for frame in found.visits]
    parents = pl.concat([nobody, *calling]).unique().implode()
    named = [frame.filter(pl.col("visit").is_in(parents))["server"].cast(pl.String).unique() for frame in visits]
    callers = sorted({caller for column in named for caller in column})
    if not callers:
        return visits
    gone = pl.concat([nobody, *(frame.filter(server.is_in(callers))["visit"] for frame in visits)])
    unknown = pl.when(~pl.col("parent").is_in(gone.implode())).then(pl.col("parent"))
    found.notes.append(
        f"{name}: {len(gone)} visits of {', '.join(callers[:12])} were left out, because another input has the "
        "visits of the servers that these call, and its requests count"
    )
    return visits.changed(lambda frame: frame.filter(~server.is_in(callers)).with_columns(parent=unknown))


def _there(writer: Writer) -> tuple[int, list[str], list[str]]:
    """The first number that no visit and no request has, and the servers that have visits, and requests."""
    first, servers = 0, list[set[str]]()
    for table, number in (("visits", "visit"), ("requests", "request")):
        servers.append(set())
        if (written := writer.folder / TABLES[table].file).exists():
            for part in parts(written):  # Polars would have whole columns in memory.
                there = part.select(pl.col(number).max(), pl.col("server").unique().cast(pl.String).implode())
                last, names = there.collect().row(0)
                first, servers[-1] = max(first, (last or 0) + 1), servers[-1] | set(names)
    return first, sorted(servers[0]), sorted(servers[1])


def _beside(writer: Writer, kind: str, found: Found, known: Collection[str]) -> bool:
    """Whether requests of an access log are those of further clients: all others are of access logs as well, and no
    server in the logs calls this one."""
    kinds = {one.kind for one in writer.inputs if one.carries.get("responses") == COUNTED}
    servers = {name for frame in found.requests for name in frame.get_column("server").cast(pl.String).unique()}
    called = {callee for _, callee in writer.topology.pairs()}
    return kind == "access log" and kinds == {kind} and not servers.intersection({*known, *called})


def joined(inferred: Topology, texts: Sequence[Text], writer: Writer) -> Topology:
    """The servers and calls that captures show, and those that logs and traces show besides. A server that these call
    by its address, or by that of its host if no other server is there, gets its name; and so does one whose requests
    are those of a server in another input."""
    addresses = _called(inferred)
    elsewhere = alike.names(writer, texts, addresses)
    shown = [
        (found, found.topology, addresses | other)
        for (_, _, found), other in zip(texts, elsewhere, strict=True)
        if found.topology is not None
    ]
    for found, topology, names in shown:
        if names:
            found.visits = found.visits.changed(partial(_renamed, names=names))
            found.requests = found.requests.changed(partial(_renamed, names=names))
        called = {name: names.get(name, name) for name in (server.name for server in topology.servers)}
        servers = {
            called[server.name]: server.model_copy(update={"name": called[server.name]}) for server in topology.servers
        }
        calls = {
            (call.caller, call.callee): call
            for old in topology.calls
            if (call := old.model_copy(update={"caller": called[old.caller], "callee": called[old.callee]}))
        }
        named = topology.model_copy(update={"servers": tuple(servers.values()), "calls": tuple(calls.values())})
        inferred = complete_topology(named, _with_software(inferred, named), {})
    return _tiered(inferred) if shown else inferred


def _with_software(inferred: Topology, logged: Topology) -> Topology:
    """Only one program writes such a log, whatever the answers in captures say."""
    known = {server.name: server.software for server in logged.servers if server.software}
    servers = (
        server.model_copy(update={"software": known.get(server.name, server.software)}) for server in inferred.servers
    )
    return inferred.model_copy(update={"servers": tuple(servers)})


def _called(topology: Topology) -> dict[str, str]:
    """Address → the name of its server; and the address of each host that has one server only."""
    names = {server.address: server.name for server in topology.servers if server.address}
    hosts = {address: address.rpartition(":")[0].strip("[]") for address in names}
    alone = {host for host, count in Counter(hosts.values()).items() if count == 1 and host}
    return {hosts[address]: name for address, name in names.items() if hosts[address] in alone} | names


def _renamed(frame: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    columns = [name for name in ("server", "caller") if name in frame.columns]
    return frame.with_columns(pl.col(columns).cast(pl.String).replace(names).cast(pl.Categorical))


def _tiered(topology: Topology) -> Topology:
    tiers = distances([server.name for server in topology.servers], topology.pairs())
    servers = [server.model_copy(update={"tier": tiers[server.name]}) for server in topology.servers]
    return topology.model_copy(update={"servers": tuple(sorted(servers, key=lambda s: (s.tier or 0, s.name)))})


def unseen_servers(known: Mapping[str, str], topology: Topology) -> list[str]:
    """Sentences about servers that were named and have no packet in the captures, for example because of a wrong
    address."""
    return [
        f"no packet of {name} ({address}) is in the captures"
        for name, address in known.items()
        if topology.server(name) is None
    ]


def jvm_place(source: Source, topology: Topology) -> tuple[str, str | None]:
    """The server of a log, and a sentence with the reason. In this order: the server whose name is in the file's name;
    the only server that speaks AJP; the only HTTP server behind another server; else `jvm`."""
    name = source.path.name
    words = set(re.split(r"[^0-9A-Za-z]+", name.lower()))
    named = [server for server in topology.servers if server.name.lower() in words]
    if len(named) == 1:
        return named[0].name, None
    ajp = [server for server in topology.servers if server.protocol == "ajp"]
    behind = [server for server in topology.servers if server.protocol == "http" and topology.callers_of(server.name)]
    for candidates, why in ((ajp, "that speaks AJP"), (behind, "that answers HTTP behind another server")):
        if len(candidates) == 1:
            app = candidates[0].name
            return app, (
                f"{name}: taken as the log of {app}, the only server {why}; pass NAME={name} if it belongs to another"
            )
    return JVM, f"{name}: its server is unknown, so only its times are used. Pass NAME={name}"


def copy_run(run: Dataset, writer: Writer) -> Topology:
    """The tables of a run that readers add to; returns its topology."""
    for table in TABLES.values():
        for file in run.files(table.name):
            try:
                shutil.copyfile(file, writer.folder / table.file)
            except OSError as error:
                raise cannot_write(writer.folder, error) from error
    writer.maker = run.manifest.maker
    writer.losses |= run.lost()
    writer.notes += run.manifest.notes
    writer.inputs += run.manifest.inputs
    writer.connections = run.manifest.connections
    return run.topology


def complete_topology(inferred: Topology, given: Topology | None, places: Mapping[str, str]) -> Topology:
    """The user's topology combined with what the captures show, item by item and key by key."""
    table = inferred.model_dump(mode="json", exclude_none=True)
    if given is not None:
        said = given.model_dump(mode="json", exclude_none=True)
        for kind, identity in _IDENTITY.items():
            table[kind] = _overlaid(table.get(kind, []), said.get(kind, []), identity)
        for kind in ("places", "cpus"):
            table[kind] = {**table.get(kind, {}), **said.get(kind, {})}
    topology = topology_file.from_table(_with_nodes(table))
    if not places:
        return topology
    resolved = {place: _meant(topology, place, target) for place, target in places.items()}
    return topology.model_copy(update={"places": {**topology.places, **resolved}})


_IDENTITY: dict[str, tuple[str, ...]] = {
    "nodes": ("name",),
    "servers": ("name",),
    "calls": ("caller", "callee"),
    "pools": ("name",),
    "balancers": ("name",),
    "clocks": ("capture",),
}


def _overlaid(items: list[Any], said: list[Any], identity: tuple[str, ...]) -> list[Any]:
    by_identity = {tuple(item[key] for key in identity): dict(item) for item in items}
    for item in said:
        key = tuple(item[part] for part in identity)
        by_identity[key] = {**by_identity.get(key, {}), **item}
    return list(by_identity.values())


def _with_nodes(table: dict[str, Any]) -> dict[str, Any]:
    """A node of the given topology replaces the inferred one that has the same address under another name."""
    addresses: dict[str, str] = {}
    for node in table.get("nodes", []):
        if "address" in node:
            addresses[node["address"]] = node["name"]
    inferred = {node["name"]: addresses.get(node.get("address", ""), node["name"]) for node in table.get("nodes", [])}
    kept = [node for node in table.get("nodes", []) if inferred[node["name"]] == node["name"]]
    servers = [
        {**server, "node": inferred[server["node"]]} if server.get("node") in inferred else server
        for server in table.get("servers", [])
    ]
    return {**table, "nodes": kept, "servers": servers}


def _meant(topology: Topology, place: str, target: str) -> str:
    """The server or node that `--place PLACE=TARGET` means."""
    server: Server | None = topology.place_to_server(target)
    node = topology.place_to_node(target)
    if node is not None and target in (node.name, node.address):
        return node.name
    if server is not None:
        return server.name
    known = ", ".join([s.name for s in topology.servers] + [n.name for n in topology.nodes]) or "none"
    raise UsageError(
        f"--place {place}={target}: no server, node or address has the name {target}", advice=f"known: {known}"
    )
