"""Commands that start at once, because a process has loaded what they need (`tailrace.cli.warm`)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from tailrace.watch import incidents
from tailrace.watch.incidents import Command

_LOOK_S = 0.02
_LINES_MAX = 64
_SINGLE = {"OPENBLAS_NUM_THREADS": "1", "_RJEM_MALLOC_CONF": "background_thread:false"}
"""NumPy and the memory of Polars begin no threads when they are loaded: threads do not survive a fork. Polars itself
begins one (`polars-ooc-cleaner`), which sleeps."""


class Warm:
    """`started` is a way to start commands, as `incidents.started`. The process begins with the first command, and ends
    by itself when it has had none for a minute."""

    def __init__(self) -> None:
        self._asked: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def started(self, words: Sequence[str], out: IO[bytes], why_not: IO[bytes]) -> Command:
        message = json.dumps(list(words)).encode()
        for _ in range(2):
            heard, ended = os.pipe()
            try:
                asked = self._asked or self._begin()
                socket.send_fds(asked, [message], [out.fileno(), why_not.fileno(), ended])
                return _Forked(words, out, why_not, heard)
            except OSError:  # it has ended since the last command
                os.close(heard)
                self.close()
            finally:
                os.close(ended)
        return incidents.started(words, out, why_not)

    def look(self) -> None:
        """Call it from time to time: a process that has ended leaves nothing behind."""
        if self._process is not None and self._process.poll() is not None:
            self.close()

    def close(self) -> None:
        """End the process, and the commands that it still runs."""
        if self._asked is not None:
            self._asked.close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        self._asked = self._process = None

    def _begin(self) -> socket.socket:
        self._asked, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            words = (*incidents.LOWEST, sys.executable, "-P", "-m", "tailrace.cli.warm", str(its.fileno()))
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(its.fileno(),),
                env={**os.environ, **_SINGLE},
            )
        return self._asked


class _Forked:
    """A command in a process that was forked. If that ends without a word, the command is started anew by itself."""

    def __init__(self, words: Sequence[str], out: IO[bytes], why_not: IO[bytes], heard: int) -> None:
        self._words = words
        self._out, self._why_not = os.fdopen(os.dup(out.fileno()), "wb"), os.fdopen(os.dup(why_not.fileno()), "wb")
        self._heard = heard
        self._said = b""
        self._anew: Command | None = None
        self._killed = self._to_kill = False
        self.returncode: int | None = None
        os.set_blocking(heard, False)

    def poll(self) -> int | None:
        if self.returncode is None:
            self._read() if self._anew is None else self._ask(self._anew)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(list(self._words), timeout or 0)
            time.sleep(_LOOK_S)
        return code

    def kill(self) -> None:
        self._killed = self._to_kill = True
        self.poll()

    def _read(self) -> None:
        """The first line is the process id. The work writes the second, and may be in the hands of a stranger."""
        try:
            read = os.read(self._heard, _LINES_MAX)
        except BlockingIOError:
            read = None
        self._said = (self._said + (read or b""))[:_LINES_MAX]
        process, _, code = self._said.partition(b"\n")
        if b"\n" in code:
            self._end(int(code) if code.strip().isdigit() else 1)
        elif read == b"" and not self._killed:
            self._again()
        elif read == b"":
            self._end(-signal.SIGKILL)
        elif self._to_kill and b"\n" in self._said:
            self._to_kill = False
            with suppress(ProcessLookupError):
                os.killpg(int(process), signal.SIGKILL)

    def _again(self) -> None:
        for file in (self._out, self._why_not):
            with suppress(OSError):  # it has no length
                file.seek(0)
                file.truncate()
        try:
            self._anew = incidents.started(self._words, self._out, self._why_not)
        except OSError as error:
            self._why_not.write(f"tailrace: {error}".encode())
            self._end(1)

    def _ask(self, anew: Command) -> None:
        if self._killed:
            anew.kill()
        if (code := anew.poll()) is not None:
            self._end(code)

    def _end(self, code: int) -> None:
        self.returncode = code
        os.close(self._heard)
        self._out.close()
        self._why_not.close()
