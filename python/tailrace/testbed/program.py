"""A program that runs in a node: started in its namespace and group, watched until it is ready, stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tailrace.errors import TailraceError
from tailrace.testbed import net
from tailrace.testbed.cgroup import Group

READY_S, STOP_S = 60.0, 10.0
"""A JVM that fills its connection pools, and MariaDB after a crash, take some seconds on a busy machine."""
_LOOK_S = 0.05
_TOLD_LINES = 5
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
_ENTER = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit 1; shift; n=$((n - 1)); done; exec "$@"'
"""Joins the groups, then becomes the program, so that all its processes are in the groups from the first
instruction."""


def command(name: str) -> str | None:
    """Where a program is; servers are in folders that a user's PATH may lack."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_SBIN}")


def where(name: str) -> str:
    found = command(name)
    if found is None:
        raise TailraceError(f"{name} is not installed", advice="run `make testbed-setup`")
    return found


@dataclass(frozen=True)
class Room:
    """The place of programs: a namespace (None: the machine's own) and a group."""

    namespace: str | None
    group: Group

    def enter(self, command: Sequence[str]) -> list[str]:
        entries = [str(entry) for entry in self.group.entries()]
        inside = net.inside(self.namespace) if self.namespace else []
        return ["sh", "-c", _ENTER, "sh", str(len(entries)), *entries, *inside, *command]


@dataclass(frozen=True)
class Program:
    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def wait_until(self, ready: Callable[[], bool], seconds: float = READY_S) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None:
                raise TailraceError(
                    f"{self.name} ended with {self.process.returncode} before it was ready: {self.told()}"
                )
            if time.monotonic() > deadline:
                raise TailraceError(f"{self.name} was not ready after {seconds:g} s: {self.told()}")
            time.sleep(_LOOK_S)

    def says(self, begin: str) -> bool:
        """Whether a line of its output begins with this text."""
        return f"\n{begin}" in "\n" + self.log.read_text(errors="replace")

    def told(self) -> str:
        """The last lines of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        full = self.log.exists() and shutil.disk_usage(self.log).free == 0
        silent = f"{self.log} is empty{', for the disk is full' if full else ''}"
        return " / ".join(line.strip() for line in lines[-_TOLD_LINES:] if line.strip()) or silent

    def kill(self) -> None:
        """End it at once; `stop` then only waits. Its children end with its control group."""
        with suppress(ProcessLookupError):
            self.process.kill()

    def stop(self, how: signal.Signals = signal.SIGTERM, seconds: float = STOP_S) -> None:
        """Send it a signal, wait, then kill it; a frozen program is thawed first."""
        for each in (signal.SIGCONT, how):
            with suppress(ProcessLookupError):
                self.process.send_signal(each)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(name: str, command: Sequence[str], room: Room, log: Path, *, env: Mapping[str, str] | None = None) -> Program:
    """Start it with its output in `log`, in its own session: Ctrl-C reaches only Tailrace, which then stops it."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            room.enter(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    return Program(name, process, log)


def listening(room: Room, port: int) -> Callable[[], bool]:
    """Whether a program in the room's namespace listens on a TCP port."""
    wanted = f":{port:04X}"

    def ready() -> bool:
        tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        show = [*(net.inside(room.namespace) if room.namespace else []), "cat", *tables]
        rows = subprocess.run(show, capture_output=True, text=True, check=False).stdout.splitlines()
        return any(row.split()[1].endswith(wanted) and row.split()[3] == "0A" for row in rows)

    return ready
