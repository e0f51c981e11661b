"""The recorder's own folder: closed segments of samples and visits or packets, and the recording's state.

A recording whose recorder was killed is read up to its last closed segment; the manifest says what is lost.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import locks, untrusted
from tailrace.dataset import Writer, scan
from tailrace.errors import InputError, UsageError, cannot_read, cannot_write
from tailrace.readers import capture, captured_software, ports
from tailrace.readers.decoding import Decoding
from tailrace.topology import Node, Server, Topology
from tailrace.units import format_moment

STATE = "recording.json"
MAKER = "tailrace record"
HOST = "host"
"""The place of the host as a whole (crates/core/src/host/options.rs); all nodes of a recording are on it."""
OPEN_SEGMENT = "milliseconds of record after the last closed segment, at most: the recorder was killed"


def is_recording(path: Path) -> bool:
    return os.path.lexists(path / STATE)


def join(folder: Path, writer: Writer, decoding: Decoding) -> Topology:
    """Join a recording's segments into the writer's folder; returns the topology that it shows."""
    state = _state(folder)
    try:
        return _joined(folder, state, writer, decoding)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:  # the state is a stranger's
        raise InputError(folder / STATE, f"a recorder did not write this ({error})") from error


def _joined(folder: Path, state: dict[str, Any], writer: Writer, decoding: Decoding) -> Topology:
    of_user = {*decoding.used, *decoding.servers}
    servers = ports.of_state(state, of_user, decoding.servers.values())
    together = [list(one.places) for one in servers]
    joined = _tables(folder, writer, together)
    decoding = replace(decoding, together=together)
    writer.maker = MAKER
    for what, count in state["lost"].items():
        writer.lose(what, count)
    writer.lose("segments that could not be read", len(joined["damaged"]))
    writer.notes += state["notes"]
    topology = _with_software(_packets(state, joined, writer, decoding), state)
    topology = ports.together(writer, topology, servers)
    if not state["closed"] and locks.is_held(folder):
        writer.notes.append(f"the recorder was still running: this is its record up to {format_moment(state['end'])}")
    elif not state["closed"]:
        writer.lose(OPEN_SEGMENT, 1000)
        writer.notes.append(f"the recorder was killed: its record ends at {format_moment(state['end'])}")
    on_nodes = _on_nodes(topology, state["nodes"], _places(writer))
    return on_nodes.model_copy(update={"cpus": _cpus(state)})


def _tables(folder: Path, writer: Writer, together: list[list[str]]) -> dict[str, Any]:
    """What the engine says of the tables that it made of the segments."""
    from tailrace._core import join as engine

    try:
        joined: dict[str, Any] = json.loads(engine(str(folder), str(writer.folder), together))
    except OSError as error:
        if str(error.filename).startswith(str(writer.folder)):
            raise cannot_write(writer.folder, error) from error
        raise cannot_read(error.filename or folder, error) from error
    except ValueError as error:
        raise InputError(folder, f"its segments cannot be joined ({error})") from error
    return joined


def _packets(state: dict[str, Any], joined: dict[str, Any], writer: Writer, decoding: Decoding) -> Topology:
    """The decoded packets: decoded while they were recorded, or now. Without packets, the servers that were named."""
    if joined["capture"]:
        processes = _processes(state, decoding.servers)
        known = replace(decoding, processes=processes, same_host=state.get("same_host", []))
        return capture.decode([joined["capture"]], writer, known, None)
    if decoding.keys:
        advice = "record with --capture, and read that capture with --keys"
        raise UsageError("a recorder has already read the packets, and could not decrypt them", advice=advice)
    if decoding.rules or decoding.protocols or decoding.keep_queries:
        advice = "pass --interactions, --protocol and --keep-queries to the recorder, or record with --capture"
        raise UsageError("the packets of this recording were read when it was made", advice=advice)
    if state.get("packets"):
        report = {**state["packets"], **(joined["packets"] or {})}
        for what, count in capture.losses(report).items():
            writer.lose(what, count)
        writer.notes += capture.notes(report)
        writer.connections = capture.connections(report)
        visits = writer.folder / "visits.parquet"
        return capture.topology_of(report, scan(visits) if visits.exists() else None)
    return Topology(servers=tuple(Server(name=name, address=address) for name, address in decoding.servers.items()))


def _processes(state: dict[str, Any], servers: Mapping[str, str]) -> dict[str, list[str]]:
    """Servers that the user does not name get the names of their processes."""
    given = set(servers.values())
    found = {name: [a for a in addresses if a not in given] for name, addresses in state.get("servers", {}).items()}
    return {name: addresses for name, addresses in found.items() if addresses}


def _with_software(topology: Topology, state: dict[str, Any]) -> Topology:
    """Each server runs the process that listened at its address: `shop/java:8080` is java on the node shop. What an
    interpreter runs, it may say itself."""
    process = {
        str(address): re.sub(r":\d+$", "", str(name)).rpartition("/")[2]
        for name, addresses in state.get("servers", {}).items()
        for address in addresses
    }
    servers = (
        server.model_copy(update={"software": captured_software.within(found, server.software)})
        if (found := process.get(server.address or ""))
        else server
        for server in topology.servers
    )
    return topology.model_copy(update={"servers": tuple(servers)})


def _state(folder: Path) -> dict[str, Any]:
    path = folder / STATE
    state = untrusted.parse_json(untrusted.read_inside(path), path, "a recorder did not write this")
    if not isinstance(state, dict):
        raise InputError(path, "a recorder did not write this")
    wanted = {"format": int, "closed": bool, "end": int, "nodes": list, "lost": dict, "notes": list}
    for key, kind in wanted.items():
        if not isinstance(state.get(key), kind):
            raise InputError(path, "a recorder did not write this", key=key)
    if state["format"] > 1:
        raise InputError(path, f"its format is {state['format']}, this Tailrace reads 1", "use a newer Tailrace")
    return state


def _places(writer: Writer) -> list[str]:
    path = writer.folder / "samples.parquet"
    if not path.exists():
        return []
    return sorted(scan(path).select(pl.col("place").cast(pl.String).unique()).collect()["place"])


def _cpus(state: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the allowed CPUs of each place that may use only some CPUs of the host."""
    all_of_host = {node["name"]: node["cores"] for node in state["nodes"]}.get(HOST, 0)
    known = {place: tuple(sorted(cpus)) for place, cpus in state.get("cpus", {}).items()}
    return {place: cpus for place, cpus in known.items() if len(cpus) < all_of_host}


