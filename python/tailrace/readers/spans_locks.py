"""Waits for locks, from spans inside a server's that are named after them: `acquire lock`, `mutex.lock`.

```text
server   ├──────────────────────────────┤
internal    ├── acquire order lock ──┤         the visit waited: an event `lock_wait`, as of Java's recorder
internal    ├── synchronized ────────┤         waited, or held the lock: the name does not show which
```
A span with a call inside did not wait all the time, so it is no wait. The time of the events is part of the visit, and
no work of the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import units
from tailrace.readers.source import Found
from tailrace.readers.spans_columns import CLIENT, SERVER, Linked, Numbers
from tailrace.units import MILLISECOND

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LOCKS = {"lock", "locks", "mutex", "rwlock", "semaphore", "latch", "monitor", "synchronized", "synchronised"}
_WAITS = {"acquire", "acquiring", "await", "wait", "waiting", "enter", "obtain", "try"}
_SHORT = 5 * MILLISECOND
"""A lock that is free is taken in less."""
_MOST = 200_000
_CALL = re.compile(r"(?i)(?:\.|::|#)(?:read|write|try)?lock$|(?:^|\W)lock (?:the )?\w+$")
"""Calls that end when the lock is taken."""


def names_lock(name: str) -> bool:
    """Whether a span is named after a lock."""
    return not _LOCKS.isdisjoint(word.lower() for word in _WORDS.findall(name))


def names_wait(name: str) -> bool:
    """Whether a span lasts, by its name, until a lock is taken."""
    words = {word.lower() for word in _WORDS.findall(name)}
    return not _LOCKS.isdisjoint(words) and (not _WAITS.isdisjoint(words) or _CALL.search(name) is not None)


class Locks:
    """Of all spans; `texts` are those of their names and services."""

    def __init__(self, texts: Sequence[str], named: Iterable[bool]) -> None:
        self._texts = texts
        able = [known and bool(text) for text, known in zip(texts, named, strict=True)]
        self._lock, self._wait = (
            np.array([known and of(text) for text, known in zip(texts, able, strict=True)])
            for of in (names_lock, names_wait)
        )
        self._events: list[pl.DataFrame] = []
        self.waits = self.held = self.longest = self._kept = 0

    def add(self, spans: Linked) -> None:
        """Add a part of the spans."""
        if not self._lock.any():
            return
        each = spans.columns
        kind, begin, end = each["kind"], each["begin"], each["end"]
        inner = (kind != CLIENT) & (kind != SERVER) & (each["container"] >= 0) & ~each["connection"]
        rows = np.flatnonzero(inner & self._lock[each["interaction"]])
        calling = np.zeros(len(kind), dtype=bool)
        calling[each["above"][(kind == CLIENT) & (each["above"] >= 0)]] = True
        is_wait = self._wait[each["interaction"][rows]] & ~calling[rows]
        long = end[rows] - begin[rows] > _SHORT
        waits, held = rows[is_wait & long], rows[~is_wait & long]
        self.waits, self.held = self.waits + len(waits), self.held + len(held)
        if len(waits):
            self.longest = max(self.longest, int((end[waits] - begin[waits]).max()))
        self._keep(each, waits[: _MOST - self._kept])

    def _keep(self, each: Mapping[str, NDArray[Any]], waits: Numbers) -> None:
        self._kept += len(waits)
        if len(waits):
            places = [_plain(self._texts[service]) for service in each["service"][waits].tolist()]
            times = {"begin": each["begin"][waits], "end": each["end"][waits]}
            kind, nothing = pl.lit("lock_wait").alias("kind"), pl.lit(None, pl.String).alias("detail")
            frame = pl.DataFrame({"place": places, **times}).with_columns(kind, nothing)
            self._events.append(frame.select("place", "kind", "begin", "end", "detail"))

    def into(self, found: Found) -> None:
        """Put the waits into `found`, as events."""
        if self._events:
            found.events.append(pl.concat(self._events).sort("begin"))
            found.lose("waits for locks beyond the first", self.waits - self._kept)

    def notes(self) -> list[str]:
        """What to say of them."""
        said = []
        if self.waits:
            said.append(
                f"{self.waits} spans are waits for a lock, up to {units.format_duration(self.longest)}, which is no "
                "work of the server: events lock_wait"
            )
        if self.held:
            said.append(
                f"{self.held} spans are named after locks: their visits waited for the lock or held it, and the names "
                "do not show which"
            )
        return said


def _plain(text: str) -> str:
    return text.encode(errors="replace").decode()
