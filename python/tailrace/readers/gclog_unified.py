"""Unified logging, of JDK 9 and later: every line is one report, stamped when it is written.

```text
[…][gc,start] GC(5) Pause Young (Normal) (G1 Evacuation Pause)                       its begin
[…][gc      ] GC(5) Pause Young (Normal) (G1 Evacuation Pause) 150M->14M(494M) 4.859ms   its END and its length
[…][gc,phases] GC(7) Y: Pause Mark Start 0.013ms                                     ZGC, generational
[…][safepoint] Safepoint "G1CollectForAllocation", …, Total: 5120000 ns              the end of the stop (JDK 13 on)
[…][safepoint] Total time for which application threads were stopped: 0.0051 seconds (JDK 9 to 12)
[…][gc] Allocation Stall (main) 51.234ms                                             one thread waited for memory
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tailrace import bounds
from tailrace.readers.gclog_lines import PAUSE, STALL, STOP, Line, Reported, length_ns, stamps

_PAUSE = re.compile(r"GC\((\d{1,9})\) (?:[YyOo]: )?(?=Pause [A-Z])")
_LENGTH = re.compile(r"(?<![\d.,])(\d{1,9}[.,]\d{1,9}) ?(ms|s)$")
_SIZES = re.compile(r"(?: \d+[BKMG]?(?:\([^()\s]*\))?->\S+)?(?: \([\d.,]+s, [\d.,]+s\))?$")
_SAFEPOINT = re.compile(r'Safepoint "([^"]{0,200})",')
_TOTAL = re.compile(r" Total: +(\d{1,16}) ns")
_REGION = re.compile(r"Entering safepoint region: ([^\s,]{1,200})")
_STALLED = re.compile(r"(?:GC\(\d{1,9}\) (?:[YyOo]: )?)?Allocation Stall \(")


class Unified:
    """The reports of one JVM; `region` is the operation of the current stop."""

    def __init__(self) -> None:
        self.region = ""
        self.begun: dict[str, str] = {}
        self.torn = 0
        self.last_torn = ""

    def reports(self, line: Line) -> Iterator[Reported]:
        text = line.text
        if pause := _PAUSE.search(text):
            yield from self._pause(line, pause)
        elif safepoint := _SAFEPOINT.search(text):
            total = _TOTAL.search(text, safepoint.end())
            if total:
                yield Reported(STOP, stamps(text, safepoint.start()), True, int(total[1]), safepoint[1], line)
            else:
                self.torn += 1
        elif region := _REGION.search(text):
            self.region = region[1]
        elif (stalled := _STALLED.search(text)) and (length := _LENGTH.search(text.rstrip()[-32:])):
            waited = length_ns(length[1], length[2])
            yield Reported(STALL, stamps(text, stalled.start()), True, waited, "Allocation Stall", line)

    def ended(self) -> None:
        """End of the log: a pause that has begun is cut off."""
        self.torn += len(self.begun)
        self.last_torn = next(reversed(self.begun.values()), self.last_torn)
        self.begun = {}

    def _pause(self, line: Line, pause: re.Match[str]) -> Iterator[Reported]:
        at = stamps(line.text, pause.start())
        body = line.text[pause.end() :].rstrip()
        length = _LENGTH.search(body[-32:])
        if length:
            self.begun.pop(pause[1], None)
            detail = _SIZES.sub("", body[: len(body) - len(length[0])].rstrip()[:300])
            yield Reported(PAUSE, at, True, length_ns(length[1], length[2]), detail, line)
        elif at.tags is None or "start" in at.tags:
            if len(self.begun) >= bounds.GC_BEGUN:
                self.begun.pop(next(iter(self.begun)))
                self.torn += 1
            self.begun[pause[1]] = f"{body[:80]} (line {line.number})"
        else:
            self.torn += 1