def _on_nodes(topology: Topology, nodes: list[dict[str, Any]], places: list[str]) -> Topology:
    """Return the topology with each server on the node that has its address. Its `places` then map each listener
    (`node:80`) to the server on that port, beside those that they map already. Each network namespace has the loopback
    addresses, so the node with a listener on that port counts first, and then the host."""
    nodes_of: dict[str, list[str]] = {}
    listening = frozenset(places)
    for known in nodes:
        for address in known["addresses"]:
            nodes_of.setdefault(address, []).append(known["name"])
    servers = []
    listeners = {place: name for place, name in topology.places.items() if place in listening}
    for server in topology.servers:
        host, _, port = (server.address or "").rpartition(":")
        its = nodes_of.get(host.strip("[]"), ())
        node = next((name for name in its if f"{name}:{port}" in listening), next(iter(its), None))
        servers.append(server if node is None else server.model_copy(update={"node": node}))
        if node is not None and f"{node}:{port}" in listening:
            listeners.setdefault(f"{node}:{port}", server.name)
    used = {server.node for server in servers}
    made = tuple(Node(name=node["name"], cores=node["cores"], host=HOST) for node in nodes if node["name"] in used)
    # A node without an observed server is left out: its samples belong to another tenant of the host.
    kept = tuple(node for node in topology.nodes if node.name in used)
    return topology.model_copy(update={"nodes": (*kept, *made), "servers": tuple(servers), "places": listeners})
