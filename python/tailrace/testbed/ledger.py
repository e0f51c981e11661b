"""The ledger: each step is noted before it is done, and the system's identifier of what it created afterwards.

```text
note("namespace", "tailrace.app-node")            flushed to /run/tailrace-testbed/ledger.jsonl
ip netns add tailrace.app-node                    only then: after kill -9 at any moment, the note exists
made("namespace", "tailrace.app-node", "4:40…")   the system's identifier, in case of a later namesake
undo()                                            goes through the notes backwards and deletes each one
```
Undoing a step twice, or one that was never done, does nothing. The end of a run, Ctrl-C and `tailrace testbed clean`
after a crash therefore do the same.
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
"""The kind of a thing, and its name."""
Undo = Mapping[str, Callable[[str, str | None], bool]]
"""For each kind: a function that undoes the thing with this name and identifier, and returns whether it existed.

Identifier None: the testbed was killed before it could read it. Then the thing is still empty, and it is removed only
if that is so.
"""


class Ledger:
    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE

    def note(self, kind: str, what: str) -> None:
        """Note a thing that is about to be created. No other thing may have this name: see `refuse_taken`."""
        self._append(kind, what)

    def made(self, kind: str, what: str, known_by: str) -> None:
        self._append(kind, what, known_by)

    def _append(self, *words: str) -> None:
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(words) + "\n")
            lines.flush()
            os.fsync(lines.fileno())

    def steps(self) -> list[Step]:
        """The steps that are not undone."""
        return list(self._known())

    def _known(self) -> dict[Step, str | None]:
        """The identifier of each. A last line that a crash cut off belongs to a step that was not taken."""
        try:
            lines = self.file.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            return {}
        known: dict[Step, str | None] = {}
        for line in lines[:-1]:
            kind, what, *known_by = json.loads(line)
            known[kind, what] = known_by[0] if known_by else None
        return known

    def undo(self, undo: Undo) -> list[Step]:
        """Undo all steps, the last one first; returns those whose thing existed. Steps that fail stay in the ledger,
        and are reported after all others are undone."""
        known = self._known()
        undone: list[Step] = []
        failed: dict[Step, str | None] = {}
        why = ""
        for (kind, what), known_by in reversed(known.items()):
            try:
                if undo[kind](what, known_by):
                    undone.append((kind, what))
            except (OSError, TailraceError) as error:
                failed[kind, what] = known_by
                why = f"{kind} {what}: {error}"
        self._rewrite(failed)
        if failed:
            advice = "end what still uses it and run `tailrace testbed clean`"
            raise TailraceError(f"{len(failed)} of {len(known)} steps could not be undone ({why})", advice=advice)
        return undone

    def _rewrite(self, steps: dict[Step, str | None]) -> None:
        rows = [[*step, *([known_by] if known_by else [])] for step, known_by in reversed(steps.items())]
        whole.write(self.file, "".join(json.dumps(row) + "\n" for row in rows).encode())


def refuse_taken(what: str, taken: bool, remove: str) -> None:
    """Everything in the ledger is undone by now, so an existing thing with a name that the testbed needs belongs to
    another program."""
    if taken:
        raise TailraceError(
            f"{what} exists already, and no testbed made it", advice=f"if you do not need it: `{remove}`"
        )


class InUseError(UsageError):
    """Another process uses the site; `holder` is its id, 0 if unknown."""

    def __init__(self, holder: int) -> None:
        by = f"process {holder}" if holder else "a process whose parent has ended"
        super().__init__(f"a testbed is in use by {by}", advice="wait for it, or `tailrace testbed down`")
        self.holder = holder


@contextmanager
def held(site: Site) -> Iterator[Ledger]:
    """The site's ledger, locked for this process. The system releases the lock when the process ends for any reason."""
    try:
        site.state.mkdir(parents=True, exist_ok=True)
        lock = os.open(site.state / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_write(site.state, error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUseError(_holder(os.pread(lock, 80, 0))) from None
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()} {_began(os.getpid())}".encode(), 0)
        yield Ledger(site.state)
    finally:
        os.close(lock)


def _holder(said: bytes) -> int:
    """The process that wrote this; 0 if it has ended and a child of it, or a later process with its number, is
    alive."""
    pid, _, began = said.decode(errors="replace").partition(" ")
    return int(pid) if pid.isdigit() and began and _began(int(pid)) == began else 0


def _began(pid: int) -> str:
    """When a process began, in ticks since the machine's start; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
