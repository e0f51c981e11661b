"""`--log-format`: the log format of nginx (`$status`) or Apache (`%>s`) as its configuration has it.

Each field becomes a group of an expression that ends at the character after it, so that matching takes one pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tailrace import units
from tailrace.errors import UsageError
from tailrace.readers import accesslog_dates, accesslog_layout, accesslog_lines
from tailrace.readers.accesslog_dates import Date
from tailrace.readers.accesslog_layout import CALLED, Layout
from tailrace.readers.accesslog_lines import Form, Line

_NGINX = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_APACHE = re.compile(r"%\{(?:[a-z]{1,3}|time),[^}]*\}|%[<>!,\d]*(?:\{([^}]*)\})?(?:\^[A-Za-z]{1,3}|[A-Za-z]|%)")
_UNDERTOW = re.compile(r"%\{(?:i|o|c|s|r|q|b|time),")
"""Undertow's fields with a name. Its lines are stamped at the end, and its `%D` is in milliseconds."""
_JETTY = re.compile(r"%\{(?:client|server|local|remote)\}[ap]|\|[^}]*\}t")
"""Jetty's fields; its lines are stamped at the begin."""
_GUNICORN = re.compile(r"%\(([^)\s]{1,80})\)s")
"""Gunicorn's fields: `%(D)s`. They have Apache's letters, but for these; its line is stamped at the end."""
_OF_GUNICORN = {**{letter: f"%{letter}" for letter in "hlutrsbfaDTmUqHB"}, "M": "%{ms}T", "L": "%{decimal}T"}
_EXAMPLE = "like '$remote_addr [$time_local] \"$request\" $status $request_time' or '%h %l %u %t \"%r\" %>s %b %D'"
_DECIMAL = "%{decimal}T"
"""Seconds with a fraction: gunicorn's `L`."""
_DURATIONS = {
    **{"%D": 1_000, "%{ns}T": 1, "%{us}T": 1_000, "%{ms}T": units.MILLISECOND},
    **dict.fromkeys(("%{s}T", "%T", "%{fracsec}T"), units.SECOND),
}
_MOMENTS = {"sec": units.SECOND, "msec": units.MILLISECOND, "usec": units.MICROSECOND}
_FRACTIONS = {"msec_frac": units.MILLISECOND, "usec_frac": units.MICROSECOND}
_WIDTHS = {"msec_frac": "3", "usec_frac": "6", "sec": "9,11", "msec": "12,14", "usec": "15,17"}
"""Of these fields, so that another field may follow at once."""
_STAMPS = {f"%{{{mark}{unit}}}t": scale for unit, scale in _MOMENTS.items() for mark in ("", "begin:", "end:")}
_ASKED = r"(\S{1,40} \S* HTTP/\d(?:\.\d)?|-|\S{1,40} \S*)"
"""A request without quotes around it, which Spring Boot's documentation shows: `%t %a %r %s (%D microseconds)`."""
_STARTS = {
    **dict.fromkeys(("%q", "is_args"), "?"),
    **dict.fromkeys(("%U", "request_uri", "uri", "document_uri"), "/"),
}
"""How these begin where they are not empty, so that another field may stand right before them: `%U%q`."""
_SHAPES = {"is_args": r"(\??)", "pipe": "([.p])", "%X": "([X+-])", "scheme": "([a-z]{1,9})"}
"""Fields that end by themselves, so that another may follow at once: `$is_args$args`."""
_OF_APACHE = {
    **dict.fromkeys(_DURATIONS, "duration"),
    **dict.fromkeys(_STAMPS, "stamp"),
    _DECIMAL: "duration",
    "%t": "clock",
    "%s": "status",
    "%r": "asked",
    "%m": "method",
    "%U": "uri",
    "%b": "bytes",
    "%B": "bytes",
    "%O": "bytes",
}


