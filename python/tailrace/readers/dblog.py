"""Logs of databases with durations: MySQL's and MariaDB's slow query log, PostgreSQL's log of durations and plans.

```text
# Time: 2026-11-20T16:49:01.203000Z                                                        MySQL: the end
# User@Host: app[app] @  [10.0.0.2]  Id:     8
# Query_time: 1.203000  Lock_time: 0.000100 Rows_sent: 1  Rows_examined: 100
SET timestamp=1795193340;                                                                  MySQL, MariaDB: the begin
SELECT * FROM items WHERE id = 17;
2026-11-20 16:49:01.203 UTC [22] app@shop LOG:  duration: 1203.000 ms  statement: SELECT * FROM items WHERE id = 17
2026-11-20 16:49:01.210 UTC [22] app@shop LOG:  duration: 0.420 ms  plan:                 auto_explain, also as JSON
        Query Text: SELECT * FROM items WHERE id = 17;
        Seq Scan on items  (cost=0.00..25.88 rows=6 width=64)
```
PostgreSQL stamps the end. Its logs as CSV and JSON have the same message, which may have several lines. A query is a
request to the database. If the log contains slow queries only, the others are unknown, and so is how many queries the
database held.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tailrace import units
from tailrace.readers import logged
from tailrace.readers.accesslog_lines import json_table
from tailrace.readers.dblog_statements import Stated, of_object, of_prefix, of_row
from tailrace.readers.elements import moment
from tailrace.readers.layout import fields
from tailrace.readers.naming import Names
from tailrace.readers.source import Found, Source, text_head
from tailrace.readers.spills import Scratch
from tailrace.readers.stays import Stay, Stays
from tailrace.topology import Server, Topology

_QUERY_TIME = re.compile(r"^# Query_time: (\d{1,9}\.\d{1,6})\s+Lock_time: ", re.MULTILINE)
_ISO = re.compile(r"^# Time: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d))")
_BEGAN = re.compile(r"^SET timestamp=(\d{9,11}(?:\.\d{1,6})?);")
_DURATION = r"[^\W\d][\w ]{0,30}? ?: (\d{1,9}\.\d{1,3}) (?:ms|мс)"
"""`duration: 12.345 ms` in the server's language."""
_PG = re.compile(
    r"^(?:(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?) ([A-Z]{1,5}|[+-]\d\d(?::?\d\d)?)\b|(\d{10}\.\d{3}) )"
    rf"(.{{0,400}}?): {{1,2}}{_DURATION}([\s\S]*)",
    re.MULTILINE,
)
_ENTRY = re.compile(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d{10}\.\d{3} |\{"timestamp":')
"""An entry of PostgreSQL's log begins; its other lines do not begin so."""
_LOGGED = re.compile(
    r"(?:<\d{1,3}>1? ?)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,30}) \S{1,255} postgres(?:ql)?"
    r"(?:\[\d{1,9}\]:| \d{1,9} - -) (?:\[\d{1,9}-\d{1,9}\] )?|\S{1,100} +\| "
)
"""What syslog, or docker-compose, writes before each line."""
_SAID = re.compile(rf"^{_DURATION}(.*)", re.DOTALL)
_STATEMENT = re.compile(
    r"^,?\s+[^\W\d][^:\n]{0,80}:\s*"
    r'(?:\{\s*"Query Text": "(?P<quoted>(?:[^"\\]|\\.)*)'
    r'|(?:(?:- )?Query Text: *"?|<Query-Text>)?(?P<plain>.*))',
    re.DOTALL,
)
_IN_MS = re.compile(r"\d (?:ms|мс)")
_THRESHOLD_NS = 10 * units.MILLISECOND
"""If no query was shorter, the log has a threshold. MySQL's is 10 s by default, and PostgreSQL has none."""
_LINES_MAX = 200
"""Of a statement; its command and table stand at its beginning."""


@dataclass(frozen=True)
class _Query:
    begin: int
    duration: int
    sql: str
    stamp: int
    """What the log has, of which the others were made."""
    session: str = ""
    """Who sent it, if its statement may stand in an entry before it."""


_RATE = re.compile(r"\bLog_slow_rate_limit: (\d{1,9})\b")
"""Percona Server and MariaDB write which share of the queries they log: one of so many."""
_SET = re.compile(
    r'"((?:log|auto_explain\.log)_min_duration(?:_statement|_sample)?|log_(?:statement|transaction)_sample_rate|'
    r'auto_explain\.sample_rate)\\?"{1,2} \S.{0,60}?\\?"{1,2}([\w.+-]{1,20})\\?"{1,2}'
)
"""Where its configuration was read again, PostgreSQL says `parameter "log_min_duration_statement" changed to "5"`."""
_NO_THRESHOLD = ("0", "-1", "1", "1.0", "0ms")
"""Values with which all queries are logged, or none; 1 is a share, or a millisecond that most queries do not reach."""
_TOLD_MOST = 10


@dataclass
class _Told:
    """What the log says of itself."""

    zones: set[str] = field(default_factory=set)
    rates: set[int] = field(default_factory=set)
    thresholds: set[str] = field(default_factory=set)

    def notes(self) -> Iterator[str]:
        """What to say of the share of queries that it has."""
        if self.thresholds:
            yield (
                f"PostgreSQL was set to log some queries only ({', '.join(sorted(self.thresholds))}): the others, and "
                "how many the database held, are unknown"
            )
        if self.rates - {1}:
            shares = ", ".join(f"1 of {rate}" for rate in sorted(self.rates))
            yield f"the server logged a share of its queries (Log_slow_rate_limit): {shares}. " + (
                "Findings scale queue lengths by it" if len(self.rates) == 1 else "No single share scales the others"
            )


def sniff(name: str, head: bytes) -> bool:
    text = text_head(head) or ""
    return bool(_QUERY_TIME.search(text) or _PG.search(text) or _is_pg(text))


def _is_pg(text: str) -> bool:
    entries = _entries(text.split("\n")[:_LINES_MAX])
    of_any = (_of_pg_csv, lambda entry: _of_pg_text(entry, set()), _of_pg_json)
    return any(query(entry) is not None for entry in entries for query in of_any)


def _entries(lines: Iterable[str]) -> Iterator[str]:
    """The entries of PostgreSQL's log, with the first lines of each."""
    entry: list[str] = []
    for text in lines:
        before = _LOGGED.match(text)
        line = text[before.end() :] if before else text
        if _ENTRY.match(line) and entry:
            yield "\n".join(entry)
            entry = []
        if len(entry) < _LINES_MAX:
            entry.append(line)
    if entry:
        yield "\n".join(entry)


def read(source: Source) -> Found:
    found, stays, names, name = Found(), Stays(Scratch(source.scratch)), Names(), source.path.name
    head = text_head(source.head()) or ""
    mysql = bool(_QUERY_TIME.search(head))
    server = source.place or ("mysql" if mysql else "postgresql")
    shortest: int | None = None
    told, whole = _Told(), True
    for query in _mysql(source, found, told) if mysql else _postgresql(source, found, told):
        shortest = query.duration if shortest is None else min(shortest, query.duration)
        whole = whole and query.stamp % units.SECOND == 0
        stays.add(
            Stay(
                server,
                query.begin,
                query.begin,
                query.begin + query.duration,
                "ok",
                names.of_statement(query.sql),
                entry=True,
            )
        )
    all_logged = shortest is not None and shortest < _THRESHOLD_NS and not told.thresholds
    stays.into(found, name, visits=all_logged and not whole)
    found.missing = logged.by_durations(*stays.parts()) if all_logged else ""
    kept = 1 / min(told.rates) if len(told.rates) == 1 and min(told.rates) > 1 else None
    found.topology = Topology(servers=(Server(name=server, protocol="mysql" if mysql else "postgres", kept=kept),))
    if source.place is None:
        found.notes.append(f"{name}: its server is called {server}; pass NAME=FILE")
    if not all_logged and shortest is not None and not told.thresholds:
        found.notes.append(
            f"{name}: no query took less than {units.format_duration(shortest)}, so the log has a threshold: the "
            "faster queries, and how many the database held, are unknown"
        )
    if whole and shortest is not None:
        found.notes.append(
            f"{name}: its stamps are whole seconds, so response times are known and the order of queries within a "
            f"second, and how many the database held, are unknown{'' if mysql else ' (log_line_prefix: %m)'}"
        )
    found.notes += [f"{name}: {note}" for note in told.notes()]
    found.notes.append(f"{name}: the log does not contain whether a query succeeded; all count as ok")
    if zones := told.zones - {"UTC", "GMT"}:
        found.notes.append(f"{name}: its times are in {', '.join(sorted(zones)[:3])} and are taken as UTC")
    return found


def _mysql(source: Source, found: Found, told: _Told) -> Iterator[_Query]:
    end, began, duration, sql = None, None, None, list[str]()
    for line_number, line in source.lines(found):
        if line.startswith("# "):
            if duration is not None and sql:
                yield from _whole(end, began, duration, sql)
                end, began, duration, sql = None, None, None, []
            if stamp := _ISO.match(line):
                end = moment(stamp[1])
            elif (rate := _RATE.search(line)) and len(told.rates) < _TOLD_MOST:
                told.rates.add(int(rate[1]))
            elif line.startswith("# Time:"):
                end = None  # of MariaDB: whole seconds of an unknown zone
            elif line.startswith("# Query_time:"):
                match = _QUERY_TIME.match(line)
                if match is None:
                    found.damaged(source.path.name, line_number)
                else:
                    duration = round(float(match[1]) * units.SECOND)
        elif stamp := _BEGAN.match(line):
            began = units.parse_moment(stamp[1], scale=units.SECOND)
        elif duration is not None and len(sql) < _LINES_MAX and not line.lower().startswith("use "):
            sql.append(line)
    if duration is not None and sql:
        yield from _whole(end, began, duration, sql)


def _whole(end: int | None, began: int | None, duration: int, sql: list[str]) -> Iterator[_Query]:
    stamp = began if end is None else end
    if stamp is not None:
        yield _Query(stamp if end is None else stamp - duration, duration, " ".join(sql), stamp)


def _postgresql(source: Source, found: Found, told: _Told) -> Iterator[_Query]:
    stated = Stated()
    for entry in _entries(line for _, line in source.lines(found)):
        query = _of_pg_csv(entry) or _of_pg_text(entry, told.zones) or _of_pg_json(entry)
        if query is not None:
            yield query if query.sql else replace(query, sql=stated.taken(query.session))
        elif stated.add(entry):
            continue
        elif (said := _SET.search(entry)) and said[2] not in _NO_THRESHOLD and len(told.thresholds) < _TOLD_MOST:
            told.thresholds.add(f"{said[1]} = {said[2]}")


def _of_pg_text(line: str, zones: set[str]) -> _Query | None:
    match = _PG.match(line)
    if match is None:
        return None
    stamp, zone, epoch, prefix, took, rest = match.groups()
    session = of_prefix(prefix)
    if epoch:
        return _pg(epoch, None, took, rest, session)
    if len(zones) < 10 and zone[0] not in "+-":
        zones.add(zone)
    return _pg(stamp, zone, took, rest, session)


def _of_pg_csv(line: str) -> _Query | None:
    if not _IN_MS.search(line) or not line[:4].isdigit():
        return None
    row = fields(line, ",") or fields(f'{line}"', ",")  # the rest of a long message was left out
    said = _SAID.match(row[13]) if len(row) > 13 else None
    stamp, _, zone = row[0].rpartition(" ") if row else ("", "", "")
    return _pg(stamp, zone, said[1], said[2], of_row(row)) if said else None


def _of_pg_json(line: str) -> _Query | None:
    values = json_table(line) or {}
    said = _SAID.match(str(values.get("message")))
    stamp, _, zone = str(values.get("timestamp")).rpartition(" ")
    return _pg(stamp, zone, said[1], said[2], of_object(values)) if said else None


def _pg(stamp: str, zone: str | None, took_ms: str, rest: str, session: str) -> _Query | None:
    """Without a zone, the stamp is a Unix time."""
    offset = "" if zone is None else zone if zone[:1] in ("+", "-") else "Z"
    end = moment(stamp + (f"{offset}:00" if len(offset) == 3 else offset))
    if end is None:
        return None
    duration = round(float(took_ms) * units.MILLISECOND)
    statement = _STATEMENT.match(rest)
    if statement is None:
        return _Query(end - duration, duration, "", end, session)
    quoted = statement["quoted"]
    sql = statement["plain"] if quoted is None else re.sub(r"\\[nrt]", " ", quoted).replace('\\"', '"')
    return _Query(end - duration, duration, sql, end)
