"""What really happened, from `truth.toml`: stalls, the servers that they held up, and the causes that a diagnosis may
name.

Two forms are read: the simulator's (`tailrace.experiment.truth`), and that of recordings made by hand
(`demo/truth.toml`: `[[stall]]` with source, place, begin in Unix seconds, length in seconds).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from string import digits
from typing import Any

from tailrace import toml
from tailrace.errors import InputError
from tailrace.experiment import truth
from tailrace.topology import Topology
from tailrace.units import MILLISECOND, SECOND

BURST, SOFT, BALANCER = "workload-burst", "soft-resource", "balancer"
FREQUENCY, QUOTA, NEIGHBOUR = "frequency-step", "cpu-quota", "neighbour"
OVERHEAD = "concurrency-overhead"
NONE = "unknown"
"""The right answer where the recording does not show the cause, or where nothing stalled."""

CAUSES: dict[str, frozenset[str]] = {
    "burn": frozenset({NEIGHBOUR}),
    "gc": frozenset({"garbage-collection"}),
    "burst": frozenset({BURST}),
    # Injected without a disk: no bytes distinguish a flush from writeback, so either is right.
    "iowait": frozenset({"log-flush", "writeback"}),
    # The server became slower, and nothing in the run folder shows why.
    "slow": frozenset({NONE}),
}
"""Kinds of stalls for which the engines and the diagnosis have different names."""

ONE_STALL_NS = 100 * MILLISECOND
"""Two stalls of the same kind at the same place that are closer than this are one: a quota that is used up in
consecutive periods of 100 ms, or a batch that is sent in portions."""
STAMPED_NS = 20 * MILLISECOND
"""The accuracy of the stall times of recordings made by hand (`demo/truth.toml`)."""


@dataclass(frozen=True)
class Stall:
    """An interval in which `origins` could not serve as usual. Servers of one node stall together, so any of them
    counts."""

    kind: str
    causes: frozenset[str]
    origins: frozenset[str]
    begin: int
    end: int


def read(path: str | PathLike[str], topology: Topology) -> tuple[Stall, ...]:
    """The stalls of a truth.toml, or of the one in a folder, in the order of their begin."""
    file, table = _table(path)
    if "stall" in table or "engine" not in table:
        rows = table.get("stall", [])
        if not isinstance(rows, list):
            raise InputError(file, "stall must be a list of tables", "docs/reference/score.md shows one", key="stall")
        return _joined(_by_hand(file, row, topology) for row in rows)
    told = (s for s in truth.read_stalls(file) if s.kind != NEIGHBOUR or _has_neighbour(s.place, topology))
    return _joined(_stall(s.kind, s.place, s.begin, s.end, topology) for s in told)


def simulated(path: str | PathLike[str]) -> dict[str, Any] | None:
    """The experiment of a truth.toml that the simulator wrote, as plain values; None for a recording."""
    _, table = _table(path)
    found = table.get("experiment")
    return found if table.get("engine") == "sim" and isinstance(found, dict) else None


def _table(path: str | PathLike[str]) -> tuple[Path, dict[str, Any]]:
    """A truth.toml, or the one in a folder, and what it holds."""
    untrusted = Path(path).is_dir()
    file = Path(path) / truth.FILE if untrusted else Path(path)
    return file, toml.read(file, "docs/reference/score.md", untrusted=untrusted)


def _by_hand(file: Path, row: Mapping[str, Any], topology: Topology) -> Stall:
    try:
        begin = int(float(row["begin"]) * SECOND)
        end = begin + int(float(row["length"]) * SECOND)
        kind, place = str(row["source"]), str(row["place"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(file, f"a [[stall]] lacks source, place, begin or length ({error})") from error
    return _stall(kind, place, begin - STAMPED_NS, end + STAMPED_NS, topology)


def _stall(kind: str, place: str, begin: int, end: int, topology: Topology) -> Stall:
    origins = frozenset(_servers(place, topology))
    if kind == BURST:
        origins |= _entries_like(place, topology)
    return Stall(kind, CAUSES.get(kind, frozenset({kind})), origins, begin, end)


def _has_neighbour(place: str, topology: Topology) -> bool:
    """Whether another server on its machine works for other requests. Servers of one call path that share a machine
    compete there as visits of one server do: that is their load, and not a stall."""
    node = topology.node_of(place)
    if node is None or any(other.host == node.name for other in topology.nodes):
        return True
    below = {place, *topology.downstream_of(place)}
    others = (server.name for server in topology.servers_on(node.name))
    return any(name not in below and place not in topology.downstream_of(name) for name in others)


def _entries_like(place: str, topology: Topology) -> frozenset[str]:
    """A burst reaches all numbered servers of the entry tier; the engine names only the first."""
    tier = getattr(topology.server(place), "tier", None)
    alike = (s.name for s in topology.servers if s.tier == tier and s.name.rstrip(digits) == place.rstrip(digits))
    return frozenset(name for name in alike if not topology.callers_of(name))


def _servers(place: str, topology: Topology) -> Iterable[str]:
    """The servers that a place stands for: the server itself, or all servers of a node. A neighbour's place begins with
    the name of its node."""
    if topology.server(place):
        return (place,)
    node = topology.node(place) or next((n for n in topology.nodes if place.startswith(f"{n.name}-neighbour")), None)
    return (server.name for server in topology.servers_on(node.name)) if node else (place,)


def _joined(stalls: Iterable[Stall]) -> tuple[Stall, ...]:
    found: list[Stall] = []
    last: dict[tuple[str, frozenset[str]], int] = {}
    for stall in sorted(stalls, key=lambda stall: stall.begin):
        key = stall.kind, stall.origins
        at = last.get(key)
        if at is not None and stall.begin - found[at].end <= ONE_STALL_NS:
            found[at] = replace(found[at], end=max(found[at].end, stall.end))
            continue
        last[key] = len(found)
        found.append(stall)
    return tuple(found)
