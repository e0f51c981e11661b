"""The signals that end a command in good order: Ctrl-C, `kill`, and the end of the terminal that it runs in."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], None]


def handle(handler: Handler) -> dict[int, object]:
    """Let `handler` have these signals; returns what had them before, for `restore`.

    Where SIGHUP is ignored it stays so: `nohup` asks for that. A terminal that ends sends it more than once (the kernel
    and the shell each do), so that from the first one on it is ignored: the second shall not cut the good order short.
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
    """Give the signals back, but SIGHUP where it came meanwhile."""
    for number, handler in before.items():
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)  # type: ignore[arg-type]
