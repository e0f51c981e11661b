"""Handles the files that a killed watch left in its folder.

| left | becomes |
|---|---|
| the ring, with signs of an incident that is not explained | an incident to explain |
| the ring without such signs | nothing: it is removed |
| an incident whose explanation is still running | waited for |
| an incident whose explanation was killed | explained from the start |
| an incident that is explained | its recording is removed, as it would have been |
| an incident whose explanation failed | nothing: it was reported, and is kept for the user |
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tailrace import locks
from tailrace.errors import cannot_write
from tailrace.recorder import discard, recording_of
from tailrace.watch import incidents
from tailrace.watch.incidents import Explaining, number_of

ASIDE = "recording.left"
"""The ring of the watch before."""
EXPLAINED = "explained"
"""In the ring: the number of the last segment that an explanation has used."""


def mark_explained(recording: Path, number: int) -> None:
    with suppress(OSError):  # on a full disk, an incident may be explained twice
        (recording / EXPLAINED).write_text(str(number))


def set_aside(recording: Path) -> None:
    """Make room for a new ring. A process without rights checks the old one later, because it may hold what strangers
    wrote."""
    if not recording.is_dir() or locks.is_held(recording):
        return
    aside = recording.with_name(ASIDE)
    if aside.is_dir():  # and the watch that set it aside was killed before it looked: the older one says more
        discard(recording)
        return
    try:
        recording.rename(aside)
    except OSError as error:
        raise cannot_write(recording, error) from error


def take_up(folder: Path) -> list[Path]:
    """Incidents to explain, the oldest first: the names of their run folders."""
    if (folder / ASIDE).is_dir():
        _take_up_ring(folder / ASIDE)
    found = []
    for kept in sorted(folder.glob(f"{incidents.INCIDENT}*.recording")):
        out = kept.with_suffix("")
        if recording_of(out) != kept or incidents.has_failed(kept):
            continue
        if not incidents.is_running(kept) and incidents.is_explained(out):
            Explaining(out).finish()
        else:
            found.append(out)
    return found


def _take_up_ring(ring: Path) -> None:
    try:
        kept = recording_of(incidents.named(ring.parent, incidents.INCIDENT, incidents.end_of(ring)))
    except (OSError, ValueError, KeyError, TypeError):  # it was killed before it recorded anything
        kept = None
    if kept is None or kept.exists() or not _has_signs(ring):
        discard(ring)
        return
    (ring / EXPLAINED).unlink(missing_ok=True)
    try:
        ring.rename(kept)
    except OSError as error:
        raise cannot_write(kept, error) from error


def _has_signs(ring: Path) -> bool:
    """Whether it contains signs of an incident that is not explained."""
    from tailrace.watch.noticing import Notice

    notice = Notice()
    explained = _explained(ring)
    signs = False
    for segment in sorted(ring.glob("*.parquet"), key=number_of):
        # Earlier segments show what is usual.
        reasons = notice.see(segment)
        signs |= bool(reasons) and number_of(segment) > explained
    return signs


def _explained(recording: Path) -> int:
    with suppress(OSError, ValueError):
        return int((recording / EXPLAINED).read_text())
    return 0
