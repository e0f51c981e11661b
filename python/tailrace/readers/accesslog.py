"""Access logs of web servers, proxies and load balancers: one server's visits, and its calls to the server behind it.

`accesslog_lines` reads one line; this module turns lines into visits:

    begin ── sent to the upstream ─────── connected ─────── end
                 └ 1, 3, 7 s here: lost connection attempts

A log whose stamps are whole seconds gives requests and no visits, because their order within a second is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from shlex import quote

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from tailrace import units
from tailrace.errors import InputError
from tailrace.readers import (
    accesslog_json,
    accesslog_layout,
    accesslog_lines,
    accesslog_outcomes,
    accesslog_proxies,
    accesslog_rows,
    accesslog_servers,
    attempts,
    logged,
)
from tailrace.readers.accesslog_format import form as log_format
from tailrace.readers.accesslog_haproxy import Balancer
from tailrace.readers.accesslog_layout import Layout
from tailrace.readers.accesslog_lines import Form, Line
from tailrace.readers.naming import Names
from tailrace.readers.source import Found, Source, text_head
from tailrace.readers.stays import Stay, Stays
from tailrace.topology import Call, Server, Topology

NGINX = (
    'log_format timed \'$remote_addr - - [$time_local] "$request" $status $body_bytes_sent msec=$msec '
    'rt=$request_time uct="$upstream_connect_time" urt="$upstream_response_time" ua="$upstream_addr"\';'
)


def sniff(name: str, head: bytes) -> bool:
    text = text_head(head)
    return text is not None and form_of(text) is not None


def form_of(text: str) -> Form | None:
    """The form of the log that begins with this text: that of the first line which has one."""
    with suppress(accesslog_proxies.UnitlessError):
        if (form := accesslog_servers.w3c(text) or accesslog_proxies.caddy(text)) is not None:
            return form
        known = _FORMS if not accesslog_lines.unitless(text) else accesslog_json.FORMS
        return _first_form(text, known)
    return None


def _first_form(text: str, known: Iterable[Form]) -> Form | None:
    for line in text.split("\n")[:_EXAMINED]:
        for form in known:
            if form.parse(line.rstrip("\r")):
                return form
    return None


# Lines of Traefik contain the combined format, so its form comes first.
_FORMS = (*accesslog_proxies.FORMS, *accesslog_servers.FORMS, *accesslog_lines.FORMS, *accesslog_json.FORMS)
_EXAMINED, _EXAMINED_SPARSE = 40, 400
_REQUEST = re.compile(rb'\[pid: |Completed |duration=|\] "|\{"|/(?:19|20)\d\d:|"[A-Z]+ |(?:status\w{0,9}|code)[=:]')
"""What every line has that some form may read."""
_UNASKED = ("400", "408")
"""How a server ends a connection on which no request came, or none that it could read: the time is the client's."""
_MESSAGE = re.compile(r"haproxy\[\d{1,10}\]: (?:\[\w+\] )?(?:Server|Backup|Proxy|[Bb]ackend|Health|Stopping|Pausing) ")
"""What HAProxy writes about its servers into the same file."""
_ASKED = r"^[A-Za-z]\S* "
_FLAGS = {
    "UO": "a circuit breaker refused requests (UO)",
    "UF": "connecting to the server behind failed (UF)",
    "URX": "the retries or connection attempts were used up (URX)",
    "UT": "the server behind did not answer in time (UT)",
    "DC": "the client gave up (DC)",
}


@dataclass
class _Log:
    server: str
    stays: Stays = field(default_factory=Stays)
    names: Names = field(default_factory=Names)
    connects: dict[int, int] = field(default_factory=dict)
    """Visits of upstreams → how long connecting to them took, where it was slow."""
    calls: Counter[str] = field(default_factory=Counter)
    untimed: int = 0
    unasked: int = 0
    whole: bool = True
    """All stamps are whole seconds."""
    fine: bool = False
    """Some stamps are no whole milliseconds."""
    balancer: Balancer = field(default_factory=Balancer)
    flags: Counter[str] = field(default_factory=Counter)


def together(source: Source) -> str:
    """Parts of one log, which was rotated: they have a common NAME, or names that differ in numbers and packing."""
    return source.place or re.sub(r"(?:[.-]\d+)*(?:\.gz|\.zst)?$", "", source.path.name)


