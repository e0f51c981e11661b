"""Statements that PostgreSQL logs before their durations: `log_statement = all` beside `log_duration`.

```text
16:49:01.000 UTC [22] app@shop LOG:  statement: SELECT * FROM items WHERE id = 17      session 22
16:49:01.203 UTC [22] app@shop LOG:  duration: 203.000 ms                              of the same session
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.readers.accesslog_lines import json_table
from tailrace.readers.layout import fields

_SQL = (
    r"(?:/\*.{0,400}?\*/\s*)?(?i:select|insert|update|delete|with|merge|values|table|begin|start|commit|end|rollback|"
    r"abort|savepoint|release|call|do|copy|fetch|declare|close|move|execute|prepare|deallocate|lock|listen|notify|set|"
    r"show|reset|explain|analyze|vacuum|create|alter|drop|truncate|refresh|grant|revoke|discard|cluster|reindex)\b"
)
_STATED = r"[^\W\d][^:\n]{0,80}: +(" + _SQL + r"[\s\S]*)"
"""`statement: SELECT …` or `execute NAME: SELECT …` in the server's language."""
_MESSAGE = re.compile(_STATED)
_ENTRY = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? (?:[A-Z]{1,5}|[+-]\d\d(?::?\d\d)?)\b|\d{10}\.\d{3} )"
    r"(.{0,400}?): {1,2}" + _STATED
)
_PROCESS = re.compile(r"\[(\d{1,9})(?:-\d{1,9})?\]")
_SESSIONS_MAX = 10_000
_KEPT = 4096
"""Characters of a statement; its command and table stand at its beginning."""


class Stated:
    """The last statement of each session."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def add(self, entry: str) -> bool:
        """Keep the statement of an entry of the log; False: it has none."""
        found = _in(entry)
        if found is None:
            return False
        session, sql = found
        self._of.pop(session, None)
        if len(self._of) >= _SESSIONS_MAX:
            del self._of[next(iter(self._of))]
        self._of[session] = sql[:_KEPT]
        return True

    def taken(self, session: str) -> str:
        """The statement of a session whose duration has come; empty without one."""
        return self._of.pop(session, "")


def of_prefix(prefix: str) -> str:
    """The session of an entry as text: its process in brackets (`%p`), or all that stands before the severity."""
    found = _PROCESS.search(prefix)
    return found[1] if found else prefix.rpartition(" ")[0]


def of_row(row: Sequence[str]) -> str:
    """The session of a row of CSV."""
    return f"{row[3]} {row[5]}"


def of_object(values: Mapping[str, Any]) -> str:
    """The session of an object of JSON."""
    return f"{values.get('pid')} {values.get('session_id')}"


def _in(entry: str) -> tuple[str, str] | None:
    """The session and the statement of an entry."""
    if (match := _ENTRY.match(entry)) is not None:
        return of_prefix(match[1]), match[2]
    if (values := json_table(entry)) is not None:
        match = _MESSAGE.match(str(values.get("message")))
        return (of_object(values), match[1]) if match else None
    row = (fields(entry, ",") or fields(f'{entry}"', ",")) if entry[:4].isdigit() else []
    match = _MESSAGE.match(row[13]) if len(row) > 13 else None
    return (of_row(row), match[1]) if match else None
