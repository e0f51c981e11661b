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
from numpy.typing import NDArray

from tailrace import _core, units
from tailrace.dataset import INFERRED
from tailrace.errors import InputError
from tailrace.readers import (
    accesslog_json,
    accesslog_layout,
    accesslog_lines,
    accesslog_outcomes,
    accesslog_proxies,
    accesslog_rows,
    accesslog_servers,
    accesslog_taken,
    logged,
)
from tailrace.readers.accesslog_format import form as log_format
from tailrace.readers.accesslog_haproxy import Balancer
from tailrace.readers.accesslog_layout import Layout
from tailrace.readers.accesslog_lines import Form, Line
from tailrace.readers.accesslog_rows import NONE, Cut, Piece, Rows
from tailrace.readers.accesslog_taken import UNASKED, Taken, Taker
from tailrace.readers.accesslog_texts import Ints, Texts, UnusualError
from tailrace.readers.naming import Names
from tailrace.readers.source import Found, Source, text_head
from tailrace.readers.spills import Scratch
from tailrace.readers.stays import Many, Stay, Stays
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
_BLOCK = 1 << 20
"""Bytes that are read at a time: caches of processors hold them with their columns."""
_REQUEST = re.compile(rb'\[pid: |Completed |duration=|\] "|\{"|/(?:19|20)\d\d:|"[A-Z]+ |(?:status\w{0,9}|code)[=:]')
"""What every line has that some form may read."""
_MESSAGE = re.compile(r"haproxy\[\d{1,10}\]: (?:\[\w+\] )?(?:Server|Backup|Proxy|[Bb]ackend|Health|Stopping|Pausing) ")
"""What HAProxy writes about its servers into the same file."""
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
    stays: Stays
    names: Names = field(default_factory=Names)
    calls: Counter[str] = field(default_factory=Counter)
    untimed: int = 0
    unasked: int = 0
    whole: bool = True
    """All stamps are whole seconds."""
    fine: bool = False
    """Some stamps are no whole milliseconds."""
    at_end: bool = False
    """Some stamps are those of the end of a request."""
    nameless: int = 0
    """Requests of which the name is in another line, which was not found."""
    balancer: Balancer = field(default_factory=Balancer)
    flags: Counter[str] = field(default_factory=Counter)

    def flag(self, flags: str, count: int = 1) -> None:
        """Count the flags of lines that have the same ones."""
        for flag in flags.split(","):
            self.flags[flag] += count if flag in _FLAGS else 0

    def count(self, taken: Taken) -> None:
        """Count what the engine took."""
        self.calls += taken.calls
        for flags, count in taken.flags.items():
            self.flag(flags, count)
        self.untimed += taken.untimed
        self.whole = self.whole and taken.whole
        self.fine = self.fine or taken.fine


def together(source: Source) -> str:
    """Parts of one log, which was rotated: they have a common NAME, or names that differ in numbers and packing."""
    return source.place or re.sub(r"(?:[.-]\d+)*(?:\.gz|\.zst)?$", "", source.path.name)


def read(sources: Sequence[Source]) -> Found:
    found, source = Found(), sources[0]
    log, form = _Log(source.place or "server", Stays(Scratch(source.scratch))), None
    for part in sources:
        log.stays.begin_file()
        form = _read(part, found, log)
    name = source.path.name
    found.lose("lines without a duration", log.untimed)
    found.lose("connections on which no whole request came", log.unasked)
    if not len(log.stays) or form is None:
        raise _without_durations(source, log)
    clock = log.stays.correct_clock() if form.zoneless else None
    log.stays.into(found, name, visits=not (log.whole or (clock is not None and clock.disordered)))
    found.missing = logged.by_counters(text_head(source.head()) or "") or logged.by_durations(*log.stays.parts())
    log.balancer.samples(log.server, found, source)
    found.attempts = f"{INFERRED}, of the servers behind" if log.calls else ""
    found.topology = Topology(
        servers=(
            Server(name=log.server, protocol="http", software=form.software or None),
            *(Server(name=other) for other in sorted(log.calls)),
        ),
        calls=tuple(Call(caller=log.server, callee=other) for other in sorted(log.calls)),
    )
    said = [*_notes(log, form, source), *(clock.notes if clock is not None else ())]
    found.notes += [f"{name}: {note}" for note in said]
    return found


