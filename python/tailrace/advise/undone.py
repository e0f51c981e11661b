"""What an advice leaves undone because its time budget ends: the answer says what more time would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.report import words

NAMED = 4
"""Changes that a sentence names; a reader remembers no more."""


@dataclass(frozen=True)
class Undone:
    """One kind of work, and the changes that it was left out for."""

    work: str
    """With {} for the changes: "compare {} with all replications"."""
    changes: tuple[str, ...]


def sentence(undone: Sequence[Undone]) -> str:
    """`With more time, it would try 3 more changes (…), and …`; empty if nothing was left out."""
    said = [one.work.format(_changes(one.changes)) for one in undone]
    if not said:
        return ""
    *most, last = said
    return f"With more time, it would {', '.join(most)}{', and ' if most else ''}{last}."


def _changes(changes: tuple[str, ...]) -> str:
    names = list(dict.fromkeys(changes))
    more = f"; {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{words.plural(len(names), 'change')} ({'; '.join(names[:NAMED])}{more})"
