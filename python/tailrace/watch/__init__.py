"""A flight recorder: the last minutes are kept, a cluster of VLRT is noticed, and what led to it is explained.

```text
recorder ─▶ segments of a second ─▶ noticing ─▶ incident: wait until it is over ─▶ incidents ─▶ run folder, report
```
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tailrace import recorder
from tailrace.errors import cannot_write
from tailrace.recorder import Plan
from tailrace.units import SECOND, format_moment
from tailrace.watch import incidents
from tailrace.watch.noticing import Notice

LOOK_NS = SECOND // 2
"""Segments are closed once a second."""
QUIET_NS = 8 * SECOND
"""The third repetition of a lost SYN leaves 7 s after the SYN (Linux waits 1, 2 and 4 s): its request is then seen."""
LONGEST_NS = 30 * SECOND
"""What goes on longer is explained by its beginning."""

RECORDING = "recording"


@dataclass
class Watch:
    """`tell` takes sentences for a person."""

    folder: Path
    words: Sequence[str]
    """Further options of the diagnosis."""
    most: int
    """Incidents to write; later ones are told alone. This bounds the disk."""
    once: bool
    tell: Callable[[str], None]
    notice: Notice = field(default_factory=Notice)
    named: dict[str, str] = field(default_factory=dict)
    """Server → address, as the user says."""
    seen: int = 0
    """The number of the last segment looked at."""
    looked: int = 0
    began: int | None = None
    """When the incident that is going on was noticed."""
    last: int = 0
    written: int = 0
    explaining: incidents.Explaining | None = None

    def run(self, plan: Plan) -> None:
        """Watch until a signal ends it, the plan's duration, or with `once` the first incident that was explained."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        recording = self.folder / RECORDING
        self.named = dict(plan.packets.decode.get("servers", {})) if plan.packets else {}
        recorder.record(recording, plan, self._heard, self._look)
        if self.began is not None:
            self._explain(recording)
        if self.explaining:
            self.tell(self.explaining.finish())
        recorder.discard(recording)

    def _heard(self, kind: str, sentence: str) -> None:
        if kind == "recording":
            self.notice.names = incidents.listeners(self.folder / RECORDING, self.named)
        self.tell(sentence if kind == "warning" else f"watching; incidents go to {self.folder}")

    def _look(self) -> bool:
        """What is new? Asked five times a second; False ends the watch."""
        now = time.monotonic_ns()
        if now - self.looked < LOOK_NS:
            return True
        self.looked = now
        recording = self.folder / RECORDING
        reasons = [reason for segment in self._closed(recording) for reason in self.notice.see(segment)]
        if reasons:
            self._noticed(reasons, now)
        if self.began is not None and (now - self.last >= QUIET_NS or now - self.began >= LONGEST_NS):
            self._explain(recording)
        if self.explaining and self.explaining.done():
            self.tell(self.explaining.finish())
            self.explaining = None
            return not self.once
        return True

    def _closed(self, recording: Path) -> list[Path]:
        new = [path for path in recording.glob("*.parquet") if int(path.name.partition(".")[0]) > self.seen]
        new.sort()
        if new:
            self.seen = int(new[-1].name.partition(".")[0])
        return new

    def _noticed(self, reasons: list[str], now: int) -> None:
        self.last = now
        if self.began is None:
            self.began = now
            self.tell(f"noticed: {'; '.join(reasons)}")

    def _explain(self, recording: Path) -> None:
        self.began = None
        if self.explaining and not self.explaining.done():
            self.tell("another incident, while the one before is being explained: it is not written")
            return
        if self.written == self.most:
            self.tell(f"it is not written: there are {self.most} incidents already (--most)")
            return
        self.written += 1
        stamp = format_moment(time.time_ns(), digits=0).replace(":", "")
        self.explaining = incidents.explain(recording, self.folder / f"incident-{stamp}", self.words)