def _read(source: Source, found: Found, log: _Log) -> Form:
    """The lines of one part; returns their form."""
    form = _form(source)
    # What reads the lines of a W3C log remembers their columns, so another one reads the examples.
    layouts, halves = _layouts(_form(source), source), _core.LineHalves()
    cutter = accesslog_rows.Cutter(accesslog_layout.plan(layouts), log.names) if layouts else None
    log.stays.local = log.stays.local or form.zoneless
    taker = _taker(log, form, layouts)
    first = 1
    for data, end in source.ends(found, _BLOCK):
        if form.halves:
            data = halves.join(data[:end])
            end = len(data)
        # Other lines of a program are no damage.
        block = accesslog_rows.Block(data, end, _REQUEST if form.sparse else None)
        for part in accesslog_rows.parts(block, cutter):
            if isinstance(part, tuple):
                lines: Iterable[tuple[int, str]] = (part,)
            elif form.steady() and _add_all(log, part, form, layouts[0], taker):
                continue
            else:
                lines = accesslog_rows.singly(part, block)
            for number, text in lines:
                _read_line(log, found, source, form, first + number, text)
        first += block.count
    log.nameless += halves.counts[1]
    return form


def _taker(log: _Log, form: Form, layouts: Sequence[Layout]) -> Taker | None:
    """What takes the lines of these layouts in the engine."""
    if not layouts or layouts[0].software not in accesslog_taken.OF:
        return None
    return Taker(
        log.server, layouts[0], at_end=form.at_end, local=log.stays.local, unasked=() if form.halves else UNASKED
    )


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
    head = text_head(source.head()) or ""
    if form.halves:
        head = _core.LineHalves().join(head.encode()).decode(errors="replace")
    lines = head.split("\n")[: _EXAMINED_SPARSE if form.sparse else _EXAMINED]
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
    elif not form.halves and line.method in ("", "-") and line.status in UNASKED:
        log.unasked += 1
    else:
        found.lose(f"calls of a request beyond its first {accesslog_lines.UPSTREAMS_MAX}", line.further)
        _add(log, line, line.duration_ns)


def _in_other_form(text: str) -> Line | None:
    """A line of another form, such as those of HAProxy's frontends for HTTP and for TCP in one file."""
    return next((line for form in _FORMS if (line := form.parse(text)) is not None), None)


def _add(log: _Log, line: Line, duration: int) -> None:
    """The visit of a line, and those of the servers that it called."""
    begin = line.stamp_ns - duration if line.at_end else line.stamp_ns
    end = begin + duration
    log.at_end = log.at_end or line.at_end
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
        # HAProxy waits between its attempts, and its time to connect has all of them.
        wait = min(up.connect_ns or 0, up.duration_ns) if not line.retries else 0
        call = Stay(
            *(name, sent, sent, sent + up.duration_ns, up.status, interaction),
            caller=log.server, wait_ns=wait, parent=visit,
        )  # fmt: skip
        if log.stays.add(call) is not None:
            log.calls[name] += 1
        sent += up.duration_ns


def _add_all(log: _Log, piece: Piece, form: Form, layout: Layout, taker: Taker | None) -> bool:
    """The visits of many lines, as `_add` makes them; False: one of them needs it."""
    if taker is not None and (taken := taker.take(piece, log.stays)) is not None:
        log.at_end = log.at_end or taker.at_end
        log.count(taken)
        return True
    return _add_columns(log, piece.columns(), form, layout)


