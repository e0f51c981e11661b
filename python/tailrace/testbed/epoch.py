"""One clock for all that is seen of a run: whoever sets the machine's clock meanwhile moves nothing in it.

```text
truth, load, recorder, clock rates, JVMs     each asks the steady clock (CLOCK_MONOTONIC); Unix time = steady + offset
```
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.units import format_moment

_STAMPS = re.compile(r"^\[[^\]]*\]\[(\d+)ns\]", re.MULTILINE)
"""Of a JVM's log, by both clocks: -Xlog:…:time,timenanos,…"""


def _offset() -> int:
    return time.time_ns() - time.monotonic_ns()


@dataclass(frozen=True)
class Epoch:
    offset: int = field(default_factory=_offset)
    """By how much Unix time is more than the steady clock's, in ns, as it was when the servers were started."""

    def unix(self, steady: int) -> int:
        """ns since the Unix epoch of a moment of the steady clock."""
        return steady + self.offset

    def restamp(self, log: Path) -> None:
        """Puts a JVM's log on this clock; one that was written meanwhile is on the machine's."""

        def stamp(found: re.Match[str]) -> str:
            return f"[{format_moment(self.unix(int(found[1])))}][{found[1]}ns]"

        log.write_text(_STAMPS.sub(stamp, log.read_text(errors="replace")))