def read(sources: Sequence[Source]) -> Found:
    found, source = Found(), sources[0]
    log, form = _Log(source.place or "server"), None
    starts = []
    for part in sources:
        starts.append(len(log.stays))
        form = _read(part, found, log)
    name = source.path.name
    found.lose("lines without a duration", log.untimed)
    found.lose("connections on which no whole request came", log.unasked)
    if not len(log.stays) or form is None:
        raise _without_durations(source, log)
    drops = log.stays.lost_attempts(log.connects)
    clock = log.stays.correct_clock(starts) if form.zoneless else None
    log.stays.into(found, name, visits=not (log.whole or (clock is not None and clock.disordered)))
    found.missing = logged.by_counters(text_head(source.head()) or "") or logged.by_durations(*log.stays.parts())
    log.balancer.samples(log.server, found, source)
    found.attempts = "indirectly, of the servers behind" if log.calls else ""
    found.topology = Topology(
        servers=(
            Server(name=log.server, protocol="http", software=form.software or None),
            *(Server(name=other) for other in sorted(log.calls)),
        ),
        calls=tuple(Call(caller=log.server, callee=other) for other in sorted(log.calls)),
    )
    said = [*_notes(log, form, source, drops), *(clock.notes if clock is not None else ())]
    found.notes += [f"{name}: {note}" for note in said]
    return found


def _read(source: Source, found: Found, log: _Log) -> Form:
    """The lines of one part; returns their form."""
    form = _form(source)
    # What reads the lines of a W3C log remembers their columns, so another one reads the examples.
    layouts = _layouts(_form(source), source)
    plan = accesslog_layout.plan(layouts)
    for first, block in source.byte_blocks(found):
        if form.sparse:  # Other lines of a program are no damage, so no note needs their numbers.
            block = b"\n".join(line for line in block.split(b"\n") if _REQUEST.search(line))
        for part in accesslog_rows.parts(block, plan):
            if isinstance(part, tuple):
                lines: Iterable[tuple[int, str]] = (part,)
            elif form.steady() and _add_all(log, part, form, layouts[0]):
                continue
            else:
                lines = accesslog_rows.singly(part, block)
            for number, text in lines:
                _read_line(log, found, source, form, first + number, text)
                if log.stays.full:
                    return form
    return form


def _form(source: Source) -> Form:
    form = log_format(source.log_format) if source.log_format else form_of(text_head(source.head()) or "")
    if form is None:
        raise InputError(
            source.path, "Tailrace does not know this format of an access log", "docs/reference/readers.md lists them"
        )
    return form


def _layouts(form: Form, source: Source) -> list[Layout]:
    if form.layout is None:
        return []
    lines = (text_head(source.head()) or "").split("\n")[: _EXAMINED_SPARSE if form.sparse else _EXAMINED]
    layouts = accesslog_layout.of_lines((line.rstrip("\r") for line in lines if form.parse(line)), form.layout)
    # The columns of one table mean the same in all rows.
    return [one for one in layouts if (one.software, one.scales) == (layouts[0].software, layouts[0].scales)]


def _read_line(log: _Log, found: Found, source: Source, form: Form, number: int, text: str) -> None:
    line = form.parse(text) or (None if source.log_format else _in_other_form(text))
    if line is None:
        if not (form.sparse or text.startswith("#") or _MESSAGE.search(text)):
            found.damaged(source.path.name, number)
    elif line.duration_ns is None:
        log.untimed += 1
    elif line.method in ("", "-") and line.status in _UNASKED:
        log.unasked += 1
    else:
        _add(log, line, line.duration_ns)


def _in_other_form(text: str) -> Line | None:
    """A line of another form, such as those of HAProxy's frontends for HTTP and for TCP in one file."""
    return next((line for form in _FORMS if (line := form.parse(text)) is not None), None)


def _add(log: _Log, line: Line, duration: int) -> None:
    """The visit of a line, and those of the servers that it called."""
    begin = line.stamp_ns - duration if line.at_end else line.stamp_ns
    end = begin + duration
    log.whole = log.whole and line.stamp_ns % units.SECOND == 0
    log.fine = log.fine or line.stamp_ns % units.MILLISECOND != 0
    interaction = log.names.of(line.method, line.target) if line.method else None
    took = sum(up.duration_ns for up in line.upstreams) or None
    stay = Stay(
        log.server, begin, begin, end, line.status, interaction, entry=True, bytes_out=line.bytes_out,
        downstream_ns=took,
    )  # fmt: skip
    visit = log.stays.add(stay)
    if visit is None:
        return
    log.balancer.add(line, begin)
    log.flags.update(flag for flag in line.flags.split(",") if flag in _FLAGS)
    sent = begin + line.before_ns
    for up in line.upstreams:
        name = up.server if up.server != log.server else f"{up.server} (upstream)"
        called = log.stays.add(
            Stay(name, sent, sent, sent + up.duration_ns, up.status, interaction, caller=log.server, parent=visit)
        )
        if called is not None:
            log.calls[name] += 1
            # HAProxy waits between its attempts, and its time to connect has all of them.
            if up.connect_ns is not None and up.connect_ns >= attempts.LONG_NS and not line.retries:
                log.connects[called] = min(up.connect_ns, up.duration_ns)
        sent += up.duration_ns


