"""Copies the current recording into its own folder, which another process explains at the lowest priority.

```text
FOLDER/recording/            the ring: segments come and go
FOLDER/NAME.recording/       hard links to the current segments; the ring goes on;
                             removed when it is explained, kept if that failed
FOLDER/NAME/                 the run folder, with report.html, diagnosis.json, diagnosis.txt
FOLDER/index.html            the page of all incidents, written after each
```
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from tailrace import foreign
from tailrace.errors import cannot_write
from tailrace.recorder import STATE, discard, recording_of
from tailrace.units import format_moment

SAID, WHY_NOT = "diagnosis.txt", "errors.txt"
INCIDENT, FAULT = "incident-", "fault-"
SAID_MAX = 1 << 20
"""Bytes that are read of what an explanation wrote to standard error; it writes a sentence."""
PAGE_S = 300
"""So long the page of incidents may take: at the lowest priority, busy machines leave it little time."""
PAUSE = 4
"""The next page waits so many times longer than this one took."""
_LOOK_S = 0.1


@dataclass(frozen=True)
class Explaining:
    """An incident that is being explained, by a process of this watch or of an earlier one."""

    out: Path
    process: subprocess.Popen[bytes] | None = None
    earlier: bool = False
    """An earlier watch detected it."""

    @property
    def kept(self) -> Path:
        return recording_of(self.out)

    def done(self) -> bool:
        return self.process.poll() is not None if self.process else not is_running(self.kept)

    def finish(self) -> str | None:
        """Wait until the process ends; None if the incident is explained, else the reason."""
        while not self.done():
            time.sleep(_LOOK_S)
        if not is_explained(self.out):
            return last_line(self.kept / WHY_NOT)
        if self._said_all():
            with suppress(OSError):
                (self.kept / SAID).replace(self.out / SAID)
        discard(self.kept)
        return None

    def _said_all(self) -> bool:
        """Whether the process could write all that it said: the disk may have become full at the end."""
        return not has_failed(self.kept) if self.process is None else self.process.returncode == 0

    def said(self) -> str:
        """The sentence about an explained incident, for the user."""
        lacks = "" if (self.out / SAID).is_file() else f"; {SAID} could not be written"
        return f"{self.out}: {headline(self.out)}; see {self.out / 'report.html'}{lacks}"


def number_of(segment: Path) -> int:
    """Segments are numbered in their order."""
    number = segment.name.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def named(folder: Path, kind: str, moment: int) -> Path:
    return folder / f"{kind}{format_moment(moment, digits=0).replace(':', '')}"


def is_explained(out: Path) -> bool:
    return all((out / name).is_file() for name in ("diagnosis.json", "report.html"))


def is_running(kept: Path) -> bool:
    """Whether a process is explaining it."""
    try:
        with (kept / WHY_NOT).open("rb") as why_not:
            fcntl.flock(why_not, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def has_failed(kept: Path) -> bool:
    """Whether its explanation ended and gave a reason for failing."""
    with suppress(OSError):
        return (kept / WHY_NOT).stat().st_size > 0
    return False


def explain(out: Path, words: Sequence[str], earlier: bool = False) -> Explaining:
    """Start to explain what was kept for `out`; `words` are further options of `tailrace diagnose`."""
    kept = recording_of(out)
    try:
        with (kept / SAID).open("wb") as said, (kept / WHY_NOT).open("wb") as why_not:
            fcntl.flock(why_not, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the process holds the lock, too, until it has ended
            process = started(("diagnose", "--quiet", f"--out={out}", *words, "--", str(kept)), said, why_not)
    except OSError as error:
        raise cannot_write(kept, error) from error
    return Explaining(out, process, earlier)


class Command(Protocol):
    """A command of Tailrace that was started: a process, or what stands for one."""

    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


Start = Callable[[Sequence[str], IO[bytes], IO[bytes]], Command]
"""Starts a command, with the files for its standard output and its standard error."""


class Page:
    """Writes the page of all incidents, after each. A process of its own does it, because it reads what strangers
    wrote. It takes at most a fifth of the time: incidents that follow each other quickly have a page together."""

    def __init__(self, folder: Path, start: Start | None = None) -> None:
        self._folder = folder
        self._start: Start = start or started
        self._process: Command | None = None
        self._said: IO[bytes] | None = None
        self._wanted = False
        self._began = self._next = 0.0

    def write(self) -> str:
        """The page is to have all incidents up to now. Returns what `step` returns."""
        self._wanted = True
        return self.step()

    def step(self) -> str:
        """Call it again and again. Returns why a page could not be written; empty if one is written, or it is not over
        yet."""
        why_not = self._ended() if self._process else ""
        if self._wanted and not self._process and time.monotonic() >= self._next:
            self._begin()
        return why_not

    def wait(self) -> str:
        """Wait until the page has all incidents, which takes a second. Returns why it could not be written."""
        why_not = ""
        while self._wanted or self._process:
            self._next = 0.0
            why_not = self.step() or why_not
            time.sleep(_LOOK_S)
        return why_not

    def _begin(self) -> None:
        self._wanted = False
        self._began = time.monotonic()
        words = ("incidents", "--quiet", "--", str(self._folder))
        try:
            with ExitStack() as on_error, Path(os.devnull).open("wb") as nowhere:
                # in memory, so that the reason is known although the disk is full
                self._said = on_error.enter_context(os.fdopen(os.memfd_create("page"), "w+b"))
                self._process = self._start(words, nowhere, self._said)
                on_error.pop_all()  # `_ended` closes it
        except OSError as error:
            raise cannot_write(self._folder, error) from error

    def _ended(self) -> str:
        assert self._process is not None
        assert self._said is not None
        now, late = time.monotonic(), ""
        if self._process.poll() is None:
            if now - self._began < PAGE_S:
                return ""
            self._process.kill()
            self._process.wait()
            late = f"it took longer than {PAGE_S} s"
        process, self._process = self._process, None
        self._next = now + PAUSE * (now - self._began)
        with self._said as said:
            if process.returncode == 0:
                return ""
            said.seek(0)
            why_not = foreign.sentence(said.read(SAID_MAX).decode("utf-8", "replace").strip())
        killed = "its process was killed" if (process.returncode or 0) < 0 else "its process gave no reason"
        return f"the page of incidents could not be written: {late or why_not or killed}"


LOWEST = ("nice", "-n", "19")


def started(words: Sequence[str], out: IO[bytes], why_not: IO[bytes]) -> subprocess.Popen[bytes]:
    """A command of Tailrace at the lowest priority. Ctrl-C reaches only the watch, which waits for it."""
    command = (*LOWEST, sys.executable, "-P", "-m", "tailrace", *words)
    return subprocess.Popen(command, stdout=out, stderr=why_not, start_new_session=True)


def keep(recording: Path, kept: Path) -> None:
    """Link the segments that `recording` holds now."""
    try:
        state = _state(recording)
        kept.mkdir()
        for segment in sorted(recording.iterdir()):
            if segment.name[:1].isdigit() and segment.suffix != ".tmp":
                with suppress(FileNotFoundError):  # the ring has removed it meanwhile
                    os.link(segment, kept / segment.name)
        # The recording ends with its last closed segment, so nothing of it is lost.
        (kept / STATE).write_text(json.dumps({**state, "closed": True}), encoding="utf-8")
    except OSError as error:
        discard(kept)
        raise cannot_write(kept, error) from error


def listeners(recording: Path, named: Mapping[str, str]) -> dict[str, str]:
    """Place of a listening socket (`host:80`) → the server there, by the user's or the recorder's name."""
    state = _state(recording)
    node_of = {address: node["name"] for node in state["nodes"] for address in node["addresses"]}
    servers = [*((name, at) for name, all_ in state["servers"].items() for at in all_), *named.items()]
    found = {}
    for name, address in servers:
        host, _, port = address.rpartition(":")
        node = node_of.get(host.strip("[]"))
        if node is not None:
            found[f"{node}:{port}"] = name
    return found


def end_of(recording: Path) -> int:
    """The last moment of a recording."""
    return int(_state(recording)["end"])


def _state(recording: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((recording / STATE).read_text(encoding="utf-8"))
    return state


def headline(explained: Path) -> str:
    answer = json.loads((explained / "diagnosis.json").read_text(encoding="utf-8"))["answer"]
    return str(answer[0]).rstrip(".") if answer else "explained"


def last_line(said: Path) -> str:
    with said.open("rb") as file:
        lines = file.read(SAID_MAX).decode("utf-8", "replace").splitlines()
    return lines[-1] if lines else "it said nothing"
