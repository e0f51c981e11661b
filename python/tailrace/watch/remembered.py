"""What the page of incidents showed of each: an incident that has not changed since is not read again.

The file is an aid. If it is missing, damaged, or of another version, the incidents are read, and it is written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tailrace import untrusted, whole
from tailrace.errors import InputError
from tailrace.watch.listing import READ_OF_ONE, Incident

FILE = "incidents.json"
_BYTES_MAX = 16 << 20
"""A thousand incidents take 1 MB."""
_VERSION = 1

Stamp = tuple[tuple[int, int, int], ...]
"""Of each file that is read of an incident: its number in the file system, its size, and when it was written."""


@dataclass(frozen=True)
class Shown:
    stamp: Stamp
    incident: Incident


@dataclass(frozen=True)
class _File:
    version: int
    shown: tuple[Shown, ...]


_FORM = TypeAdapter(_File)


class Memory:
    """Of the page of a folder: `known` is for `listing.of`, and `write` keeps what was listed for the next time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._before = _read(self._path)
        self._stamps: dict[str, Stamp] = {}

    def known(self, out: Path) -> Incident | None:
        """What the page showed of an incident, if it has not changed since."""
        stamp = self._stamps[out.name] = _stamp(out)
        before = self._before.get(out.name)
        return before.incident if before and stamp and before.stamp == stamp else None

    def write(self, found: Iterable[Incident]) -> None:
        """What cannot be read is read again next time."""
        stamped = ((self._stamps.get(one.name), one) for one in found if one.failed is None)
        shown = tuple(Shown(stamp, one) for stamp, one in stamped if stamp)
        whole.write(self._path, _FORM.dump_json(_File(_VERSION, shown)))


def _read(path: Path) -> Mapping[str, Shown]:
    """By the name of the incident."""
    try:
        if not untrusted.regular(path):
            return {}
        found = _FORM.validate_json(untrusted.read_inside(path, _BYTES_MAX))
    except (InputError, ValidationError):
        return {}
    return {one.incident.name: one for one in found.shown} if found.version == _VERSION else {}


def _stamp(out: Path) -> Stamp:
    """Empty if a file is missing: the incident is read then."""
    try:
        found = [(out / name).lstat() for name in READ_OF_ONE]
    except OSError:
        return ()
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)
