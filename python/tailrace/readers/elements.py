"""The elements of a long JSON file, one after the other, in bounded memory.

```text
{"sysstat": {"hosts": [{"nodename": "a", "statistics": [  {…}, {…}, {…}  ]}]}}
            before ────────────────────────────────────┘  └─ elements
```
`opening` matches what stands before the first element of a list. Without it, the file is a sequence of values, with
spaces or commas between them. A damaged element is left out, and reading goes on where `resume` matches again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tailrace import units
from tailrace.bounds import JSON_DAMAGED, JSON_ELEMENT, JSON_IN_VAIN
from tailrace.readers.source import Found, Source
from tailrace.untrusted import finite, whole_characters

_BEFORE = 4096
_BETWEEN = re.compile(r"[\s,\ufeff]*")


def elements(
    source: Source, found: Found, resume: re.Pattern[str], opening: re.Pattern[str] | None = None
) -> Iterator[tuple[str, Any]]:
    """Each element with the text before its list. Damaged ones are counted in `found`."""
    damage, before, buffer, inside = _Damage(), "", "", opening is None
    seek = opening
    for text in _with_end(source.texts(found)):
        buffer, at = buffer + (text or ""), 0
        damage.allowed += len(text or "")
        while True:
            if seek is not None:
                match = seek.search(buffer, at)
                if match is None:
                    at = max(at, len(buffer) - _BEFORE)
                    break
                before = buffer[max(0, match.start() - _BEFORE) : match.start()] if not inside else before
                at, inside, seek = (match.start() if inside else match.end()), True, None
            at = _past_spaces(buffer, at)
            if at == len(buffer):
                break
            if buffer[at] == "]":
                inside, seek, at = opening is None, opening, at + 1
                continue
            try:
                decoded, end = _DECODER.raw_decode(buffer, at)
                value, at = whole_characters(decoded, buffer, at, end), end
            except (ValueError, RecursionError) as error:
                if text is not None and len(buffer) - at < JSON_ELEMENT:
                    break  # the next block may complete it
                found.lose("damaged elements", 1)
                if why := damage.too_much(_reached(error, buffer) - at):
                    found.stopped(source.path.name, f"{why}; reading stopped there")
                    return
                seek, at = resume, at + 1
                continue
            yield before, value
        buffer = buffer[at:]


class _Damage:
    """Counts damaged elements, and the characters that were parsed for them: those inside each other count again."""

    def __init__(self) -> None:
        self.elements = 0
        self.allowed = JSON_IN_VAIN

    def too_much(self, parsed: int) -> str | None:
        """Count an element that was damaged after so many characters; why reading ends."""
        self.elements += 1
        self.allowed -= parsed
        if self.elements > JSON_DAMAGED:
            return f"it has more than {JSON_DAMAGED:,} damaged elements"
        return "its damaged elements lie inside each other" if self.allowed < 0 else None


def _reached(error: Exception, text: str) -> int:
    """How far a parser came. Of a string without an end it names the begin, and of some errors no place."""
    if isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated string"):
        return error.pos
    return len(text)


def _with_end(texts: Iterator[str]) -> Iterator[str | None]:
    yield from texts
    yield None


def _past_spaces(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    return match.end() if match else at


_DECODER = json.JSONDecoder(parse_float=finite, parse_constant=finite)


def table(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """The value if it is text that is not empty, or a whole number."""
    return value or None if isinstance(value, str) else str(value) if type(value) is int else None


def moment(value: str) -> int | None:
    """The moment of ISO 8601 text, in UTC if it has no offset, or of a Unix time in s, ms, µs or ns."""
    try:
        return units.parse_moment(value)
    except ValueError:
        return None


def number(value: Any) -> float | None:
    """The value if it is a finite number, or text of one."""
    if isinstance(value, str):
        parsed = units.parse_number(value)
        return float(parsed) if parsed is not None else None
    return float(value) if type(value) in (int, float) and abs(value) < 1e300 else None
