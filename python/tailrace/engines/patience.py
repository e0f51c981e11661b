"""Waiting for a store that may fall silent. Libraries wait for minutes, and a signal would wait as long as they do."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

from tailrace.errors import InputError

PIECE_S = 60
"""For one piece of a file, or one question."""
LIST_S = 600
"""For a list of all files, which are up to 100,000."""

Result = TypeVar("Result")


def patiently(work: Callable[[], Result], source: str, seconds: float) -> Result:
    """What `work` returns, or raises. Raises InputError if it does neither within `seconds`; it is then left alone, in
    a thread that the end of the process does not wait for."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    wait([future], seconds)
    if not future.done():
        raise InputError(source, f"its store did not answer for {seconds:g} s", "run it again when the store answers")
    return future.result()
