"""Several hosts' run folders → one run folder: a visit that two hosts saw is one, and all times are on one clock.

```text
names      servers by address, places and nodes by host            ┐
clocks     what a host's clock differs by, from visits seen twice  │ one host after the other joins
pairs      which visits two hosts saw                              │ the hosts that are joined already
tables     one row for each visit, request, sample and event       ┘
```

A host joins when it shares a server with the hosts that are joined already. Visits that only one host saw are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from tailrace import dataset
from tailrace.dataset import Dataset, Writer
from tailrace.errors import UsageError
from tailrace.join import clocks, names, tables
from tailrace.join.clocks import Offset
from tailrace.join.tables import Tables
from tailrace.topology import Clock
from tailrace.units import format_duration

_LEFT_OUT = ": it is left out: "
"""In the notes of a run, between a host and the reason."""
ROWS_MAX = 50_000_000
"""Visits and requests of all hosts together; they are held in memory, about 150 bytes each."""


@dataclass(frozen=True)
class Joined:
    run: Dataset
    both: Mapping[str, int]
    """Host → how many of its visits another host saw, too. The first host has no count."""
    offsets: Mapping[str, Offset]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Host → why it is not in the run."""


def join(
    runs: Mapping[str, Dataset],
    out: str | PathLike[str],
    *,
    overwrite: bool = False,
    leave_out: bool = False,
    unread: Mapping[str, str] | None = None,
) -> Joined:
    """Write the run folder `out` from the run folders of hosts, by name. Times are on the clock of the first host.

    If a host shares no visit with the others, its clock is unknown: raises UsageError, or with `leave_out` the host is
    left out, and a note names it. `unread` are further hosts, with the reason why they have no run folder."""
    left_out = dict(unread or {})
    if len(runs) + len(left_out) < 2:
        raise UsageError("there is one run folder; joining needs two or more")
    rows = sum(run.manifest.rows.get(table, 0) for run in runs.values() for table in ("visits", "requests"))
    if rows > ROWS_MAX:
        raise UsageError(f"the run folders have {rows:,} visits and requests; {ROWS_MAX:,} can be joined")
    for run in runs.values():
        if Path(out).resolve() == run.path.resolve():
            raise UsageError("it is one of the run folders", where=str(out), advice="choose another name")
    kept, found = dict(runs), _together(runs)
    # Without the hosts that are left out, the others have the names that they alone know.
    while found.apart:
        if not leave_out:
            raise _unknown(found.apart)
        left_out |= dict.fromkeys(found.apart, "no visits show what its clock differs by")
        kept = {host: run for host, run in kept.items() if host not in found.apart}
        found = _together(kept)
    with dataset.create(out, overwrite) as writer:
        _write(writer, found, kept)
        writer.notes += [f"{host}{_LEFT_OUT}{why}" for host, why in left_out.items()]
    return Joined(Dataset.open(out), found.both, found.offsets, left_out)


def left_out(notes: Sequence[str], hosts: Iterable[str]) -> dict[str, str]:
    """Which of the hosts are not in a joined run, and why, according to its notes."""
    found: dict[str, str] = {}
    for host in hosts:
        begin = f"{host}{_LEFT_OUT}"
        why = [note.removeprefix(begin) for note in notes if note.startswith(begin)]
        if why:
            found[host] = why[0]
    return found


@dataclass(frozen=True)
class _Together:
    """The tables and names of the hosts that share visits with the first one, directly or through others."""

    tables: Tables
    naming: names.Naming
    both: Mapping[str, int]
    offsets: Mapping[str, Offset]
    apart: Sequence[str]
    """Hosts that share none."""


def _together(runs: Mapping[str, Dataset]) -> _Together:
    naming = names.of({host: run.topology for host, run in runs.items()})
    hosts = {host: tables.load(run, naming.hosts[host]) for host, run in runs.items()}
    first, *others = hosts
    both: dict[str, int] = {}
    offsets: dict[str, Offset] = {}
    joined = hosts[first]
    while others and (found := _next(joined, {host: hosts[host] for host in others})):
        host, offset = found
        others.remove(host)
        joined, both[host] = tables.join(joined, tables.shifted(hosts[host], offset), offset.within_ns)
        offsets[host] = offset
    return _Together(joined, naming, both, offsets, others)


def _next(joined: Tables, others: Mapping[str, Tables]) -> tuple[str, Offset] | None:
    """The next host whose clock is known, because it shares visits with those that are joined already."""
    for host, one in others.items():
        offset = clocks.offset(joined.visits, one.visits)
        if offset is not None:
            return host, offset
    return None


def _unknown(others: Sequence[str]) -> UsageError:
    return UsageError(
        f"{', '.join(others)}: no visits show what the clocks differ by",
        advice="record the packets of both ends at the same time, and name servers by the addresses that both ends see "
        "(--server NAME=IP:PORT); --leave-out joins the rest",
    )


def _write(writer: Writer, joined: _Together, runs: Mapping[str, Dataset]) -> None:
    naming, offsets = joined.naming, joined.offsets
    writer.maker = "tailrace join"
    for name, frame in joined.tables.frames().items():
        if frame.height:
            writer.write_table(name, frame)
    writer.topology = naming.topology(joined.tables.places())
    found = [Clock(capture=host, offset_ns=o.offset_ns, bound_ns=o.bound_ns) for host, o in offsets.items()]
    writer.clocks = (*(Clock(capture=host, offset_ns=0, bound_ns=0) for host in runs if host not in offsets), *found)
    for host, run in runs.items():
        for what, count in run.manifest.lost.items():
            writer.lose(f"{host}: {what}", count)
        writer.notes += [f"{host}: {note}" for note in run.manifest.notes]
    writer.connections = naming.connections({host: run.connections for host, run in runs.items()})
    for host, count in joined.both.items():
        bound = format_duration(offsets[host].bound_ns)
        writer.notes.append(f"{host}: {count:,} visits were seen at both ends; its clock is known to ±{bound}")