def form(text: str) -> Form:
    """The form of the lines that this format makes. Raises UsageError if it lacks a time or a duration."""
    gunicorn = _GUNICORN.search(text) is not None
    text = _GUNICORN.sub(lambda found: _OF_GUNICORN.get(found[1], f"%{{{found[1]}}}x"), text)
    apache = "$" not in text
    undertow = apache and _UNDERTOW.search(text) is not None
    text = re.sub(r"%D\b", "%{ms}T", text) if undertow else text
    token = _APACHE if apache else _NGINX
    dates = _dates(text) if apache else {}
    fields, expression = _compiled(text, token, dates)
    parts = [part for date in dates.values() for part in date.names]
    if apache:
        fields = [re.sub(r"^%[<>!,\d]*", "%", field) for field in fields]
        clock = not {"%t", *_STAMPS}.isdisjoint(fields) or accesslog_dates.whole(parts)
        timed = clock and any(field in (*_DURATIONS, _DECIMAL) for field in fields)
    else:
        timed = "request_time" in fields and not {"msec", "time_local", "time_iso8601"}.isdisjoint(fields)
    if not timed:
        said = f"--log-format {text}: it lacks a time or the duration of a request"
        raise UsageError(said, advice=f"log both, {_EXAMPLE}")
    in_java = any("%{%" not in field for field in dates) and not _JETTY.search(text)
    fields = _of_one_moment(fields)
    at_end = not apache or gunicorn or undertow or any(field.startswith("%{end:") for field in fields)
    at_end = at_end or (in_java and not any(field.startswith("%{begin:") for field in fields))

    def parse(line: str) -> Line | None:
        match = expression.match(line)
        if match is None:
            return None
        values = {field: match[i] for i, field in enumerate(fields, 1)}
        return _apache(values, dates, at_end=at_end) if apache else accesslog_lines.of_nginx(values)

    layout = None if dates or undertow else _layout(text, token, fields)
    zoneless = bool(dates) and not accesslog_dates.zoned(parts) and "|" not in text
    return Form(parse, at_end=at_end, zoneless=zoneless, layout=lambda line: layout)


def _of_one_moment(fields: list[str]) -> list[str]:
    """The fields, of which those of the end have no meaning (`%{}x`) where others have the begin."""
    stamps = [field for field in fields if field.endswith("}t") and _plain(field) in (*_MOMENTS, *_FRACTIONS)]
    if not any(field.startswith("%{begin:") and _plain(field) in _MOMENTS for field in stamps):
        return fields
    return ["%{}x" if field in stamps and not field.startswith("%{begin:") else field for field in fields]


def _dates(text: str) -> dict[str, Date]:
    """The fields with a date of a form of their own. Raises UsageError if one is not known."""
    found = {}
    for match in _APACHE.finditer(text):
        field = re.sub(r"^%[<>!,\d]*", "%", match[0])
        if field.startswith("%{time,"):
            form = field[len("%{time,") : -1]
        elif not (field.startswith("%{") and field.endswith("}t")) or _plain(field) in (*_MOMENTS, *_FRACTIONS):
            continue
        else:
            form = _plain(field).partition("|")[0]
        date = accesslog_dates.of_strftime(form) if "%" in form else accesslog_dates.of_java(form)
        if date is None:
            raise UsageError(f"--log-format: Tailrace does not know the date {match[0]}", advice=_EXAMPLE)
        found[field] = date
    begun = {name for field, date in found.items() if field.startswith("%{begin:") for name in date.names}
    if not accesslog_dates.whole(begun):
        return found
    return {
        field: date if field.startswith("%{begin:") or begun.isdisjoint(date.names) else replace(date, names=())
        for field, date in found.items()
    }


def _plain(field: str) -> str:
    """What stands in the braces of `%{…}t`."""
    return field[2:-2].removeprefix("begin:").removeprefix("end:")


def _compiled(text: str, token: re.Pattern[str], dates: Mapping[str, Date]) -> tuple[list[str], re.Pattern[str]]:
    fields, pattern, at = list[str](), "", 0
    tokens = list(token.finditer(text))
    for i, match in enumerate(tokens):
        pattern += re.escape(text[at : match.start()])
        at = match.end()
        after = text[at : at + 1]
        field = match[0] if token is _APACHE else match[1] or match[2]
        fields.append(field)
        plain = re.sub(r"^%[<>!,\d]*", "%", field)
        if plain in dates:
            # Jetty writes brackets around it.
            pattern += rf"\[?({dates[plain].expression})\]?"
        elif token is _APACHE and plain.endswith("}t") and _plain(plain) in _WIDTHS:
            pattern += rf"(\d{{{_WIDTHS[_plain(plain)]}}})"
        elif i + 1 < len(tokens) and tokens[i + 1].start() == at:
            pattern += _joined(text, tokens[i:], plain)
        elif plain in ("%r", "request") and after == " ":
            pattern += _ASKED
        else:
            pattern += r"\[([^\]]*)\]" if match[0] == "%t" and token is _APACHE else _until(after)
    return fields, re.compile(pattern + re.escape(text[at:]))


def _joined(text: str, tokens: list[re.Match[str]], plain: str) -> str:
    """The first of these fields, which another one follows at once. Raises UsageError if its end does not show."""
    if plain in _SHAPES:
        return _SHAPES[plain]
    start = _starts(tokens[1])
    if not start:
        raise UsageError(f"--log-format {text}: {tokens[0][0]} and the field after it have nothing between them")
    return _until(_end_of_run(text, tokens), start)


