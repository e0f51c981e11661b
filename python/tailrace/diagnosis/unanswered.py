"""This module reports requests without a complete answer. Their response times have no meaning, and for a user they are
the outage."""

from __future__ import annotations

import polars as pl

from tailrace.diagnosis.finding import Diagnosis, Unanswered
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import count, duration, listing

HOW: dict[str, str] = {
    "refused": "refused by {where}",
    "reset": "cut off by {where} before a complete answer",
    "timeout": "never answered by {where}",
    "abandoned": "given up by clients before {where} answered",
    "under-way": "under way at {where} when the recording ended",
    "connecting": "waiting for a connection to {where} when the recording ended",
}
"""It maps each status to what became of the request, in the order in which it is reported."""
WAITED = ("timeout", "abandoned", "under-way")
UNFINISHED = ("under-way", "connecting")
"""Requests with these statuses are not rows of the table of requests."""
NAMED_MAX = 3
"""At most this many servers are named for each kind."""


def find(view: View) -> tuple[Unanswered, ...]:
    """Count unanswered requests by server and kind, the most first. A hedged request does not count if its other copy
    was answered."""
    status = pl.col("status").cast(pl.String)
    groups = (
        view.requests.filter(status.is_in(list(HOW)), (status != "abandoned") | pl.col("given_up"))
        .group_by(pl.col("server").cast(pl.String), status)
        .agg(pl.len(), pl.col("response_ns").max().alias("longest"))
    )
    found = [Unanswered(*row) for row in groups.iter_rows()]
    for server, seen in view.connections.servers.items():
        # A call of another server is part of a request that is under way there.
        if view.callers_of(server):
            continue
        if seen.under_way:
            found.append(Unanswered(server, "under-way", seen.under_way, seen.under_way_longest_ns))
        if seen.attempts_under_way:
            found.append(Unanswered(server, "connecting", seen.attempts_under_way, None))
    return tuple(sorted(found, key=lambda one: (-one.requests, one.server, one.how)))


def waited_long(diagnosis: Diagnosis) -> bool:
    """Return whether requests without an end had waited for as long as a very slow one when the recording ended."""
    unfinished = (one for one in diagnosis.unanswered if one.how in UNFINISHED)
    return any((one.longest_ns or 0) >= diagnosis.threshold_ns for one in unfinished)


def sentence(diagnosis: Diagnosis) -> str:
    """Return the number of unanswered requests, how they ended, and where. The text is empty where all were
    answered."""
    parts = [part for how in HOW if (part := _part(how, [one for one in diagnosis.unanswered if one.how == how]))]
    if not parts:
        return ""
    unfinished = sum(one.requests for one in diagnosis.unanswered if one.how in UNFINISHED)
    first, *others = parts
    whole = count(diagnosis.requests + unfinished, "request")
    number, was, rest = first
    return "; ".join((f"{number:,} of {whole} {was} {rest}", *(f"{n:,} {w} {what}" for n, w, what in others))) + "."


def _part(how: str, mine: list[Unanswered]) -> tuple[int, str, str] | None:
    if not mine:
        return None
    number = sum(one.requests for one in mine)
    named = [one.server if len(mine) == 1 else f"{one.server} ({one.requests:,})" for one in mine[:NAMED_MAX]]
    if len(mine) > NAMED_MAX:
        named.append(count(len(mine) - NAMED_MAX, "other server"))
    said = HOW[how].format(where=listing(named))
    longest = max((one.longest_ns or 0 for one in mine), default=0)
    if how in WAITED and longest:
        said += f", after {duration(longest)}" if number == 1 else f", the longest after {duration(longest)}"
    return number, "was" if number == 1 else "were", said
