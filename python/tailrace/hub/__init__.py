"""A hub makes one incident of what the watches of several hosts have in their rings.

```text
watch: reporting ──notice──▶ serving ─▶ desk: a collection ─▶ asks the hosts that the notice's host talks to
                 ◀──wanted──                 │
                 ──segments─▶                ▼ all have answered, or it is late
                                         explaining: tailrace join, tailrace diagnose ─▶ run folder, report
```

Hosts keep their rings and explain their own incidents. They call the hub, which calls nobody: a host needs no open
port, and loses nothing when the hub is gone. `wire` has the names and bounds of what they send.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.errors import TailraceError, cannot_write
from tailrace.hub.desk import Desk
from tailrace.hub.explaining import Explaining
from tailrace.hub.serving import Server
from tailrace.hub.warm import Warm
from tailrace.watch import incidents


@dataclass
class Hub:
    """`tell` receives sentences for the user."""

    desk: Desk
    tell: Callable[[str], None]
    explaining: Explaining | None = None
    waiting: list[Explaining] = field(default_factory=list)
    warm: Warm = field(default_factory=Warm)
    """Starts the commands."""
    page: incidents.Page = field(init=False)
    page_failed: str = ""
    """What was last reported about the page."""

    def __post_init__(self) -> None:
        self.page = incidents.Page(self.desk.folder, self.warm.started)

    def run(self, server: Server, ended: Callable[[], bool]) -> None:
        """Serve until `ended`; what is being explained then is explained first."""
        server.start()
        try:
            while not ended():
                self._look()
        finally:
            server.stop()
        while self.explaining:
            self._look()
        self._look_at_page(self.page.wait)
        self.warm.close()

    def _look(self) -> None:
        for sentence in self.desk.said():
            self.tell(sentence)
        self.waiting += [Explaining(self.desk, closed, self.warm.started) for closed in self.desk.due(time.monotonic())]
        if self.explaining is None and self.waiting:
            self.explaining = self.waiting.pop(0)
        if self.explaining and self.explaining.step():
            over, self.explaining = self.explaining, None
            self.tell(over.said())
            self.desk.close(over.closed)
            self._look_at_page(self.page.write)
        self._look_at_page(self.page.step)
        self.warm.look()
        time.sleep(0.1)

    def _look_at_page(self, look: Callable[[], str]) -> None:
        try:
            self._say_of_page(look())
        except TailraceError as error:
            self._say_of_page(str(error))

    def _say_of_page(self, why_not: str) -> None:
        """The same reason is reported once."""
        if why_not and why_not != self.page_failed:
            self.tell(why_not)
        self.page_failed = why_not or self.page_failed


def opened(folder: Path, tell: Callable[[str], None], wait_s: float, most: int) -> Hub:
    """The hub of a folder, with what an earlier one was collecting when it ended."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise cannot_write(folder, error) from error
    desk = Desk(folder, wait_s, most)
    desk.take_up(time.monotonic())
    return Hub(desk, tell)
