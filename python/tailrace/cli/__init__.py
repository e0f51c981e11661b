"""The command line: a thin layer that parses words, calls the same functions as the Python API, prints, and exits.

Only this package prints or exits. Each command is one module, `commands` lists them, and `screen` prints. Exit codes: 0
done, whatever was found; 1 there are VLRT and --fail-on-vlrt was given, or a gate is not passed; 2 wrong use,
unreadable input, or a machine that cannot do it (a full disk, no memory left); 70 a fault of Tailrace itself; 130
interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from tailrace import endings, whole
from tailrace.cli import apart, confinement, screen

if TYPE_CHECKING:
    from tailrace.errors import TailraceError

WRONG_USE, OWN_FAULT, INTERRUPTED = 2, 70, 130
STOPPING = ("SIGHUP", "SIGINT", "SIGTERM")
TRACEBACK = "TAILRACE_TRACEBACK"
"""The environment variable that shows the traceback of a fault."""

__all__ = ["main", "perform"]


def main() -> NoReturn:
    """Entry point."""
    whole.keep_private()
    words = sys.argv[1:]
    native = None
    if TRACEBACK not in os.environ:
        native = apart.work() if apart.possible(words) else screen.nowhere()
    if isinstance(native, apart.End):
        sys.exit(_ended(native))
    try:
        endings.handle(signal.default_int_handler)
        screen.prepare(native=native)
        confinement.begin()
        code = perform(words)
    except KeyboardInterrupt:  # a second interrupt, while the first was being reported
        code = INTERRUPTED
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process. After an interrupt, threads may compute for long what nobody needs any more."""
    if code == INTERRUPTED:
        with suppress(OSError):
            screen.flush()
        os._exit(code)
    sys.exit(code)


def _ended(end: apart.End) -> int:
    """The exit code of the worker process. If a signal ended it, this reports so."""
    if not end.signal:
        return end.code
    screen.prepare(native=None)
    if end.signal in STOPPING:  # it came before the worker had its handlers
        return _told(KeyboardInterrupt())
    if "memory allocation" in end.said:
        return _told(MemoryError())
    if end.signal == "SIGKILL":
        why = "another process killed it, as Linux does to the largest process when memory runs out"
        return _failed(f"{why}; allow it more memory, or read less input", WRONG_USE)
    return _told(EndedError(f"{end.signal}, {end.said}" if end.said else end.signal))


class EndedError(Exception):
    """A signal that no process sent ended the work."""


def perform(words: Sequence[str]) -> int:
    """Run the command of the words; returns its exit code. Any error is reported in one sentence."""
    try:
        from tailrace.cli.commands import app_of

        ended = app_of(words)(list(words), prog_name="tailrace", standalone_mode=False)
        screen.flush()
    except BaseException as error:
        return _told(_damage(error, words) or error)
    return _told(KeyboardInterrupt()) if ended == INTERRUPTED else ended or 0


def _damage(error: BaseException, words: Sequence[str]) -> TailraceError | None:
    """The damaged table that made a library fail, if there is one."""
    if not type(error).__module__.startswith(("polars", "pyo3_runtime")):
        return None
    from tailrace.cli.damage import damaged_table

    return damaged_table(words)


def _told(error: BaseException) -> int:
    """Report in a sentence why the command failed; returns the exit code."""
    from tailrace.errors import TailraceError

    match error:
        case KeyboardInterrupt():
            return _failed("interrupted; no half-written result remains", INTERRUPTED)
        case SystemExit() if isinstance(error.__context__, BrokenPipeError):
            return 0  # the reader of the output closed it, which is no fault
        case TailraceError():
            return _failed(str(error), WRONG_USE, error.commands)
        case MemoryError():
            return _failed(f"memory ran out{_memory_limit()}; allow it more memory, or read less input", WRONG_USE)
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return _failed(f"{where}{error.strerror or error}", WRONG_USE)
    if hasattr(error, "format_message"):  # Typer's error for wrong use; its class is not public
        return _misused(error)
    if TRACEBACK in os.environ:
        from traceback import format_exception

        screen.say(*"".join(format_exception(error)).splitlines())
    kind = type(error).__name__
    return _failed(f"a fault of Tailrace itself ({kind}: {error}); {TRACEBACK}=1 shows where", OWN_FAULT)


def _failed(sentence: str, code: int, commands: Sequence[str] = ()) -> int:
    """A sentence, and below it the commands that fix it, to be copied."""
    screen.say(f"tailrace: {sentence}{':' if commands else ''}", *(f"    {command}" for command in commands))
    return code


def _misused(error: BaseException) -> int:
    """Wrong words. Without any word Typer has already shown the help, and its message is empty."""
    message = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "tailrace"
    return _failed(f"{message}; see `{command} --help`", WRONG_USE) if message else WRONG_USE


def _memory_limit() -> str:
    import resource

    from tailrace.units import format_bytes

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return "" if limit == resource.RLIM_INFINITY else f" (this process may have {format_bytes(limit)})"
