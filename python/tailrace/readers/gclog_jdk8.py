"""The log of JDK 8 and earlier (-XX:+PrintGC and its like): records in brackets, of one line or of many.

```text
2016-11-20T16:52:55.688+0000: 33.703: [GC (Allocation Failure) 33.703: [ParNew[SoftReference, 0 refs, 0.0000412 secs]
: 279616K->31424K(314560K), 0.0956012 secs] 402113K->271940K(1013632K), 0.0957431 secs] [Times: user=0.30 …]
```

A record is stamped at its BEGIN, and its own length precedes its closing bracket, wherever that is. In between are
brackets of phases, of references, histograms and policies, and of the concurrent threads, which write at any time. So
the parser counts brackets and never judges a line alone. A pause within a pause (the scavenge before a remark) belongs
to it. A class histogram or a heap dump beside a full collection stops the application as well. Shenandoah's backport
writes `[Pause Init Mark, start]` and, stamped at the END, `[Pause Init Mark, 0.434 ms]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tailrace import bounds
from tailrace.readers.gclog_lines import PAUSE, RAN, STOP, UNSTAMPED, Line, Reported, Stamps, length_ns, stamps
from tailrace.units import MILLISECOND

_NUMBER = r"(?<![\d.,])(\d{1,9}[.,]\d{1,9})"
_BRACKET = re.compile(r"[\[\]]")
_RANGE = re.compile(r"\[0x[0-9a-fA-F, x]*[\])]?")
_TIMED = re.compile(rf"{_NUMBER} (secs|ms) ?$")
_OPENS = re.compile(
    r"\[(?:(?P<pause>(?:Full )?GC(?=--|[ \[{(:\d]|$|Adaptive|PSAdaptive|Before|TLAB)"
    r"(?! ?(?:concurrent|Worker|ref-proc|Thread)))"
    r"|(?P<shenandoah>Pause (?:Init|Final|Full|Degenerated)[^\[\]]{0,200}\])"
    r"|(?P<beside>Class Histogram|Heap Dump))"
)
_TITLE = re.compile(
    r"\[((?:Full )?GC(?:--)?(?: (?:pause|remark|cleanup))?|[A-Z][A-Za-z ]*)((?: ?\((?:[^()]|\(\))*\))*)"
)
_SHENANDOAH_LENGTH = re.compile(r", (\d{1,9}[.,]\d{1,9}) ms\]$")
_SIZES = re.compile(r" \d{1,9}[BKMG]->\S+$")
_HISTOGRAM_ROW = re.compile(r"\d{1,9}: +\d{1,19} +\d{1,19}  ?\S+$")
_STOPPED = re.compile(
    rf"[A-Za-z ]{{0,60}}threads were stopped: {_NUMBER} seconds(?:, Stopping threads took: {_NUMBER} seconds)?"
)
_RAN = re.compile(rf"Application time: {_NUMBER} seconds")
_SLACK = 5 * MILLISECOND
"""Stamps are whole milliseconds, and concurrent threads take the stamp before they write the line."""


def waits(line: Line, operation: str) -> Iterator[Reported]:
    """-XX:+PrintGCApplicationStoppedTime and …ConcurrentTime; JDK 9 to 12 write the same words."""
    for ran in _RAN.finditer(line.text):
        yield Reported(RAN, stamps(line.text, ran.start()), True, length_ns(ran[1], "s"), "", line)
    for stopped in _STOPPED.finditer(line.text):
        length, reached = length_ns(stopped[1], "s"), length_ns(stopped[2], "s") if stopped[2] else 0
        yield Reported(STOP, stamps(line.text, stopped.start()), True, length, operation, line, reached)


@dataclass
class _Bracket:
    """An open bracket; `pause` and `beside` say that its length is a stop."""

    pause: bool = False
    beside: bool = False
    concurrent: bool = False
    begin: Stamps = UNSTAMPED
    detail: str = ""
    line: Line | None = None
    nested: Reported | None = None
    """The pause that ended inside it."""


class Records:
    """The records of one JVM, read line by line; `torn` counts pauses without an end."""

    def __init__(self) -> None:
        self.open: list[_Bracket] = []
        self.begun = ""
        """Shenandoah's current pause."""
        self.torn = 0
        self.last_torn = ""

    def reports(self, line: Line) -> Iterator[Reported]:
        text, skipped = line.text, 0
        if self.open and _HISTOGRAM_ROW.search(text[-300:]):
            return
        for token in _BRACKET.finditer(text):
            at = token.start()
            if at < skipped:
                continue
            if text[at] == "]":
                if self.open:
                    yield from self._closed(text, at)
            elif text.startswith("[0x", at):  # a range of addresses, which may end in a parenthesis
                skipped = at + len(_RANGE.match(text, at)[0])  # type: ignore[index]
            else:
                yield from self._opened(line, at)

    def interrupted(self) -> Iterator[Reported]:
        """No pause is under way: open brackets never ended, and a pause that ended inside one counts by itself."""
        for bracket in self.open:
            if bracket.pause:
                self.torn += 1
                self.last_torn = f"{bracket.detail} (line {bracket.line.number if bracket.line else 0})"
                if bracket.nested:
                    yield bracket.nested
        self.open = []

    def _opened(self, line: Line, at: int) -> Iterator[Reported]:
        kind = _OPENS.match(line.text, at)
        if kind is None:
            if self.open:
                yield from self._push(_Bracket(concurrent="concurrent" in line.text[at : at + 20]))
            return
        if kind["shenandoah"]:
            yield from self._of_shenandoah(line, at, kind["shenandoah"])
            return
        pause = kind["pause"] is not None
        if pause and any(bracket.nested for bracket in self.open):
            yield from self.interrupted()
        title = _TITLE.match(line.text, at, at + 300)
        detail = "".join(title.groups()) if title else kind[0][1:]
        begin = stamps(line.text, at)
        yield from self._push(_Bracket(pause, kind["beside"] is not None, False, begin, detail.strip(), line))

    def _push(self, bracket: _Bracket) -> Iterator[Reported]:
        """A record with more than `GC_RECORD_DEPTH` open brackets is not a record."""
        if len(self.open) >= bounds.GC_RECORD_DEPTH:
            yield from self.interrupted()
        self.open.append(bracket)

    def _of_shenandoah(self, line: Line, at: int, text: str) -> Iterator[Reported]:
        length = _SHENANDOAH_LENGTH.search(text)
        self.begun = "" if length else f"{text[:80]} (line {line.number})"
        if length:
            detail = _SIZES.sub("", text[: length.start()])
            yield Reported(PAUSE, stamps(line.text, at), True, length_ns(length[1], "ms"), detail, line)

    def ended(self) -> Iterator[Reported]:
        """End of the log: open records are cut off."""
        yield from self.interrupted()
        if self.begun:
            self.torn, self.last_torn, self.begun = self.torn + 1, self.begun, ""

    def _closed(self, text: str, at: int) -> Iterator[Reported]:
        timed = _TIMED.search(text[max(0, at - 28) : at]) if text[at - 1 : at] == "s" else None
        if timed and text.startswith(("[Times", " [Times"), at + 1) and not self.open[-1].concurrent:
            while self.open and not self.open[-1].pause and not (self.open[-1].beside and len(self.open) == 1):
                self.open.pop()
            if not self.open:
                return
        elif not timed and self.open[-1].line and self.open[-1].begin != UNSTAMPED:
            return
        bracket = self.open.pop()
        if not timed or bracket.line is None or not (bracket.pause or bracket.beside):
            return
        length = length_ns(timed[1], "s" if timed[2] == "secs" else "ms")
        ended = Reported(PAUSE, bracket.begin, False, length, bracket.detail, bracket.line)
        around = next((outer for outer in reversed(self.open) if outer.pause), None)
        if bracket.nested and not _within(bracket.nested, ended):
            yield bracket.nested
        if around is None:
            yield ended
        elif bracket.pause:
            around.nested = ended


def _within(inner: Reported, outer: Reported) -> bool:
    """Whether the outer pause lasts until the inner one has ended, by any clock that both have."""
    for clock in ("wall", "uptime"):
        began, begins = getattr(outer.stamps, clock), getattr(inner.stamps, clock)
        if began is not None and begins is not None:
            return bool(begins + inner.length <= began + outer.length + _SLACK)
    return True
