"""All output to the terminal goes through this module, which makes it safe.

Strangers choose the names in captures, run folders and logs. In everything that a command prints, hidden characters are
escaped (`tailrace.foreign`), so that no name can send an escape sequence, begin a new line, or change the direction of
writing. Rich's markup is off: a name that contains `[red]` is printed as it is.
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
    """A console on which each text is one paragraph: line breaks in it are escaped, too."""

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
    """A text with a hidden character loses its styles, because their positions no longer match."""
    plain = foreign.visible(text.plain)
    if plain == text.plain:
        return text
    return Text(plain, text.style, justify=text.justify, overflow=text.overflow, no_wrap=text.no_wrap, end=text.end)


def tell(*lines: str, lenient: bool = False) -> None:
    """Print lines on standard output, at once. `lenient`: ignore that the terminal or the reader has gone."""
    _write(sys.stdout, map(foreign.visible, lines), lenient)


def say(*messages: str, lenient: bool = False) -> None:
    """Print messages on standard error, each on a line and of bounded length."""
    _write(sys.stderr, map(foreign.sentence, messages), lenient)


def for_another_tailrace() -> int:
    """The descriptor of standard error, for a process whose every line has come through here."""
    return sys.stderr.fileno()


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    sys.stdout.write(foreign.json_text(value, ascii_only=plain) + "\n")


def flush() -> None:
    """Write buffered output, so that a full disk is reported here. The reader may have gone."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _lead_nowhere(sys.stdout.fileno())


def prepare(*, native: int | None) -> None:
    """Prepare standard output and standard error for any text, even if they are closed or have a small encoding. With a
    descriptor `native`, Python's warnings are off, and what native code writes to standard error goes there (such as a
    panic's own report)."""
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
    """Move Python's standard error to its own descriptor, and connect the old one to `native`."""
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
    """A descriptor that discards everything."""
    return os.open(os.devnull, os.O_WRONLY)


def _lead_nowhere(descriptor: int) -> None:
    taken = nowhere()
    os.dup2(taken, descriptor)
    os.close(taken)
