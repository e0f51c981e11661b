"""What is to be undone, written down before it is done.

```text
note("namespace", "tailrace.app-node")     flushed to /run/tailrace-testbed/ledger.jsonl
ip netns add tailrace.app-node             done only now: kill -9 at any moment leaves a note of it
undo()                                     the notes backwards, each forgotten when it is undone
```
Undoing what was never done, or is undone already, does nothing. So the end of a run, Ctrl-C and `tailrace testbed
clean` after a crash are one and the same.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tailrace import whole
from tailrace.errors import TailraceError, UsageError, cannot_write
from tailrace.testbed.site import Site

FILE, LOCK = "ledger.jsonl", "lock"
Step = tuple[str, str]
"""Kind of the thing, and which."""
Undo = Mapping[str, Callable[[str], None]]


class Ledger:
    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE

    def note(self, kind: str, what: str) -> None:
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([kind, what]) + "\n")
            lines.flush()
            os.fsync(lines.fileno())

    def steps(self) -> list[Step]:
        """What is not undone; a last line cut off by a crash is of a step that was not taken."""
        try:
            lines = self.file.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            return []
        return [tuple(json.loads(line)) for line in lines[:-1]]

    def undo(self, undo: Undo) -> list[Step]:
        """Undo all steps, last first; returns them. What fails is told after everything else is undone, and stays."""
        steps, failed, why = self.steps(), [], ""
        for kind, what in reversed(steps):
            try:
                undo[kind](what)
            except (OSError, TailraceError) as error:
                failed.append((kind, what))
                why = f"{kind} {what}: {error}"
        self._rewrite(failed[::-1])
        if failed:
            advice = "end what still uses it and run `tailrace testbed clean`"
            raise TailraceError(f"{len(failed)} of {len(steps)} steps could not be undone ({why})", advice=advice)
        return steps[::-1]

    def _rewrite(self, steps: list[Step]) -> None:
        whole.write(self.file, "".join(json.dumps(step) + "\n" for step in steps).encode())


class InUseError(UsageError):
    """Another process has the site; `holder` is its id."""

    def __init__(self, holder: int) -> None:
        super().__init__(f"a testbed is in use by process {holder}", advice="wait for it, or `tailrace testbed down`")
        self.holder = holder


@contextmanager
def held(site: Site) -> Iterator[Ledger]:
    """The site's ledger, for this process alone. The system drops the lock when the process ends, however it ends."""
    try:
        site.state.mkdir(parents=True, exist_ok=True)
        lock = os.open(site.state / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise cannot_write(site.state, error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUseError(int(os.pread(lock, 20, 0) or 0)) from None
        os.truncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield Ledger(site.state)
    finally:
        os.close(lock)
