"""One clock for everything in a run: setting the machine's clock meanwhile changes nothing in it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.units import format_moment

_STAMPS = re.compile(r"^\[[^\]]*\]\[(\d+)ns\]", re.MULTILINE)
"""Decorations of a JVM's log, with both clocks: -Xlog:…:time,timenanos,…"""


def _offset() -> int:
    return time.time_ns() - time.monotonic_ns()


@dataclass(frozen=True)
class Epoch:
    offset: int = field(default_factory=_offset)
    """Offset of Unix time from the steady clock, in ns, when the servers were started."""

    def unix(self, steady: int) -> int:
        """ns since the Unix epoch of a moment of the steady clock."""
        return steady + self.offset

    def restamp(self, log: Path) -> None:
        """Converts a JVM's log, which was written on the machine's clock, to this clock."""

        def stamp(found: re.Match[str]) -> str:
            return f"[{format_moment(self.unix(int(found[1])))}][{found[1]}ns]"

        log.write_text(_STAMPS.sub(stamp, log.read_text(errors="replace")))
