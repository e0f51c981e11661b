"""The log of -XX:+PrintGCDetails -XX:+PrintGCDateStamps, as JDK 8 and earlier write it (see `gclog`).

A collection is stamped at its begin and its length stands before `secs]`, on the same line or, when other threads or
-XX:+PrintTenuringDistribution wrote in between, on a later one. Concurrent phases (`[CMS-concurrent-…`,
`[GC concurrent-…`) stop nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from tailrace import units
from tailrace.readers.source import Event

_STAMP = r"(?:(\d{4}-\d\d-\d\dT[\d:]+[.,]\d+[+-]\d{4}): )?(?:(\d+[.,]\d+): )?"
_BEGUN = re.compile(rf"^{_STAMP}\[((?:Full )?GC(?! concurrent)(?: [a-z]+)?(?: ?\([^()]*\))*)")
_LENGTH = re.compile(r", (\d+[.,]\d+) secs\](?=\s*\[Times|\s*$)")
_STOPPED = re.compile(rf"^{_STAMP}Total time for which application threads were stopped: (\d+[.,]\d+) seconds")
_SEEN = re.compile(rf"^{_STAMP}\[(?:Full )?GC[ -(]", re.MULTILINE)


class Lines(Protocol):
    unplaced: list[int]

    def __iter__(self) -> Iterator[tuple[int, str]]: ...


def recognises(text: str) -> bool:
    return any(match[1] or match[2] for match in _SEEN.finditer(text)) or "CommandLine flags:" in text[:4096]


def stops(lines: Lines) -> Iterator[Event]:
    pending: tuple[int, str] | None = None
    for number, line in lines:
        stopped = _STOPPED.match(line)
        if stopped:
            yield from _stopped(stopped, number, lines)
            continue
        begun = _BEGUN.match(line)
        if begun:
            pending = None
            moment = _moment(begun[1])
            if moment is not None:
                pending = moment, begun[3].strip()
            else:
                lines.unplaced.append(number)
        lengths = _LENGTH.findall(line)
        if pending and lengths:
            moment, detail = pending
            yield Event("gc", moment, moment + _ns(lengths[-1]), detail)
            pending = None


def _stopped(match: re.Match[str], number: int, lines: Lines) -> Iterator[Event]:
    moment = _moment(match[1])
    if moment is None:
        # PrintGCApplicationStoppedTime stamps nothing before JDK 8u20; the collections themselves are stamped.
        return
    yield Event("safepoint", moment - _ns(match[3]), moment, "application threads stopped")


def _moment(text: str | None) -> int | None:
    try:
        return units.parse_moment(text.replace(",", ".")) if text else None
    except ValueError:
        return None


def _ns(seconds: str) -> int:
    return units.parse_duration(seconds.replace(",", ".") + "s")
