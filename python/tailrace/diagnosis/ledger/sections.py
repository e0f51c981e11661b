"""This module holds the trials of the groups of episodes of a portion.

In a lasting overload, groups follow each other, and the section of each begins with the same time without calm. They
share one trial, which ends after the last of them: what comes after the last answer to a group changes nothing for it.
So each set of lines is replayed once for all of them, and the cost goes with the length of the overload, not with its
length times the number of its groups."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock

from tailrace.diagnosis.ledger.trial import Removable, Trial

Times = tuple[int, int]
"""When a section begins and ends, on the shortened clock."""
KEPT = 8
"""So many sections are kept. Groups are judged in order, so a section that was not used for long is not needed."""


class Sections:
    """A section is returned as its trials. The balancers of the first one choose again if they can, and those of the
    last one choose as recorded. `usual` has the times of the section of each group, and `settled` has those of a
    shorter one, where there is one."""

    def __init__(self, removable: Removable, usual: Sequence[Times], settled: Sequence[Times | None]) -> None:
        self._removable = removable
        self._usual, self._settled = usual, settled
        self._ends = {False: _ends(usual), True: _ends(one for one in settled if one is not None)}
        self._known: OrderedDict[tuple[int, bool], tuple[Trial, ...]] = OrderedDict()
        self._lock = Lock()

    def usual(self, number: int) -> tuple[Trial, ...]:
        """Return the section that begins with the time without calm."""
        return self._section(self._usual[number][0], resent=False)

    def settled(self, number: int) -> tuple[Trial, ...]:
        """Return the one that begins when queues were last as short as usual, if there is one."""
        times = self._settled[number]
        return () if times is None else self._section(times[0], resent=True)

    def alike(self, number: int) -> list[int]:
        """Return the groups that share the usual section of this one."""
        return [at for at, (begin, _) in enumerate(self._usual) if begin == self._usual[number][0]]

    def _section(self, begin: int, *, resent: bool) -> tuple[Trial, ...]:
        key = begin, resent
        with self._lock:
            if key not in self._known:
                trial = self._removable.between(begin, self._ends[resent][begin], resent=resent)
                self._known[key] = (trial, trial.as_recorded()) if trial.chooses_again else (trial,)
            self._known.move_to_end(key)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            return self._known[key]


def _ends(some: Iterable[Times]) -> dict[int, int]:
    found: dict[int, int] = {}
    for begin, end in some:
        found[begin] = max(end, found.get(begin, end))
    return found
