"""Servers that do the same work get the same change: web1, web2 and web3 of a recording are tiers of their own, and
nobody configures only one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tailrace.advise.remedies.remedy import Changes, Option, Remedy


def options(experiment_options: Iterable[tuple[Remedy, Option]]) -> Iterator[tuple[Remedy, Option]]:
    """Options of one remedy whose places differ only in a number, and that try the same sizes, become one."""
    groups: dict[tuple[object, ...], list[tuple[Remedy, Option]]] = {}
    seen: dict[tuple[str, str], int] = {}
    for remedy, option in experiment_options:
        nth = seen[remedy.name, option.place] = seen.get((remedy.name, option.place), 0) + 1
        key = (remedy.name, re.sub(r"\d+", "#", option.place), nth, option.sizes)
        groups.setdefault(key, []).append((remedy, option))
    for group in groups.values():
        remedy, _ = group[0]
        yield remedy, _joined([option for _, option in group])


def joined(some: Changes, others: Changes) -> Changes | None:
    """Both changes at once; None if they contradict each other. Of stalls and losses remain those that both leave."""
    found = {**some, **others}
    for path in some.keys() & others.keys():
        if path in (("stalls",), ("losses",)):
            found[path] = [one for one in some[path] if one in others[path]]
        elif some[path] != others[path]:
            return None
    return found


def _joined(group: list[Option]) -> Option:
    first, *rest = group
    if not rest:
        return first

    def changes(size: object) -> Changes:
        found = first.changes(size)
        for option in rest:
            found = joined(found, option.changes(size)) or found
        return found

    also = ", ".join(option.place for option in rest)
    return Option(
        ", ".join(option.place for option in group),
        first.sizes,
        changes,
        lambda size: f"{first.words(size)}, and the same for {also}",
    )
