"""Turns a closed collection into an incident: the recordings are joined, and the result is diagnosed.

Both are commands of Tailrace in processes of their own, because recordings come from other hosts. If a recording cannot
be read, or the clock of its host remains unknown, the join leaves it out, and the incident has a note of it.
"""

from __future__ import annotations

import shutil
from contextlib import suppress

from tailrace.dataset import Dataset
from tailrace.errors import TailraceError
from tailrace.hub.desk import Collection, Desk
from tailrace.join import left_out
from tailrace.recorder import recording_of
from tailrace.watch import incidents


class Explaining:
    """`step` is called again and again until it returns true."""

    def __init__(self, desk: Desk, closed: Collection, start: incidents.Start = incidents.started) -> None:
        self.closed = closed
        self.out = desk.folder / closed.name
        self._kept = desk.path(closed)
        self._steps = self._commands()
        self._begin = start
        self._running: incidents.Command | None = None
        self._why_not = "" if self._steps else "no host has sent its recording"

    def step(self) -> bool:
        if self._running is not None:
            if self._running.poll() is None:
                return False
            if self._running.returncode:
                self._why_not = incidents.last_line(self._kept / incidents.WHY_NOT)
            self._running = None
        if self._steps and not self._why_not:
            try:
                self._start(self._steps.pop(0))
                return False
            except (OSError, TailraceError) as error:
                self._why_not = str(error)
        self._end()
        return True

    def said(self) -> str:
        if self._why_not:
            return f"{self.out}: it could not be explained: {self._why_not}"
        absent = left_out(Dataset.open(self.out).manifest.notes, self.closed.delivered)
        hosts = ", ".join(host for host in self.closed.delivered if host not in absent)
        without = "".join(f"; without that of {host}: {why}" for host, why in absent.items())
        return f"{incidents.headline(self.out)} (recordings of {hosts}{without}); see {self.out / 'report.html'}"

    def _commands(self) -> list[tuple[str, ...]]:
        hosts = self.closed.delivered
        if not hosts:
            return []
        if len(hosts) == 1:
            return [("diagnose", "--quiet", "--overwrite", f"--out={self.out}", "--", str(self._kept / hosts[0]))]
        runs = [f"{host}={self._kept / host}" for host in hosts]
        join = ("join", "--quiet", "--leave-out", "--overwrite", f"--out={self.out}", "--", *runs)
        beside = ("diagnose", "--quiet", "--json", f"--report={self.out / 'report.html'}", "--", str(self.out))
        return [join, beside]

    def _start(self, words: tuple[str, ...]) -> None:
        said = self.out / "diagnosis.json" if "--json" in words else self._kept / incidents.SAID
        with said.open("wb") as out, (self._kept / incidents.WHY_NOT).open("wb") as why_not:
            self._running = self._begin(words, out, why_not)

    def _end(self) -> None:
        """What is explained needs its recordings no more; what is not is kept for the user, and listed."""
        if self._why_not:
            with suppress(OSError):
                (self._kept / incidents.WHY_NOT).write_text(self._why_not)
                self._kept.rename(recording_of(self.out))
            return
        with suppress(OSError):
            (self._kept / incidents.SAID).replace(self.out / incidents.SAID)
        shutil.rmtree(self._kept, ignore_errors=True)
