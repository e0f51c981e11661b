"""Advice in a terminal: the answer, and a table of the changes."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tailrace.advise import undone
from tailrace.advise.advice import Advice, Ranked
from tailrace.advise.answer import predicted, sentences, surge_words, unnamed, without_lines
from tailrace.report import words

USELESS_MAX = 12
"""Changes that do not help, by name; the page and the JSON have all."""


def print_advice(advice: Advice, console: Console) -> None:
    for sentence in sentences(advice):
        console.print(Text(sentence))
    if advice.ranked:
        console.print()
        console.print(_table(advice))
    for line in (*_lines(advice), *_below(advice)):
        console.print(Text(line))


def _table(advice: Advice) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("change")
    for column in ("VLRT (90 %)", "median", "p99.9", "failed", "surge"):
        table.add_column(column, justify="right", no_wrap=True)
    now = advice.base.first
    table.add_row(
        "none",
        predicted(advice.base.vlrt),
        words.duration(now.median_ns),
        words.duration(now.p999_ns),
        words.count(advice.base.failed.mean),
        "",
    )
    for one in advice.ranked:
        table.add_row(*(Text(cell) for cell in _row(one)))
    return table


def _row(one: Ranked) -> Iterator[str]:
    first = one.effect.first
    name = one.words + ("" if one.helps else " (no better than nothing)") + (" (not sure)" if one.caution else "")
    name += " (on a part)" if one.of_part else ""
    yield name
    yield predicted(one.effect.vlrt)
    yield words.duration(first.median_ns)
    yield words.duration(first.p999_ns)
    yield words.count(one.effect.failed.mean)
    yield surge_words(one.surge)


def _lines(advice: Advice) -> Iterator[str]:
    """The lines of the best change; the page and the JSON have those of all."""
    if advice.best is None:
        return
    found = advice.lines(advice.best)
    if found:
        yield f"To {advice.best.words}:"
    for line in found:
        now = f"{line.now} ({line.known}) → " if line.now else ""
        note = f"  ({line.note})" if line.note else ""
        yield f"  {line.software} of {line.tier}, {line.file}: {now}{line.then or 'remove it'}{note}"
    yield from without_lines(advice, advice.best)
    if hint := unnamed(advice):
        yield hint
    yield ""


def _below(advice: Advice) -> Iterator[str]:
    if advice.useless:
        names = [f"{what} ({words.count(left)} left)" for what, left in advice.useless]
        more = f", and {len(names) - USELESS_MAX} more" if len(names) > USELESS_MAX else ""
        shown = "; ".join(names[:USELESS_MAX])
        yield f"Not in the table, in one run with {words.count(advice.screened)} now: {shown}{more}."
    if not advice.complete and advice.best:
        yield "The time budget ended before everything was tried; the same command again continues."
    if advice.undone:
        yield undone.sentence(advice.undone)
