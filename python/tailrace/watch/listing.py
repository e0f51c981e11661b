"""What the folder of a watch holds: each incident with its diagnosis, or with the reason why it has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tailrace import untrusted
from tailrace.dataset import Dataset
from tailrace.dataset.traces import TRACES_MAX, traces
from tailrace.errors import InputError, TailraceError, cannot_read
from tailrace.report import stored
from tailrace.report.stored import Stored
from tailrace.watch import incidents

INCIDENTS_MAX = 1_000
"""Later ones are listed first; a watch keeps 50 unless `--most` says otherwise."""
READ_OF_ONE = ("diagnosis.json", "manifest.json", "requests.parquet")
"""The files of an incident from which its line comes."""
SLOTS = 48
"""Bars of a sparkline: one for 2.5 s of the two minutes that an incident holds."""


@dataclass(frozen=True)
class Incident:
    """Names come from packets of strangers, and are made safe where they are shown."""

    name: str
    begin: int | None = None
    """The first VLRT request was sent then, or without one the recording began."""
    end: int | None = None
    requests: int = 0
    vlrt: int = 0
    dropper: str | None = None
    origin: str | None = None
    cause: str | None = None
    ctqo: str | None = None
    sentence: str = ""
    slots: tuple[int, ...] = ()
    """VLRT requests by the time at which they were sent, over the whole recording."""
    traces: tuple[tuple[str, str | None], ...] = ()
    """Of VLRT, the longest first: the ids of the trace and of the caller's span, from the headers of requests."""
    failed: str | None = None
    """Why it is not explained."""

    @property
    def report(self) -> str | None:
        """The relative address of its report."""
        return None if self.failed else f"{quote(self.name)}/report.html"

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "report": self.report}


def of(folder: Path, known: Callable[[Path], Incident | None] = lambda out: None) -> list[Incident]:
    """The incidents of a watch's folder, the latest first. One that is `known` is not read. Raises InputError if there
    is no such folder."""
    try:
        names = sorted((path.name for path in folder.iterdir()), reverse=True)
    except OSError as error:
        raise cannot_read(folder, error) from error
    return list(islice(_each(folder, names, known), INCIDENTS_MAX))


def one(out: Path) -> Incident:
    """The incident of a run folder; it counts as failed if it cannot be read."""
    try:
        found = stored.read_beside(out)
        return _explained(out, found)
    except TailraceError as error:
        return Incident(out.name, failed=str(error))


def _each(folder: Path, names: list[str], known: Callable[[Path], Incident | None]) -> Iterator[Incident]:
    for name in names:
        out = folder / name
        if not name.startswith(incidents.INCIDENT) or out.is_symlink() or not out.is_dir():
            continue
        if not name.endswith(".recording"):
            yield known(out) or one(out)
        elif failed := _failure(out):
            yield Incident(name, failed=failed)


def _failure(kept: Path) -> str | None:
    """Why a kept recording is not explained; None while it is being explained."""
    try:
        if not untrusted.regular(kept / incidents.WHY_NOT) or incidents.is_running(kept):
            return None
        return incidents.last_line(kept / incidents.WHY_NOT) if incidents.has_failed(kept) else None
    except InputError as error:
        return str(error)


def _explained(out: Path, found: Stored) -> Incident:
    main = found.main
    return Incident(
        name=out.name,
        begin=min((episode.begin for episode in found.episodes), default=found.begin),
        end=max((episode.end for episode in found.episodes), default=found.end),
        requests=found.requests,
        vlrt=found.vlrt,
        dropper=main.dropper if main else None,
        origin=main.origin if main else None,
        cause=main.cause if main else None,
        ctqo=main.ctqo if main else None,
        sentence=found.answer[0] if found.answer else "",
        slots=_slots(out, found),
        traces=_traces(out, found),
    )


def _traces(out: Path, found: Stored) -> tuple[tuple[str, str | None], ...]:
    """Empty where the run folder cannot be read, as for `_slots`."""
    if not found.vlrt:
        return ()
    import polars as pl

    try:
        known = traces(Dataset.open(out), found.threshold_ns)
    except (InputError, OSError, pl.exceptions.PolarsError):
        return ()
    return tuple((one.trace, one.span) for one in known[:TRACES_MAX])


def _slots(out: Path, found: Stored) -> tuple[int, ...]:
    """Empty where the run folder cannot be read: the list says what the diagnosis says, and has no picture."""
    if found.begin is None or found.end is None or found.end <= found.begin or not found.vlrt:
        return ()
    import polars as pl

    length = found.end - found.begin
    slot = (pl.col("sent") - found.begin).clip(0, length - 1) // -(-length // SLOTS)
    try:
        requests = Dataset.open(out).requests()
        slow = requests.filter(pl.col("end") - pl.col("sent") >= found.threshold_ns)
        counted = dict(slow.group_by(slot.alias("slot")).len().collect().iter_rows())
    except (InputError, OSError, pl.exceptions.PolarsError):
        return ()
    return tuple(int(counted.get(i, 0)) for i in range(SLOTS))
