"""Reads untrusted input in a process of its own, so that another process can report any way in which it ends.

Native code may end a process without a message when memory runs out, and so may the kernel. The process that the user
started only waits: it passes signals on, and if it ends, so does the other one. It also removes the folder for
temporary files of the other one.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass

READING = frozenset(
    (
        "diagnose",
        "read",
        "report",
        "export",
        "info",
        "anonymise",
        "score",
        "advise",
        "twin",
        "gate",
        "incidents",
        "join",
        "windows",
    )
)
_PR_SET_PDEATHSIG = 1
_HANDED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_SAID_MAX = 4096


@dataclass(frozen=True)
class End:
    """How the work ended: with an exit code, or by a signal. `said` is the first line that native code wrote."""

    code: int
    signal: str = ""
    said: str = ""


def possible(words: list[str]) -> bool:
    return bool(READING.intersection(words[:1])) and sys.platform == "linux"


def work() -> End | int:
    """Two processes return from here. The worker returns the descriptor for what native code writes to standard error.
    Later the waiting process returns how the worker ended."""
    from tailrace._core import give_up_rights

    said = os.memfd_create("said")
    scratch = _scratch()
    waited_for = {*_HANDED_ON, signal.SIGCHLD, signal.SIGTSTP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        end_with(parent)
        tempfile.tempdir = scratch
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return said
    give_up_rights()
    status = _wait(child, waited_for)
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)
    if os.WIFEXITED(status):
        return End(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    lines = os.pread(said, _SAID_MAX, 0).decode("utf-8", "replace").strip().splitlines()
    return End(128 + number, signal.Signals(number).name, lines[0] if lines else "")


def end_with(parent: int) -> None:
    """This process ends as soon as its parent does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has already ended
        os._exit(1)


def _scratch() -> str | None:
    """A folder for temporary files, or None if none can be created; few inputs need it."""
    try:
        return tempfile.mkdtemp(prefix="tailrace-")
    except OSError:
        return None


def _wait(child: int, waited_for: set[signal.Signals]) -> int:
    while True:
        came = signal.sigwaitinfo(waited_for).si_signo
        if came == signal.SIGTSTP:  # the terminal stops only this process' group
            os.kill(child, signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGSTOP)
            os.kill(child, signal.SIGCONT)
        elif came != signal.SIGCHLD:
            os.kill(child, came)
        else:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status