def _add_all(log: _Log, part: pl.DataFrame, form: Form, layout: Layout) -> bool:
    """The visits of many lines, as `_add` makes them; False: one of them needs it."""
    try:
        software = accesslog_outcomes.OF[layout.software]
        at_end = form.at_end and not software.at_begin
        rows = accesslog_rows.of(part, software, at_end=at_end, scales=layout.scales)
    except accesslog_rows.UnusualError:
        return False
    if (~rows.asked.str.contains(_ASKED) & rows.ended.status.is_in(_UNASKED)).any():
        return False
    ended, none = rows.ended, accesslog_rows.NONE
    interaction = log.names.of_all(rows.asked)
    address = ended.address.replace(log.server, f"{log.server} (upstream)")
    server, nobody = (pl.Series([text], dtype=pl.String).new_from_index(0, len(address)) for text in (log.server, None))
    called = ended.took >= 0
    # Each call follows the visit that made it.
    own = np.arange(len(called)) + np.cumsum(called) - called
    calls, sent, first = own[called] + 1, (rows.begin + ended.before)[called], len(log.stays)
    order = np.argsort(np.concatenate([own, calls]))

    def numbers(visits: ArrayLike, of_calls: ArrayLike) -> NDArray[np.int64]:
        both = np.broadcast_to(visits, own.shape), np.broadcast_to(of_calls, calls.shape)
        return np.concatenate(both)[order].astype(np.int64)

    def texts(visits: pl.Series, of_calls: pl.Series) -> pl.Series:
        return pl.concat([visits, of_calls.filter(pl.Series(called))])[order]

    added = log.stays.add_all(
        {
            "sent": numbers(rows.begin, sent),
            "arrival": numbers(rows.begin, sent),
            "departure": numbers(rows.begin + rows.duration, sent + ended.took[called]),
            "drops": numbers(0, 0),
            "parent": numbers(none, first + own[called]),
            "bytes_out": numbers(rows.bytes_out, none),
            "downstream_ns": numbers(np.where(ended.took > 0, ended.took, none), none),
            "entry": numbers(1, 0),
        },
        {
            "server": texts(server, address),
            "interaction": texts(interaction, interaction),
            "caller": texts(nobody, server),
            "status": texts(ended.status, ended.answer),
        },
    )
    if added is None:
        return False
    once = np.ones(len(called), dtype=bool) if ended.retries is None else ended.retries == 0
    slow = (ended.connect[called] >= attempts.LONG_NS) & once[called]
    waits = np.minimum(ended.connect, ended.took)[called][slow]
    log.connects.update(zip((first + calls[slow]).tolist(), waits.tolist(), strict=True))
    log.calls.update(address.drop_nulls().to_list())
    if ended.flags is not None:
        for flags, count in ended.flags.to_frame("flags").group_by("flags", maintain_order=True).len().iter_rows():
            for flag in flags.split(","):
                log.flags[flag] += count if flag in _FLAGS else 0
    log.untimed += rows.untimed
    log.whole = log.whole and not (rows.stamp % units.SECOND).any()
    log.fine = log.fine or bool((rows.stamp % units.MILLISECOND).any())
    log.balancer.add_all(ended, rows.begin)
    return True


def _without_durations(source: Source, log: _Log) -> InputError:
    file = quote(str(source.path))
    if not log.untimed:
        advice = "--log-format must be the format of its lines" if source.log_format else "docs/reference/readers.md"
        return InputError(source.path, "no line of this access log could be read", advice)
    return InputError(
        source.path,
        "this is an access log without durations, so it does not show which requests were slow",
        "log $request_time (nginx), or record packets; if a field of its lines is the duration, pass --log-format",
        commands=(NGINX, f"tailrace diagnose web={file}"),
    )


def _notes(log: _Log, form: Form, source: Source, drops: int) -> list[str]:
    said = []
    if source.place is None:
        said.append("its server is called server; pass NAME=FILE")
    if log.whole:
        said.append(
            "its stamps are whole seconds, so response times are known and the order of requests within a second, "
            "queues in steps of 50 ms, and what a server did meanwhile are unknown (nginx: log $msec)"
        )
    elif form.at_end:
        good = "1 µs" if log.fine else "1 ms"
        said.append(f"its stamps are good to {good}; a request begins at its stamp less its duration")
    if form.zoneless:
        said.append("its times have no time zone and are taken as UTC")
    if drops:
        said.append(attempts.note("connecting to a server behind took", drops))
    said += [f"{_FLAGS[flag]}: {count} times" for flag, count in log.flags.most_common() if count]
    said += log.balancer.notes()
    said.append("connection attempts that were lost before this server are not in its log; a packet capture shows them")
    return said
