"""Which servers of a log are those of another input under another name: their visits end at the same moments.

```text
traces:       web ── app                        web's log:      web ── 10.0.0.7:8080
ends of app:  ╵  ╵╵   ╵ ╵     ╵                 ends of its calls:    ╵  ╵╵   ╵ ╵     ╵      so the address is app
```
Without this, one system would count as two that stand still at once, and each would get half of the very long requests.
Ends agree if hardly any request has ended in one input alone at any moment, and if this is not so as soon as one of
them is moved by a second. Servers behind each other end alike, so ends do not show which of them wrote a log that
nobody named. It is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.dataset import TABLES, Writer
from tailrace.dataset.merging import written as parts
from tailrace.readers.source import Found, Frames, Source
from tailrace.units import MILLISECOND, SECOND

_LOG = "access log"
_WITHIN = 10 * MILLISECOND
"""Clocks of hosts, and stamps of whole milliseconds, differ by less."""
_SHIFTS = (317 * MILLISECOND, 731 * MILLISECOND, SECOND + 413 * MILLISECOND)
_LEAST = 20
"""Fewer requests prove nothing."""
_MOST = 1 << 18
"""With more ends in an input, a part of its time is compared."""
_MISSING = 0.01
"""This share of the requests may be in one input alone."""
_CLEARLY = 4
"""So many times as many requests must have ended in one input alone once it is moved."""
Ends = NDArray[np.int64]


@dataclass
class _Shown:
    """When the visits of each server ended, and whom it calls."""

    ends: dict[str, Ends] = field(default_factory=dict)
    calls: dict[str, set[str]] = field(default_factory=dict)

    def called(self) -> set[str]:
        """The servers that others call."""
        return {name for caller, names in self.calls.items() if caller in self.ends for name in names}


def names(writer: Writer, texts: Sequence[tuple[Source, str, Found]], known: Collection[str]) -> list[dict[str, str]]:
    """For each text, what its servers are called elsewhere; a note of the text says so. `known` addresses have a
    name."""
    result: list[dict[str, str]] = [{} for _ in texts]
    logs = [i for i, (_, kind, found) in enumerate(texts) if kind == _LOG and found.visits]
    others = [found.visits for _, kind, found in texts if kind != _LOG and found.visits]
    if not logs or not (others or _file(writer)):
        return result
    there = _shown(chain(*others, _written(writer)))
    for i in logs:
        source, _, found = texts[i]
        here = _shown(found.visits)
        result[i] = _named(source, found, here, there, known)
    return result


def _named(source: Source, found: Found, here: _Shown, there: _Shown, known: Collection[str]) -> dict[str, str]:
    """The servers of one log that have another name elsewhere."""
    own = sorted(here.ends.keys() - here.called())
    if len(own) != 1:
        return {}
    name, file = own[0], source.path.name
    if source.place is None and name not in there.ends:
        if fit := sorted(one for one, ends in there.ends.items() if agree(here.ends[name], ends)):
            found.visits, found.requests, found.topology = Frames(), Frames(), None
            found.notes.append(
                f"{file}: its requests are those of {' and '.join(fit[:8])} in another input, for they ended at the "
                "same moments. Which server wrote it is unknown, so it is left out; pass NAME=FILE"
            )
        return {}
    behind = there.calls.get(name, set()) if name in there.ends else there.ends.keys() - there.called()
    renamed = dict[str, str]()
    unknown = sorted(here.calls.get(name, set()) - there.ends.keys() - set(known))
    for group in [[one] for one in unknown] + ([unknown] if len(unknown) > 1 else []):
        together = np.concatenate([here.ends[one] for one in group])
        fit = sorted(one for one in behind if one in there.ends and agree(together, there.ends[one]))
        if len(fit) == 1 and not renamed.keys() & set(group):
            renamed |= dict.fromkeys(group, fit[0])
    found.notes += [
        f"{file}: {old} counts as {new}, whose requests ended at the same moments; --server NAME={old} says otherwise"
        for old, new in list(renamed.items())[:8]
    ]
    return renamed


def agree(one: Ends, other: Ends) -> bool:
    """Whether these are the ends of the same requests."""
    if not len(one) or not len(other):
        return False
    first, last = max(one.min(), other.min()) - _WITHIN, min(one.max(), other.max()) + _WITHIN
    one, other = (np.sort(ends[(ends >= first) & (ends <= last)]) for ends in (one, other))
    count = min(len(one), len(other))
    if count < _LEAST:
        return False
    alone = _alone(one, other)
    moved = sorted(_alone(one, np.sort(first + (other + shift - first) % (last - first))) for shift in _SHIFTS)
    return alone <= max(2, count * _MISSING) and moved[1] >= _CLEARLY * max(1, alone)


def _alone(one: Ends, other: Ends) -> int:
    """How many more requests have ended in one of them than in the other, at most at any moment."""
    moments = np.concatenate([one, other]) + _WITHIN
    early = [np.searchsorted(ends, moments - _WITHIN, "right") for ends in (one, other)]
    late = [np.searchsorted(ends, moments, "right") for ends in (one, other)]
    return int(max((early[0] - late[1]).max(), (early[1] - late[0]).max(), 0))


def _shown(frames: Iterable[pl.DataFrame | pl.LazyFrame]) -> _Shown:
    shown, ends = _Shown(), dict[str, list[Ends]]()
    left = _MOST
    for frame in frames:
        names = [pl.col(name).cast(pl.String) for name in ("server", "caller")]
        table = frame.lazy().select(*names, "departure").collect().head(left)
        left -= table.height
        for caller, server in table.select("caller", "server").drop_nulls().unique().iter_rows():
            shown.calls.setdefault(caller, set()).add(server)
        for (server,), part in table.group_by("server"):
            ends.setdefault(str(server), []).append(part["departure"].drop_nulls().to_numpy())
        if left <= 0:
            break
    shown.ends = {server: np.concatenate(found) for server, found in ends.items()}
    return shown


def _file(writer: Writer) -> bool:
    return (writer.folder / TABLES["visits"].file).exists()


def _written(writer: Writer) -> Iterable[pl.LazyFrame]:
    return parts(writer.folder / TABLES["visits"].file) if _file(writer) else ()
