"""The signals that end a command in an orderly way: Ctrl-C, `kill`, and the end of its terminal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], None]


def handle(handler: Handler) -> dict[int, object]:
    """Install `handler` for these signals; returns the previous handlers, for `restore`.

    If SIGHUP is ignored it stays ignored, because `nohup` requires that. A terminal that closes sends SIGHUP more than
    once (the kernel and the shell each send it). After the first one it is ignored, so that the second does not
    interrupt the orderly end.
    """

    def hung_up(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        handler(number, frame)

    before: dict[int, object] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, hung_up)
    return before


def restore(before: dict[int, object]) -> None:
    """Restore the previous handlers, but not that of SIGHUP if SIGHUP was received meanwhile."""
    for number, handler in before.items():
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)  # type: ignore[arg-type]


def end_waiting() -> None:
    """Ctrl-C ends a wait for a thread at once. Polars puts a handler of its own before Python's, after which Linux goes
    on with the wait: a command that waits for a run of an hour would end after that hour."""
    signal.siginterrupt(signal.SIGINT, True)


@contextmanager
def ignored() -> Iterator[None]:
    """While the block runs, these signals do nothing: it is the orderly end itself. Only the main thread receives
    signals, so in another thread this changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = handle(lambda number, frame: None)
    try:
        yield
    finally:
        restore(before)


@contextmanager
def crew(count: int, *, finishes: bool = False) -> Iterator[ThreadPoolExecutor]:
    """Yield so many threads for one computation. After an error, tasks that have not begun never begin.

    After an interrupt, nobody needs what the threads still compute. So the block ends at once, and the command leaves
    the process without them. With `finishes`, the block waits for the tasks that have begun, which must end in an
    orderly way.
    """
    pool = ThreadPoolExecutor(count)
    waits = True
    try:
        yield pool
    except KeyboardInterrupt:
        waits = finishes
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=True)
