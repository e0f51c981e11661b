"""The worker processes: started together, monitored, and stopped together."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tailrace.errors import OutputError, TailraceError, cannot_write

Progress = Callable[[int, int], None]


class Crew:
    """One worker for each log. All of them have ended when the `with` block ends."""

    def __init__(self, logs: Sequence[Path]) -> None:
        self._logs = logs
        self.failure: OutputError | None = None
        """Why a worker did not finish, from the first one that failed."""
        self._workers: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Crew:
        for log in self._logs:
            command = [sys.executable, "-P", "-m", "tailrace.load.worker", str(log)]
            # in a session of its own, so that Ctrl-C reaches only this process, which passes it on once
            worker = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            self._workers.append(worker)
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                if pipe:
                    with suppress(OSError):
                        pipe.close()

    def wait_until_ready(self) -> None:
        for number, worker in enumerate(self._workers):
            assert worker.stdout
            if worker.stdout.readline() != "{}\n":
                raise TailraceError(f"worker {number} did not start", advice="TAILRACE_TRACEBACK=1 shows why")

    def work(self, plans: Sequence[str], progress: Progress | None) -> list[dict[str, Any]]:
        """The reports of the workers that finished, in their order. Ctrl-C, or a worker that fails, stops them all;
        each then reports what it did until then."""
        for worker, plan in zip(self._workers, plans, strict=True):
            assert worker.stdin
            worker.stdin.write(plan + "\n")
            worker.stdin.flush()
        heard = _Heard(len(self._workers))
        while True:
            try:
                self._listen(heard, progress)
                break
            except KeyboardInterrupt:
                self._stop()
        reports = (self._report(number, heard) for number in range(len(self._workers)))
        return [report for report in reports if report is not None]

    def _stop(self) -> None:
        for worker in self._workers:
            worker.send_signal(signal.SIGINT)

    def _listen(self, heard: _Heard, progress: Progress | None) -> None:
        with selectors.DefaultSelector() as selector:
            for number, worker in enumerate(self._workers):
                if worker.stdout and not heard.ended[number]:
                    selector.register(worker.stdout, selectors.EVENT_READ, number)
            while selector.get_map():
                for key, _ in selector.select():
                    if not heard.take(key.data, os.read(key.fd, 1 << 16)):
                        selector.unregister(key.fileobj)
                        if "report" not in heard.last[key.data]:
                            self._stop()
                if progress:
                    progress(*heard.progress())

    def _report(self, number: int, heard: _Heard) -> dict[str, Any] | None:
        last = heard.last[number]
        if "report" in last:
            report: dict[str, Any] = last["report"]
            return report
        log = self._logs[number]
        if last.get("errno"):
            failure = cannot_write(log, OSError(last["errno"], last["error"]))
        else:
            code = self._workers[number].wait()
            failure = OutputError(log, last.get("error") or f"its worker ended with {code}")
        self.failure = self.failure or failure
        return None


class _Heard:
    """The workers' messages, line by line."""

    def __init__(self, workers: int) -> None:
        self.last: list[dict[str, Any]] = [{} for _ in range(workers)]
        self.ended = [False] * workers
        self._rest = [b""] * workers

    def take(self, number: int, said: bytes) -> bool:
        """False: this worker sends no more."""
        *lines, self._rest[number] = (self._rest[number] + said).split(b"\n")
        for line in lines:
            self.last[number] = json.loads(line)
        self.ended[number] = not said
        return bool(said)

    def progress(self) -> tuple[int, int]:
        told = [last for last in self.last if "total_ns" in last]
        return min((last["done_ns"] for last in told), default=0), max((last["total_ns"] for last in told), default=0)
