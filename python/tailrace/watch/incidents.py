"""The recording as it is now → a folder of its own, which another process reads and explains at the lowest priority.

```text
FOLDER/recording/            the ring: segments come and go
FOLDER/NAME.recording/       links to the segments that were there: nothing is copied, and the ring goes on
FOLDER/NAME/                 the run folder, with report.html, diagnosis.json, diagnosis.txt
```
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailrace.errors import cannot_write
from tailrace.recorder import STATE, discard, recording_of

SAID, WHY_NOT = "diagnosis.txt", "errors.txt"
_LOWEST_PRIORITY = 19


@dataclass(frozen=True)
class Explaining:
    """An incident that is being explained."""

    out: Path
    process: subprocess.Popen[bytes]

    def done(self) -> bool:
        return self.process.poll() is not None

    def finish(self) -> str:
        """What came of it, as a sentence."""
        failed = self.process.wait() != 0
        kept = recording_of(self.out)
        said = kept / SAID
        if failed:
            return f"{kept}: it could not be explained: {_last_line(kept / WHY_NOT)}"
        with suppress(OSError):
            said.replace(self.out / SAID)
        discard(kept)
        return f"{self.out}: {_headline(self.out)}; see {self.out / 'report.html'}"


def explain(recording: Path, out: Path, words: Sequence[str]) -> Explaining:
    """Begin to explain what `recording` holds now; `words` are further options of `tailrace diagnose`."""
    kept = recording_of(out)
    try:
        _link(recording, kept)
        with (kept / SAID).open("wb") as said, (kept / WHY_NOT).open("wb") as why_not:
            command = (sys.executable, "-m", "tailrace", "diagnose", str(kept), "-o", str(out), "--quiet", *words)
            # A session of its own: Ctrl-C is for the watch, which waits for the explanation.
            lower = ("nice", "-n", str(_LOWEST_PRIORITY))
            process = subprocess.Popen((*lower, *command), stdout=said, stderr=why_not, start_new_session=True)
    except OSError as error:
        raise cannot_write(kept, error) from error
    return Explaining(out, process)


def listeners(recording: Path, named: Mapping[str, str]) -> dict[str, str]:
    """Place of a listening socket (`host:80`) → the server there, as the user or the recorder calls it."""
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


def _state(recording: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((recording / STATE).read_text(encoding="utf-8"))
    return state


def _link(recording: Path, kept: Path) -> None:
    state = _state(recording)
    kept.mkdir()
    for segment in sorted(recording.iterdir()):
        if segment.name[:1].isdigit() and segment.suffix != ".tmp":
            with suppress(FileNotFoundError):  # the ring has let go of it meanwhile
                os.link(segment, kept / segment.name)
    # It ends with its last closed segment: nothing of it is lost.
    (kept / STATE).write_text(json.dumps({**state, "closed": True}), encoding="utf-8")


def _headline(explained: Path) -> str:
    answer = json.loads((explained / "diagnosis.json").read_text(encoding="utf-8"))["answer"]
    return str(answer[0]).rstrip(".") if answer else "explained"


def _last_line(said: Path) -> str:
    lines = said.read_text(encoding="utf-8").splitlines()
    return lines[-1] if lines else "it said nothing"