def _name(token: re.Match[str]) -> str:
    """The field without nginx' sign and braces, and without what Apache allows before its letter."""
    return re.sub(r"^%[<>!,\d]*", "%", token[0]) if token[0][0] == "%" else token[0].strip("${}")


def _starts(token: re.Match[str]) -> str:
    """What the field begins with; empty if anything."""
    return _STARTS.get(_name(token), "")


def _end_of_run(text: str, tokens: list[re.Match[str]]) -> str:
    """The character after the last of the fields that follow one another at once; empty at the end of the format."""
    at = tokens[0].end()
    for token in tokens[1:]:
        if token.start() > at:
            break
        at = token.end()
    return text[at : at + 1]


def _layout(text: str, token: re.Pattern[str], fields: list[str]) -> Layout | None:
    """The same for the engine; None if it has fields that only the slow reader can join."""
    columns = [accesslog_layout.OF_NGINX.get(CALLED.get(name, name)) for name in fields]
    scales: dict[str, int] = {}
    if token is _APACHE:
        columns = [_OF_APACHE.get(name) for name in fields]
        scales = {_OF_APACHE[name]: scale for name, scale in (_DURATIONS | _STAMPS).items() if name in fields}
        if any(name.endswith("t") and column is None for name, column in zip(fields, columns, strict=True)):
            return None
    used = [column for column in columns if column]
    if any(
        match[0] in ("%r", "$request") and text[match.end() : match.end() + 1] == " " for match in token.finditer(text)
    ):
        return None
    both = [{"clock", "stamp"}, {"asked", "method"}, {"asked", "uri"}] if token is _APACHE else []
    if len(set(used)) < len(used) or any(pair <= set(used) for pair in both):
        return None
    layout, at, tokens = Layout(whole=False, scales=scales), 0, list(token.finditer(text))
    for i, (match, column) in enumerate(zip(tokens, columns, strict=True)):
        literal, at = text[at : match.start()], match.end()
        bracket = "[" if match[0] == "%t" else ""
        after, start = "]" if bracket else text[at : at + 1], ""
        if i + 1 < len(tokens) and tokens[i + 1].start() == at:
            after, start = _end_of_run(text, tokens[i:]), _starts(tokens[i + 1])
            if _name(match) in _SHAPES or not start:
                return None
        layout.text(literal + bracket)
        layout.value(column, ('"\\' if after == '"' else after) + start)
        layout.text("]" if bracket else "")
    layout.text(text[at:])
    return layout


def _until(after: str, start: str = "") -> str:
    """A field, up to the character after it, or to the one that begins the next field; within quotes, a quote may be
    escaped."""
    if after == '"':
        return rf'((?:[^"\\{re.escape(start)}]|\\.)*)'
    return f"([^{re.escape(after + start)}]*)" if after + start else "(.*)"


def _apache(values: Mapping[str, str], dates: Mapping[str, Date], *, at_end: bool) -> Line | None:
    moment = _moment(values, dates)
    status = accesslog_lines.status_of(values.get("%s", ""))
    if moment is None or status is None:
        return None
    duration = None
    for field, scale in (_DURATIONS | {_DECIMAL: units.SECOND}).items():
        took = units.parse_number(values[field]) if field in values and len(values[field]) < 24 else None
        if took is not None and 0 <= took < 10**16:
            duration = int(took * scale)
            break
    method, target = accesslog_lines.asked(values.get("%r", ""))
    sent = values.get("%B", values.get("%b", values.get("%O", "")))
    return Line(
        stamp_ns=moment,
        at_end=at_end,
        duration_ns=duration,
        method=method or values.get("%m", ""),
        target=target or values.get("%U", ""),
        status=status,
        bytes_out=accesslog_lines.size_of(sent),
    )


def _moment(values: Mapping[str, str], dates: Mapping[str, Date]) -> int | None:
    """`%t`, a date of another form, or a Unix time in one of three units; a fraction of the second may stand in a
    field of its own."""
    fraction, whole, parts = 0, None, dict[str, str]()
    for field, value in values.items():
        unit = _plain(field) if field.startswith("%{") else ""
        digits = value.isascii() and value.isdigit() and len(value) < 18
        if field in dates:
            parts |= dates[field].parts(value)
        elif field == "%t":
            clock, _, zone = value.partition(" ")
            whole = accesslog_lines.local_moment(clock, zone)
        elif field.endswith("t") and unit in _MOMENTS and digits:
            whole = int(value) * _MOMENTS[unit]
        elif field.endswith("t") and unit in _FRACTIONS and digits:
            fraction = int(value) * _FRACTIONS[unit]
    if whole is not None and whole % units.SECOND:
        fraction = 0
    if accesslog_dates.whole(parts):
        whole = accesslog_dates.moment(parts)
    return None if whole is None else whole + fraction % units.SECOND
