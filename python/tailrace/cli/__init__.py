"""The command line: a thin door. Parses words, calls the same functions as the Python API, prints, and exits.

Only this package prints or exits. Each command is one module, and `commands` lists them. Exit codes: 0 done, whatever
was found; 1 there are VLRT and --fail-on-vlrt was given; 2 wrong use or unreadable input; 70 a fault of Tailrace
itself; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from tailrace import endings
from tailrace.cli.commands import app
from tailrace.errors import TailraceError

WRONG_USE, OWN_FAULT, INTERRUPTED = 2, 70, 130

__all__ = ["app", "main"]


def _fail(sentence: str, code: int) -> NoReturn:
    sys.stderr.write(f"tailrace: {sentence}\n")
    sys.exit(code)


def main() -> None:
    """Entry point: turns whatever goes wrong into one sentence and an exit code."""
    endings.handle(signal.default_int_handler)
    try:
        app()
    except SystemExit as stop:
        _leave(stop)
    except TailraceError as error:
        _fail(str(error), WRONG_USE)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", WRONG_USE)
    except Exception as error:
        if os.environ.get("TAILRACE_TRACEBACK"):
            raise
        kind = type(error).__name__
        _fail(f"a fault of Tailrace itself ({kind}: {error}); TAILRACE_TRACEBACK=1 shows where", OWN_FAULT)


def _leave(stop: SystemExit) -> NoReturn:
    """Typer's own endings, made ours: an interruption gets its sentence, a reader that went away is no fault."""
    if stop.code == INTERRUPTED:
        _fail("interrupted; nothing half-written was left behind", INTERRUPTED)
    if isinstance(stop.__context__, BrokenPipeError):
        sys.exit(0)
    raise stop
