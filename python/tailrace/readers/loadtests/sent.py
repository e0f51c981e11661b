"""One request of a load test, as its client saw it, and what a format of load tests consists of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tailrace import units
from tailrace.readers.source import Found, Source


@dataclass(frozen=True, slots=True)
class Sent:
    """Times in ns. `duration` includes `connect`, the time until the connection was established."""

    begin: int
    duration: int
    status: str
    connect: int | None = None
    method: str = ""
    url: str = ""
    label: str = ""
    """The name that the test's author gave to the request."""
    client: str = ""
    """The thread or virtual user that sent it; empty if unknown."""
    bytes_in: int | None = None


@dataclass(frozen=True)
class Form:
    """`requests` yields None, with the line's number, for a line that it cannot read."""

    name: str
    seen: Callable[[str], bool]
    requests: Callable[[Source, Found], Iterator[tuple[int, Sent | None]]]
    undated: bool = False
    """Its times count from the start of the test, which the file does not contain."""
    connects: bool = True
    """It contains how long connecting took."""


_REASONS = (("refused", "refused"), ("timed out", "timeout"), ("timeout", "timeout"), ("reset", "reset"))


def outcome(code: str, message: str = "", *, failed: bool = False) -> str:
    """The status in the record. `failed`: the load generator counts it as failed although it has a response."""
    if len(code) == 3 and code.isascii() and code.isdigit() and "100" <= code < "600":
        return code if code >= "400" else "error" if failed else "ok"
    text = f"{code} {message}".lower()
    return next((status for word, status in _REASONS if word in text), "error" if failed or message else "unknown")


def nanoseconds(text: str, scale: int) -> int | None:
    """A time that is not negative, in units of `scale`; None for anything else."""
    number = units.parse_number(text) if len(text) < 32 else None
    return int(number * scale) if number is not None and 0 <= number * scale < 2**62 else None


def whole(text: str) -> int | None:
    """A whole number that 63 bits hold."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
    return number if number is not None and number < 2**62 else None


_AUTHORITY = re.compile(r"[A-Za-z]{2,6}://(?:[^/?#@\s]{0,200}@)?([^/?#\s]{1,255})")


def authority(url: str) -> str:
    """The host and port of a URL; empty if it has none."""
    match = _AUTHORITY.match(url)
    return match[1] if match else ""
