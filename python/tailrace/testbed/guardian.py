"""A process that undoes a testbed whose own process could not, as after `kill -9`, or after a second Ctrl-C.

```text
tailrace ──pipe──▶ sh: waits for a word     the word came: the testbed is undone, nothing is left to do
                                             the pipe closed without it: undo what the ledger lists
```
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tailrace.testbed.ledger import InUseError, Ledger
from tailrace.testbed.site import Site
from tailrace.testbed.undoing import clean

PATIENCE_S = 10.0
"""The kernel may close the pipe of a process before it releases the process' lock."""
_LOOK_S = 0.1
_WAIT = "trap '' HUP INT TERM; read -r word || exec \"$@\""
"""A shell, because it needs a hundredth of the memory of Python."""


@contextmanager
def guarded(site: Site, ledger: Ledger) -> Iterator[None]:
    """While the block runs, another process looks after what the ledger lists. At its end, too, if that is anything."""
    command = ["/bin/sh", "-c", _WAIT, "sh", sys.executable, "-m", __name__, site.name]
    none = subprocess.DEVNULL
    guardian = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=none, stderr=none, start_new_session=True)
    try:
        yield
    finally:
        if not ledger.steps():
            guardian.communicate(b"undone\n")
        elif guardian.stdin is not None:  # it waits until this process has released the site
            guardian.stdin.close()


def main(name: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(InUseError):
            clean(Site(name))
            return
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    main(sys.argv[1])
