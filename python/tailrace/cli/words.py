"""What all commands share: options with the same meaning everywhere, the progress bar, and the parsing of
NAME=VALUE."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Annotated, TypeVar

import typer

from tailrace.cli.screen import Screen, print_json, say, tell
from tailrace.errors import UsageError

__all__ = ["print_json", "progress", "say", "tell"]

Parsed = TypeVar("Parsed")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run folder if it exists.")]


class Engine(Enum):
    """What runs an experiment."""

    SIM = "sim"
    TESTBED = "testbed"


class Systems(Enum):
    """Which random systems are drawn."""

    CHAINS = "chains"
    GRAPHS = "graphs"
    BOTH = "both"
    PAPERS = "papers"


@contextmanager
def progress(title: str, quiet: bool, of_bytes: bool = True) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on standard error if it is a terminal; yields the function that moves it."""
    console = Screen(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    done = DownloadColumn() if of_bytes else TaskProgressColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), done, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def tell_at(sentence: str) -> None:
    """A sentence after the time of day, from a command that goes on."""
    from tailrace.units import format_clock

    tell(f"{format_clock(time.time_ns(), digits=0)} {sentence}", lenient=True)


def pairs(option: str, values: list[str] | None, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in values or []:
        left, separator, right = value.partition("=")
        if not (separator and left and right):
            raise UsageError(f"{option} {value}: expected {example}")
        if left in found:
            raise UsageError(f"{option} {value}: {left} was already given as {found[left]}")
        found[left] = right
    return found


def duration_ns(option: str, text: str) -> int:
    from tailrace.units import parse_duration

    return parsed(option, parse_duration, text)


def parsed(option: str, parse: Callable[[str], Parsed], text: str) -> Parsed:
    """The value of an option; wrong use if `parse` raises ValueError."""
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
