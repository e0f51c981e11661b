"""Work of a node's disk besides its servers' own: a logger that flushes, and dirty pages that are written back.

```text
logger        every period, it writes and syncs all bytes that it gathered (dd conv=fsync, in the node's group)
writeback     every period, if pages are old or many, it writes all of them (sync -f)
probe         every 10 ms, it writes one block with fsync; from 50 ms on, writers are blocked    → truth.toml
```

The kernel's writeback settings apply to the whole machine, so this module implements the experiment's.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.experiment import places, truth
from tailrace.experiment.machines import Disk, Node, Writeback
from tailrace.testbed.epoch import Epoch
from tailrace.testbed.program import Room, where
from tailrace.testbed.stalls.injection import Mechanism, joined
from tailrace.testbed.system import System
from tailrace.units import MILLISECOND, SECOND

PROBE_NS, BLOCKED_NS = 10 * MILLISECOND, 50 * MILLISECOND
"""One block takes the disk a millisecond; 50 ms is the resolution of samples."""
JOIN_NS = 3 * PROBE_NS
"""The next probe began, and waited as well."""
LOOK_NS = 100 * MILLISECOND
_BLOCK = bytes(4096)


def mechanisms(system: System) -> Iterator[Mechanism]:
    turns = places.turns(system.experiment)
    for name, node in places.nodes(system.experiment).items():
        if node.disk:
            room = system.nodes.beside(name, f"{name}-logger")
            servers = [s.name for s in places.servers(system.experiment) if s.node == name]
            yield Busy(name, node, node.disk, room, system.disks[name], servers, system.epoch, turns.get(name, 0)).run


@dataclass
class Busy:
    name: str
    node: Node
    disk: Disk
    room: Room
    folder: Path
    servers: list[str]
    epoch: Epoch
    turn: int = 0
    """When the flusher first wakes, unless the experiment says; 0: after its period."""
    jobs: list[tuple[str, int, int]] = field(default_factory=list)
    """What was written, and when, on the monotonic clock."""

    def run(self, origin: int, over: threading.Event) -> list[truth.Stall]:
        workers = [threading.Thread(target=work, args=(origin, over)) for work in (self._flush, self._write_back)]
        for worker in workers:
            worker.start()
        waits = joined(self._probe(over), JOIN_NS)
        for worker in workers:
            worker.join()
        return [truth.Stall(self.kind(a, b), self.name, self.epoch.unix(a), self.epoch.unix(b)) for a, b in waits]

    def kind(self, begin: int, end: int) -> str:
        """Writes of the kernel's own count as writeback."""
        return next((kind for kind, a, b in self.jobs if a < end and b > begin), "writeback")

    def _probe(self, over: threading.Event) -> Iterator[tuple[int, int]]:
        file = os.open(self.folder / "probe", os.O_CREAT | os.O_WRONLY)
        try:
            while not over.wait(PROBE_NS / SECOND):
                begun = time.monotonic_ns()
                os.pwrite(file, _BLOCK, 0)
                os.fdatasync(file)
                if (now := time.monotonic_ns()) - begun >= BLOCKED_NS:
                    yield begun, now
        finally:
            os.close(file)

    def _do(self, kind: str, command: list[str]) -> None:
        begun = time.monotonic_ns()
        subprocess.run(self.room.enter(command), stderr=subprocess.DEVNULL, check=False)
        self.jobs.append((kind, begun, time.monotonic_ns()))

    def _flush(self, origin: int, over: threading.Event) -> None:
        flush = self.disk.flush
        if flush is None:
            return
        count = flush.rate * flush.period // SECOND
        command = [where("dd"), "if=/dev/zero", f"of={self.folder}/logger.log", "bs=1M", f"count={count}"]
        due = origin + flush.first
        while not over.wait(max(0, due - time.monotonic_ns()) / SECOND):
            self._do("log-flush", [*command, "iflag=count_bytes", "conv=fsync"])
            due += flush.period

    def _write_back(self, origin: int, over: threading.Event) -> None:
        settings = self.disk.writeback
        if settings is None:
            return
        clean, dirty_since = self._written(), None
        due = origin + (settings.first or self.turn or settings.period)
        while not over.wait(LOOK_NS / SECOND):
            now = time.monotonic_ns()
            dirty = self._written() - clean
            dirty_since = dirty_since or (now if dirty else None)
            wakes = now >= due
            due += settings.period if wakes else 0
            if self.is_due(settings, dirty, now - (dirty_since or now), wakes):
                clean, dirty_since = clean + dirty, None
                self._do("writeback", [where("sync"), "--file-system", str(self.folder)])

    def is_due(self, settings: Writeback, dirty: int, age: int, wakes: bool) -> bool:
        if dirty >= settings.limit * self.node.memory:
            return True
        return wakes and (dirty >= settings.background * self.node.memory or 0 < settings.expire <= age)

    def _written(self) -> int:
        """Bytes of logs that were written and never flushed."""
        return sum(log.stat().st_size for name in self.servers for log in (self.folder / name).glob("*.log"))
