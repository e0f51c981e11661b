"""A flight recorder keeps the last minutes, detects a cluster of VLRT, and explains what led to it.

```text
recorder ─▶ segments of a second ─▶ noticing ─▶ incident: wait until it is over ─▶ incidents ─▶ run folder, report
leftovers: what a watch before this one was killed at
```
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace import recorder
from tailrace.errors import TailraceError, cannot_write
from tailrace.recorder import Plan, recording_of
from tailrace.units import SECOND
from tailrace.watch import incidents, leftovers
from tailrace.watch.incidents import number_of
from tailrace.watch.outlets import Outlets

if TYPE_CHECKING:
    from tailrace.watch.noticing import Notice

LOOK_NS = SECOND // 2
"""The recorder closes a segment every second."""
QUIET_NS = 8 * SECOND
"""The third repetition of a lost SYN is sent 7 s after the SYN (Linux waits 1, 2 and 4 s); only then does its request
appear."""
LONGEST_NS = 30 * SECOND
"""A longer incident is explained from its beginning."""
TROUBLES_MAX = 100
"""The number of remembered incidents is bounded, so an old one may be reported again."""

RECORDING = "recording"


@dataclass
class Watch:
    """`tell` receives sentences for the user."""

    folder: Path
    words: Sequence[str]
    """Further options of the diagnosis."""
    most: int
    """The most incidents that the folder may hold; later ones are reported and not written. This bounds the disk
    space."""
    once: bool
    tell: Callable[[str], None]
    outlets: Outlets = field(default_factory=Outlets)
    notice: Notice | None = None
    """From when the watch has begun."""
    named: dict[str, str] = field(default_factory=dict)
    """Server → address, from the user."""
    seen: int = 0
    """The number of the last segment that was checked."""
    looked: int = 0
    began: int | None = None
    """When the current incident was detected."""
    last: int = 0
    reasons: list[str] = field(default_factory=list)
    """The first signs of the current incident."""
    explaining: incidents.Explaining | None = None
    waiting: list[Path] = field(default_factory=list)
    """Run folders of incidents that an earlier watch did not explain."""
    troubles: set[str] = field(default_factory=set)
    """Errors that were already reported, of the watch itself and of explanations."""
    page: incidents.Page = field(init=False)

    def __post_init__(self) -> None:
        self.page = incidents.Page(self.folder)

    @property
    def recording(self) -> Path:
        return self.folder / RECORDING

    def run(self, plan: Plan) -> None:
        """Watch until a signal ends it, the plan's duration is over, or with `once` the first incident has been
        explained."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        leftovers.set_aside(self.recording)
        self.named = dict(plan.packets.decode.get("servers", {})) if plan.packets else {}
        recorder.record(self.recording, plan, self._heard, self._look)
        if self.began is not None:
            self._guarded(self._explain)
        if over := self.explaining:
            self._guarded(lambda: self._finish(over))
        self._guarded(lambda: self._say_of_page(self.page.wait()))
        self._guarded(lambda: self._report(self.outlets.close()))
        recorder.discard(self.recording)

    def _heard(self, kind: str, sentence: str) -> None:
        if kind == "recording":
            self._guarded(self._begin)
        self.tell(sentence if kind == "warning" else f"watching; incidents go to {self.folder}")

    def _begin(self) -> None:
        """This thread has no rights any more; what is loaded only now has none either."""
        from tailrace.watch.noticing import Notice

        self.notice = Notice(names=incidents.listeners(self.recording, self.named))
        self.waiting = leftovers.take_up(self.folder)
        self.outlets.begin(self.notice.names, self.recording)

    def _look(self) -> bool:
        """Check new segments; called five times a second. False ends the watch."""
        now = time.monotonic_ns()
        if now - self.looked < LOOK_NS:
            return True
        self.looked = now
        self._guarded(lambda: self._see(now))
        self._guarded(lambda: self._say_of_page(self.page.step()))
        if self.explaining and self.explaining.done():
            over, self.explaining = self.explaining, None
            self._guarded(lambda: self._finish(over))
            return over.earlier or not self.once
        if self.waiting and not self.explaining:
            self._guarded(self._explain_earlier)
        return True

    def _see(self, now: int) -> None:
        if self.notice is None:
            return
        tables = [read for segment in self._closed() if (read := self.notice.read(segment))]
        reasons = [reason for read in tables for reason in self.notice.judge(*read)]
        if reasons:
            self._noticed(reasons, now)
        if self.began is not None and (now - self.last >= QUIET_NS or now - self.began >= LONGEST_NS):
            self._explain()
        # A fault of an outlet must cost no incident, so this comes last.
        for read in tables:
            self.outlets.see(*read)
        self._report(self.outlets.publish())

    def _report(self, troubles: list[str]) -> None:
        for trouble in troubles:
            if self._is_new(trouble):
                self.tell(trouble)

    def _closed(self) -> list[Path]:
        new = [path for path in self.recording.glob("*.parquet") if number_of(path) > self.seen]
        new.sort(key=number_of)
        if new:
            self.seen = number_of(new[-1])
        return new

    def _noticed(self, reasons: list[str], now: int) -> None:
        self.last = now
        if self.began is None:
            self.began = now
            self.reasons = reasons
            self.tell(f"noticed: {'; '.join(reasons)}")

    def _explain(self) -> None:
        lasting = time.monotonic_ns() - self.began if self.began is not None else 0
        self.began = None
        self._guarded(lambda: self.outlets.noticed(lasting, self.reasons))
        if self.explaining and not self.explaining.done():
            self.tell("another incident began while the previous one is being explained: it is not written")
            return
        if self._is_full():
            self.tell(f"it is not written: the folder already holds {self.most} incidents (--most)")
            return
        out = incidents.named(self.folder, incidents.INCIDENT, time.time_ns())
        incidents.keep(self.recording, recording_of(out))
        leftovers.mark_explained(self.recording, self.seen)
        self.explaining = incidents.explain(out, self.words)

    def _is_full(self) -> bool:
        kept = {path.name.removesuffix(".recording") for path in self.folder.glob(f"{incidents.INCIDENT}*")}
        kept |= {path.name for path in self.folder.glob(f"{incidents.FAULT}*")}
        return len(kept) >= self.most

    def _explain_earlier(self) -> None:
        out = self.waiting.pop(0)
        if incidents.is_running(recording_of(out)):
            self.explaining = incidents.Explaining(out, earlier=True)
        else:
            self.tell(f"explaining the incident at which the previous watch was killed: {out}")
            self.explaining = incidents.explain(out, self.words, earlier=True)

    def _finish(self, explaining: incidents.Explaining) -> None:
        why_not = explaining.finish()
        if why_not is None:
            self.tell(explaining.said())
        elif self._is_new(why_not.replace(str(explaining.kept), "")):
            self.tell(f"{explaining.kept}: it could not be explained: {why_not}")
        else:
            self.tell(f"{explaining.kept}: it could not be explained, for the reason reported before")
        self.outlets.incident(explaining.out, why_not)
        self._say_of_page(self.page.write())

    def _say_of_page(self, why_not: str) -> None:
        if why_not and self._is_new("page"):
            self.tell(why_not)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Call it; if it fails, the watch goes on. A fault of Tailrace is reported once, and the recording is kept."""
        try:
            work()
        except TailraceError as error:
            if self._is_new(str(error)):
                self.tell(f"{error}; the watch goes on")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic in a Rust library is not an Exception
            *_, (frame, line) = traceback.walk_tb(error.__traceback__)
            if self._is_new(f"{frame.f_code.co_filename}:{line}"):
                self.tell(f"a fault of Tailrace itself ({type(error).__name__}: {error}); the watch goes on")
                self._guarded(self._keep)

    def _is_new(self, trouble: str) -> bool:
        if trouble in self.troubles:
            return False
        if len(self.troubles) == TROUBLES_MAX:
            self.troubles.clear()
        self.troubles.add(trouble)
        return True

    def _keep(self) -> None:
        if not self._is_full():
            kept = recording_of(incidents.named(self.folder, incidents.FAULT, time.time_ns()))
            incidents.keep(self.recording, kept)
            self.tell(f"the recording up to then is kept in {kept}; please attach it to a report of the fault")
