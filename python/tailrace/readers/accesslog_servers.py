"""Lines of other servers: IIS and CloudFront (W3C), uWSGI, Rails, PHP-FPM, Reactor Netty (Spring WebFlux).

```text
#Fields: date time cs-method cs-uri-stem sc-status time-taken                                       IIS: milliseconds
2026-11-20 16:49:00 GET /x 200 1203                                                                 CloudFront: seconds
[pid: 22|app: 0|req: 1/2] 10.0.0.9 () {…} [Fri Nov 20 16:49:00 2026] GET /x => generated 5 bytes in 12 msecs …
I, [2026-11-20T16:49:00.111000 #22]  INFO -- : [id] Started GET "/x" for 10.0.0.9 at 2026-11-20 16:49:00 +0000   Rails
I, [2026-11-20T16:49:00.123456 #22]  INFO -- : [id] Completed 200 OK in 12ms (Views: 1.0ms | ActiveRecord: 2.0ms)
method=GET path=/x format=html status=200 duration=12.34 view=1.0 db=2.0                            lograge
10.0.0.9 -  20/Nov/2026:16:49:00 +0000 "GET /index.php" 200 /var/www/index.php 12.345 2048 0.00%    PHP-FPM
2026-11-20T16:49:00.123Z  INFO 7 --- [epoll-2] reactor.netty.http.server.AccessLog      :                Reactor Netty,
    10.0.0.9 - - [20/Nov/2026:16:48:59 +0000] "GET /x HTTP/1.1" 200 5 12                                in the same line
```
The line of uWSGI and PHP-FPM is stamped at the begin of the request, the others at its end.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from tailrace import units
from tailrace.readers import accesslog_cuts, accesslog_programs
from tailrace.readers.accesslog_layout import Layout
from tailrace.readers.accesslog_lines import Form, Line, local_moment, size_of, status_of
from tailrace.readers.elements import moment, number

_STAMP = r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3,6})"
_UWSGI = re.compile(
    r"\[pid: \d+\|app: \S{1,20}\|req: \S{1,40}\] .{0,400}?"
    r"\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] "
    r"([A-Z]{3,20}) (\S{0,4000}) => generated (\d{1,18}) bytes in (\d{1,9}) (msecs|micros)(?: \([^)]{0,40} (\d{3})\))?"
)
_RAILS = re.compile(
    rf"{_STAMP}\S{{0,10}}.{{0,300}}?(?:Started ([A-Z]{{3,20}}) \"([^\"]{{0,4000}})\" )?"
    r"Completed (\d{3}) .{0,60}? in (\d{1,9}(?:\.\d{1,9})?)ms"
)
"""The engine puts the name before the word (crates/core/src/lines/halves.rs)."""
_LOGRAGE = re.compile(
    _STAMP + r"(?=.{0,300}?\bmethod=([A-Z]{3,20})\b)(?=.{0,3000}?\bpath=(\S{1,2000}))"
    r"(?=.{0,3000}?\bstatus=(\d{3})\b).{0,5000}?\bduration=(\d{1,9}(?:\.\d{1,9})?)"
)
_PHP = re.compile(
    r"^\S{1,60} - \S{0,60} ?(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d) ([+-]\d{4}) \"([A-Z]{3,20}) ([^\"]{0,4000})\" "
    r"(\d{3}) (?:\S{1,400} )?(\d{1,9}\.\d{3,6})(?: |$)"
)


_NETTY = re.compile(
    r"reactor\.netty\.http\.server\.AccessLog.{0,400}? - \S{1,60} "
    r"\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d) ([+-]\d{4})\] "
    r"\"([A-Z]{3,20}) ([^\"]{0,4000}?)(?: HTTP/[\d.]{1,3})?\" (\d{3}) (\d{1,18}|-) (\d{1,9})$"
)
_WITH_ZONE = re.compile(rf"{_STAMP}(Z|[+-]\d\d:?\d\d)")


def w3c(head: str) -> Form | None:
    """The form of a log with a line of `#Fields`; None for any other, or one without time and duration."""
    named = next((line for line in head.split("\n")[:20] if line.startswith("#Fields:")), None)
    if named is None or not {"date", "time", "time-taken"} <= set(named.split()):
        return None
    columns = first = named.split()[1:]

    def parse(line: str) -> Line | None:
        nonlocal columns
        if line.startswith("#Fields:"):
            columns = line.split()[1:]
            return None
        row = line.split("\t") if "\t" in line else line.split(" ")
        values = dict(zip(columns, row, strict=True)) if len(row) == len(columns) else {}
        took = number(values.get("time-taken"))
        stamp = _utc(f"{values.get('date')} {values.get('time')}", "%Y-%m-%d %H:%M:%S")
        if stamp is None or took is None or not 0 <= took < 10**9:
            return None
        scale = units.SECOND if "x-edge-location" in values else units.MILLISECOND
        target, query = values.get("cs-uri-stem", ""), values.get("cs-uri-query", "-")
        status = status_of(values.get("sc-status", "")) or "abandoned"
        method = values.get("cs-method", "")
        target = target if query in ("-", "") else f"{target}?{query}"
        return Line(stamp, True, round(took * scale), method, target, status, size_of(values.get("sc-bytes", "")))

    def layout(line: str) -> Layout | None:
        return accesslog_cuts.w3c(first, "\t" if "\t" in line else " ")

    return Form(parse, at_end=True, layout=layout, steady=lambda: columns == first)


def _utc(text: str, form: str) -> int | None:
    try:
        return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()) * units.SECOND
    except ValueError:
        return None


def _moment_of_c(text: str) -> int | None:
    """The moment of `Fri Nov 20 16:49:00 2026`, in UTC."""
    return _utc(text, "%a %b %d %H:%M:%S %Y")


def _uwsgi(line: str) -> Line | None:
    match = _UWSGI.search(line)
    begin = _moment_of_c(match[1]) if match else None
    if match is None or begin is None:
        return None
    duration = int(match[5]) * (units.MILLISECOND if match[6] == "msecs" else units.MICROSECOND)
    status = status_of(match[7] or "") or "unknown"
    return Line(begin, False, duration, match[2], match[3], status, size_of(match[4]))


def _rails(line: str) -> Line | None:
    match = _RAILS.search(line)
    if match:
        end, took, status = moment(match[1]), number(match[5]), status_of(match[4])
        method, target = match[2] or "", match[3] or ""
    elif match := _LOGRAGE.search(line):
        end, took, status = moment(match[1]), number(match[5]), status_of(match[4])
        method, target = match[2], match[3]
    else:
        return None
    if end is None or took is None or status is None:
        return None
    return Line(end, True, round(took * units.MILLISECOND), method, target, status, None)


def _php(line: str) -> Line | None:
    match = _PHP.match(line)
    begin = local_moment(match[1], match[2]) if match else None
    took = number(match[6]) if match else None
    if match is None or begin is None or took is None:
        return None
    status = status_of(match[5]) or "unknown"
    return Line(begin, False, round(took * units.MILLISECOND), match[3], match[4], status, None)


def _netty(line: str) -> Line | None:
    """The line is written when the answer has ended, and the stamp in brackets, in whole seconds, is the begin. So the
    logger's own stamp is better, if it has an offset."""
    match = _NETTY.search(line)
    begin = local_moment(match[1], match[2]) if match else None
    if match is None or begin is None:
        return None
    stamp = _WITH_ZONE.search(line, 0, match.start())
    end = moment(stamp[0].replace(",", ".")) if stamp else None
    duration, status = int(match[7]) * units.MILLISECOND, status_of(match[5]) or "unknown"
    when, at_end = (begin, False) if end is None else (end, True)
    return Line(when, at_end, duration, match[3], match[4], status, size_of(match[6]))


FORMS = (
    Form(_netty, at_end=True, sparse=True),
    Form(_uwsgi, at_end=False, zoneless=True, sparse=True, layout=accesslog_programs.uwsgi, software="uwsgi"),
    Form(_rails, at_end=True, zoneless=True, sparse=True, layout=accesslog_programs.rails, halves=True),
    Form(_php, at_end=False, layout=accesslog_programs.php, software="php-fpm"),
)