def _add_columns(log: _Log, part: Cut, form: Form, layout: Layout) -> bool:
    try:
        software = accesslog_outcomes.OF[layout.software]
        at_end = form.at_end and not software.at_begin
        rows = accesslog_rows.of(part, software, at_end=at_end, scales=layout.scales)
    except UnusualError:
        return False
    ended = rows.ended
    if not form.halves and not rows.asked.all() and (~rows.asked & (ended.status.each_number(_is_unasked) == 1)).any():
        return False
    address = ended.address.renamed(log.server, f"{log.server} (upstream)")
    called = ended.took >= 0
    # Each call follows the visit that made it.
    own = len(log.stays) + np.arange(len(called)) + np.cumsum(called) - called
    if not log.stays.add_all([_visits(log.server, rows, own), _calls(log.server, rows, own, called, address)]):
        return False
    for server, count in _counted(address).items():
        log.calls[server] += count
    for flags, count in _counted(ended.flags).items() if ended.flags is not None else ():
        log.flag(flags, count)
    log.untimed += rows.untimed
    log.at_end = log.at_end or at_end
    log.whole = log.whole and not (rows.stamp % units.SECOND).any()
    log.fine = log.fine or bool((rows.stamp % units.MILLISECOND).any())
    log.balancer.add_all(ended, rows.begin)
    return True


def _visits(server: str, rows: Rows, own: Ints) -> Many:
    ended, count = rows.ended, len(own)
    return Many(
        {
            **{"number": own, "request": own, "parent": np.full(count, NONE)},
            **{"sent": rows.begin, "arrival": rows.begin, "departure": rows.begin + rows.duration},
            **{"wait": np.zeros(count, np.int64), "bytes_out": rows.bytes_out, "entry": np.ones(count, bool)},
            "downstream_ns": np.where(ended.took > 0, ended.took, NONE),
        },
        {
            **{"server": Texts.same(server, count), "caller": Texts.same(None, count)},
            **{"interaction": rows.name, "status": ended.status},
        },
    )


def _calls(server: str, rows: Rows, own: Ints, called: NDArray[np.bool_], address: Texts) -> Many:
    ended, above = rows.ended, own[called]
    sent, took, count = (rows.begin + ended.before)[called], ended.took[called], len(above)
    once = np.ones(count, bool) if ended.retries is None else ended.retries[called] == 0
    return Many(
        {
            **{"number": above + 1, "request": above, "parent": above},
            **{"sent": sent, "arrival": sent, "departure": sent + took},
            "wait": np.where(once, np.minimum(np.maximum(ended.connect[called], 0), took), 0),
            **{"bytes_out": np.full(count, NONE), "entry": np.zeros(count, bool)},
            "downstream_ns": np.full(count, NONE),
        },
        {
            **{"server": address[called], "caller": Texts.same(server, count)},
            **{"interaction": rows.name[called], "status": ended.answer[called]},
        },
    )


def _is_unasked(status: str | None) -> int:
    return int(status in UNASKED)


def _counted(texts: Texts) -> dict[str, int]:
    """How many rows have each text."""
    counts = np.bincount(texts.numbers, minlength=1)
    return {
        text: int(counts[number])
        for number in np.flatnonzero(counts).tolist()
        if (text := texts.table.texts[number]) is not None
    }


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


def _notes(log: _Log, form: Form, source: Source) -> list[str]:
    said = []
    if source.place is None:
        said.append("its server is called server; pass NAME=FILE")
    if log.whole:
        said.append(
            "its stamps are whole seconds, so response times are known and the order of requests within a second, "
            "queues in steps of 50 ms, and what a server did meanwhile are unknown (nginx: log $msec)"
        )
    elif log.at_end:
        good = "1 µs" if log.fine else "1 ms"
        said.append(f"its stamps are good to {good}; a request begins at its stamp less its duration")
    if form.zoneless:
        said.append("its times have no time zone and are taken as UTC")
    said += log.stays.about_connecting("connecting to a server behind took")
    if log.nameless:
        said.append(
            f'{log.nameless} requests have no name: no line with "Started" is theirs alone; a tag tells the lines of '
            "each request (config.log_tags = [:request_id])"
        )
    said += [f"{_FLAGS[flag]}: {count} times" for flag, count in log.flags.most_common() if count]
    said += log.balancer.notes()
    said.append("connection attempts that were lost before this server are not in its log; a packet capture shows them")
    return said
