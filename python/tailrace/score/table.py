"""Tables of a score, and of the summary of a sweep, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from tailrace.foreign import name
from tailrace.score.figures import Score
from tailrace.score.sweep import Summary
from tailrace.units import format_share

FIGURES = (
    ("right", "vlrt", "very slow requests whose reported cause is right"),
    ("named", "removable", "very slow requests with a reported cause, of those that some trouble made slow"),
    ("wrong", "vlrt", "very slow requests whose reported cause is false"),
    ("causes_false", "causes_told", "reported causes whose removal removes nothing"),
    ("right_dropper", "vlrt", "very slow requests whose dropper is right"),
    ("right_origin", "origins_stated", "very slow requests whose origin is right, where the truth states it"),
)
"""Each count, the count that it is a part of, and its meaning."""


def print_score(found: Score, console: Console) -> None:
    console.print(f"{found.vlrt:,} of {found.requests:,} requests were very slow.")
    if found.vlrt:
        console.print(_shares(found.as_dict()))
        console.print(_causes_table(found.causes))


def print_summary(found: Summary, console: Console) -> None:
    counts = found.counts
    console.print(
        f"{found.runs} runs, {found.runs_without_vlrt} without a very slow request; {counts['vlrt']:,} of "
        f"{counts['requests']:,} requests were very slow."
    )
    if counts["vlrt"]:
        console.print(_shares(counts))
        console.print(f"Right on average over runs with very slow requests: {format_share(found.right_of_runs)}.")
        console.print(_causes_table(found.causes))


def _shares(counts: Mapping[str, int]) -> Table:
    table = Table("", "count", "of", "share", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for part, of, words in FIGURES:
        share = format_share(counts[part] / counts[of]) if counts[of] else "-"
        table.add_row(words, f"{counts[part]:,}", f"{counts[of]:,}", share)
    return table


def _causes_table(causes: Mapping[str, Mapping[str, int]]) -> Table:
    """The very slow requests for which each cause was reported, is right, and may be reported."""
    table = Table("cause", "reported", "right", "may be reported", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for cause, counts in causes.items():
        if any(counts.values()):
            table.add_row(name(cause), *(f"{counts[key]:,}" for key in ("told", "right", "credit")))
    return table
