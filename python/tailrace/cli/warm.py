"""A process that has loaded what commands need, and forks for each of them: `python -m tailrace.cli.warm DESCRIPTOR`.

A small recording is explained in less time than Python needs to load the libraries for it. Each message on the socket
is the words of a command, with three descriptors: its standard output, its standard error, and a pipe that gets its
process id and then its exit code. The process ends when nobody holds the other end of the socket, or after a minute
without a message. It reads nothing that strangers wrote: the commands do, in processes of their own.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from types import FrameType

from tailrace.cli import apart

LOADED = (
    "tailrace.cli.commands",
    "tailrace.lakes",
    "tailrace.readers",
    "tailrace.join",
    "tailrace.diagnosis",
    "tailrace.report.page",
    "tailrace.report.terminal",
    "tailrace.watch.index",
)
MESSAGE_MAX = 1 << 16
IDLE_S = 60.0


def serve(asked: socket.socket) -> None:
    """Fork for each message. Returns in each forked process, and at the end raises SystemExit in this one."""
    signal.signal(signal.SIGCHLD, _forget)
    for name in LOADED:
        import_module(name)
    _load_page()
    gc.freeze()
    asked.settimeout(IDLE_S)
    own = os.getpid()
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(asked, MESSAGE_MAX, 3)
        except TimeoutError:
            if _runs_commands():
                continue
            sys.exit()
        if not message:
            sys.exit()
        if os.fork() == 0:
            asked.close()
            _become(own, json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _load_page() -> None:
    from tailrace.report import page

    page.load()


def _forget(number: int, frame: FrameType | None) -> None:
    """Of commands that have ended, only their CPU time counts here."""
    _runs_commands()


def _runs_commands() -> bool:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def _become(parent: int, words: list[str], out: int, why_not: int, ended: int) -> None:
    """The process of a command, as if it had been started by its name; it ends with the process that forked it."""
    os.setsid()
    apart.end_with(parent)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(out, 1)
    os.dup2(why_not, 2)
    for descriptor in (out, why_not):
        os.close(descriptor)
    sys.argv = ["tailrace", *words]
    own = os.getpid()
    os.write(ended, f"{own}\n".encode())
    code = 1
    try:
        from tailrace.cli import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else bool(end.code)
        raise
    finally:
        if os.getpid() == own:  # `main` returns in a second process, too
            os.write(ended, f"{code:d}\n".encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
