"""A score, and the summary of a sweep, for people."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from tailrace.foreign import name, sentence
from tailrace.score.comparing import Score
from tailrace.score.sweep import Summary
from tailrace.units import format_share

MISTAKES_SHOWN = 8


def print_score(found: Score, console: Console) -> None:
    if found.vlrt:
        console.print(_shares({key: getattr(found, key) for key, _ in SHARES}, found.vlrt))
    console.print(
        f"{found.vlrt:,} of {found.requests:,} requests were very slow. {found.episodes} episodes, {found.claims} with "
        f"a cause, {found.false_alarms} of these where nothing of the kind happened."
    )
    if found.vlrt:
        console.print(confusion_table(found.confusion))
    for mistake in found.mistakes[:MISTAKES_SHOWN]:
        told = {key: name(str(mistake["told"][key] or "nobody")) for key in ("dropper", "origin", "cause", "ctqo")}
        truth = "; ".join(f"{' or '.join(c)} at {' or '.join(o)}" for c, o in mistake["stalls"]) or "no stall"
        right = f"Right: dropped by {' or '.join(mistake['droppers'])}; {truth}"
        said = f"dropped by {told['dropper']}, origin {told['origin']}, {told['cause']}, {told['ctqo']}"
        console.print(sentence(f"{mistake['vlrt']:,} told: {said}. {right}."))


def print_summary(found: Summary, console: Console) -> None:
    if found.counts["vlrt"]:
        console.print(_shares(found.counts, found.counts["vlrt"]))
        console.print(f"Right on average over runs with very slow requests: {format_share(found.right_of_runs)}.")
    counts = found.counts
    console.print(
        f"{found.runs} runs, {found.runs_without_vlrt} without a very slow request; {counts['vlrt']:,} of "
        f"{counts['requests']:,} requests were. {counts['claims']} of {counts['episodes']} episodes with a cause, "
        f"{counts['false_alarms']} of these where nothing of the kind happened."
    )
    if found.right_without is not None and found.right_without_of_runs is not None and counts["vlrt"]:
        right = found.right_without / counts["vlrt"]
        console.print(
            f"Simulated again without each trouble, what was told bears out for {format_share(right)} of them, "
            f"{format_share(found.right_without_of_runs)} on average over runs."
        )
    console.print(confusion_table(found.confusion))


SHARES = (
    ("right", "dropper, origin and cause right"),
    ("right_with_kind", "… and the kind of overflow"),
    ("right_dropper", "dropper right"),
    ("right_origin", "origin right"),
    ("right_cause", "cause right"),
)


def _shares(counts: Mapping[str, int], vlrt: int) -> Table:
    table = Table("of the very slow requests", "requests", "share", box=None, pad_edge=False)
    for key, words in SHARES:
        table.add_row(words, f"{counts[key]:,}", format_share(counts[key] / vlrt))
    return table


def confusion_table(confusion: Mapping[str, Mapping[str, int]]) -> Table:
    """What is not 0 of the confusion matrix, which is wider than a terminal."""
    table = Table("true cause", "requests", "told so", "told otherwise", box=None, pad_edge=False)
    for column in table.columns[1:3]:
        column.justify = "right"
    for true, row in confusion.items():
        others = sorted((cause for cause in row if cause != true), key=lambda cause: -row[cause])
        said = ", ".join(f"{cause} {row[cause]:,}" for cause in others)
        table.add_row(name(true), f"{sum(row.values()):,}", f"{row.get(true, 0):,}", sentence(said))
    return table
