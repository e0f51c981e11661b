"""The way to the terminal: everything that a command prints goes through here, and nothing unsafe comes out.

Names in captures, run folders and logs are chosen by strangers. Whatever a command puts into a table or a line, hidden
characters are written out (`tailrace.foreign`), so that no name can send an escape sequence, begin a line of its own,
or turn the direction of writing. Rich's markup is off: a name with `[red]` in it is that name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO
from warnings import simplefilter

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tailrace import foreign

PLAIN = str.maketrans(dict(zip("▁▂▃▄▅▆▇█●○·–−…µ×", "_.:-=+*#+o--..ux", strict=True)))  # noqa: RUF001
"""For terminals without Unicode."""
_STDERR = 2


class Screen(Console):
    """A console on which each text is one paragraph: line breaks within it are written out, too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, markup=False, emoji=False, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        if isinstance(renderable, str):
            renderable = foreign.visible(renderable)
        elif isinstance(renderable, Text):
            renderable = _safe(renderable)
        segments = super().render(renderable, options)
        if self.encoding.lower().startswith("utf"):
            return segments
        return (Segment(segment.text.translate(PLAIN), segment.style, segment.control) for segment in segments)


def _safe(text: Text) -> Text:
    """A text that hides something loses the styles of its parts, which no longer know where they are."""
    plain = foreign.visible(text.plain)
    if plain == text.plain:
        return text
    return Text(plain, text.style, justify=text.justify, overflow=text.overflow, no_wrap=text.no_wrap, end=text.end)


def tell(*lines: str, lenient: bool = False) -> None:
    """Print lines on standard output, at once. `lenient`: a terminal or a reader that has gone does not matter."""
    _write(sys.stdout, map(foreign.visible, lines), lenient)


def say(*messages: str, lenient: bool = False) -> None:
    """Print messages on standard error, each on a line and of bounded length."""
    _write(sys.stderr, map(foreign.sentence, messages), lenient)


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    sys.stdout.write(foreign.json_text(value, ascii_only=plain) + "\n")


def flush() -> None:
    """Write out what is still in memory, so that a full disk is known here. Nobody may be left to read it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _lead_nowhere(sys.stdout.fileno())


def prepare(*, native: int | None) -> None:
    """Make standard output and standard error ours alone, and take any text: also closed ones, and those whose encoding
    has few letters. Libraries quote what they like: with a descriptor `native`, Python's warnings are off, and what
    native code writes to the descriptor of standard error goes there (a panic's own report)."""
    if native is not None:
        simplefilter("ignore")
        _move_native_code(native)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (as long as the process)
            setattr(sys, name, stream)
        stream.reconfigure(errors="backslashreplace")


def _move_native_code(native: int) -> None:
    """Python's standard error moves to a descriptor of its own, and the old one leads to `native`."""
    if sys.stderr is None or sys.stderr.fileno() != _STDERR:
        return
    own = os.dup(_STDERR)
    os.dup2(native, _STDERR)
    sys.stderr = open(own, "w", encoding=sys.stderr.encoding, buffering=1)  # noqa: PTH123, SIM115 (as long as the process)


def _write(stream: TextIO, lines: Iterable[str], lenient: bool) -> None:
    try:
        stream.write("".join(f"{line}\n" for line in lines))
        stream.flush()
    except OSError:
        if not lenient:
            raise
        _lead_nowhere(stream.fileno())


def nowhere() -> int:
    """A descriptor that takes everything and keeps nothing."""
    return os.open(os.devnull, os.O_WRONLY)


def _lead_nowhere(descriptor: int) -> None:
    taken = nowhere()
    os.dup2(taken, descriptor)
    os.close(taken)
