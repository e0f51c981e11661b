"""What the columns of access logs mean, for each software that writes them: durations, outcomes, and calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tailrace import units
from tailrace.bounds import YEAR_NS
from tailrace.readers.accesslog_layout import TIMERS
from tailrace.readers.accesslog_lines import status_of
from tailrace.readers.accesslog_proxies import ended_by, host_of
from tailrace.readers.accesslog_rows import DURATION_MAX_NS, NONE, UNKNOWN, Cut, Outcomes, Software, scaled
from tailrace.readers.accesslog_texts import Ints, Table, Texts, check

_TIMER_MAX_MS = YEAR_NS // units.MILLISECOND
_NAME_MAX, _FLAGS_MAX = 255, 60
BELIEVED_MAX_NS = 10**9 * units.MILLISECOND
"""The slow reader takes a longer duration for damage."""


CADDYS_MAX_NS = 10**6 * units.SECOND
"""The same for Caddy's."""
_METHOD, _PRINTABLE = re.compile("[A-Z]{3,20}"), re.compile("[!-~]*")
_CODE = re.compile(r"\d*|-", re.ASCII)


_CODES = Table([*map(str, range(1000)), None])
"""Statuses by their numbers, and none."""


def _duration(rows: Cut, scales: Mapping[str, int]) -> Ints:
    return scaled(rows.number("duration"), scales.get("duration", 1))


def _status(rows: Cut) -> Texts:
    """The statuses as they are."""
    codes = rows.number("status")
    check((codes < len(_CODES.texts) - 1).all())
    return Texts(np.where(codes < 0, len(_CODES.texts) - 1, codes), _CODES)


def _of_nginx(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    took, connect = rows.number("took"), rows.number("connect")
    check((took < DURATION_MAX_NS).all() and (connect < DURATION_MAX_NS).all())
    nothing = np.zeros(len(rows), np.int64)
    return Outcomes(
        status=_codes(rows),
        address=rows.text("address").each(_or_upstream).where(took >= 0),
        took=took,
        connect=connect,
        answer=_answers(rows),
        before=nothing,
        queued=nothing,
    )


def _answers(rows: Cut) -> Texts:
    answers = rows.text("address_status")
    answers.check_each(is_code)
    return answers.each(_or_unknown)


def _or_upstream(text: str | None) -> str:
    return text or "upstream"


def is_code(text: str | None) -> bool:
    """Whether nginx may write it as the status of a server behind."""
    return _CODE.fullmatch(text or "") is not None


def _three_digits(text: str | None) -> str:
    status = status_of(text or "")
    check(status)
    return status or ""


def _or_unknown(text: str | None) -> str:
    return status_of(text or "") or "unknown"


def of_three_digits(text: str | None) -> str:
    return status_of((text or "").rjust(3, "0")) or "unknown"


def or_abandoned(text: str | None) -> str:
    return status_of(text or "") or "abandoned"


def _or_none(text: str | None) -> str | None:
    return status_of(text or "")


def _timers(rows: Cut) -> dict[str, Ints]:
    """HAProxy's, in ns; negative where the request did not come so far."""
    timers = {timer: rows.number(timer) for timer in TIMERS}
    for column in timers.values():
        check((column != UNKNOWN).all() and (np.abs(column) <= _TIMER_MAX_MS).all())
    return {timer: column * units.MILLISECOND for timer, column in timers.items()}


def _of_timers(rows: Cut, scales: Mapping[str, int]) -> Ints:
    return _timers(rows)["all"]


def _of_haproxy(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    timers = _timers(rows)
    queued = np.maximum(timers["waiting"], 0)
    before = np.maximum(timers["asking"], 0) + queued
    connecting, answered = timers["connecting"], timers["answering"] >= 0
    rows.text("state").check_each(_is_state)
    without = rows.text("state").each(_without_answer)
    codes = _status(rows).each(_or_none)
    has_server = rows.text("address").each_number(_has_server) == 1
    called = has_server & (timers["waiting"] >= 0) & (duration >= before)
    return Outcomes(
        status=codes.filled("abandoned"),
        address=rows.text("address").where(called),
        took=np.where(called, duration - before, NONE),
        connect=np.where(connecting >= 0, connecting, NONE),
        answer=codes.filled("unknown").where(answered, without),
        before=before,
        queued=queued,
        retries=rows.number("retries"),
        ahead=rows.number("ahead") + rows.number("ahead_too"),
    )


def _is_state(text: str | None) -> bool:
    return len(text or "") == 4


def _without_answer(state: str | None) -> str:
    return "timeout" if state and state[0] in "sS" else "unknown"


def _has_server(text: str | None) -> int:
    backend, _, server = (text or "").partition("/")
    check(0 < len(backend) <= _NAME_MAX and 0 < len(server) <= _NAME_MAX)
    return int(server != "<NOSRV>")


def _needed(rows: Cut, scales: Mapping[str, int]) -> Ints:
    """The same where a line without a duration is damaged."""
    check((rows.number("duration") >= 0).all() and (rows.number("iso") >= 0).all())
    return _duration(rows, scales)


def _of_envoy(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    """Its flags say what became of a request without a response of the server behind."""
    for column in ("status", "bytes"):
        check((rows.number(column) >= 0).all())
    known = rows.number("received") >= 0
    check(known.all() or not known.any())
    check((rows.number("status") <= 999).all())
    check((duration < BELIEVED_MAX_NS).all())
    flags = rows.text("flags").filled("-")
    flags.check_each(is_of_flags)
    ends = flags.each(_ended_by)
    status = ends.filled("abandoned").where(rows.number("status") == 0, _status(rows).each(of_three_digits))
    address = rows.text("address").each(host_of)
    service = scaled(rows.number("took"), scales.get("took", 1))
    took = np.where(service == NONE, duration, np.minimum(service, duration))
    return _called(status, address, took, ends.where(ends.known, status), flags=flags)


def is_of_flags(text: str | None) -> bool:
    return 1 <= len((text or "").encode()) <= _FLAGS_MAX


def _ended_by(flags: str | None) -> str | None:
    return ended_by(flags or "")


def _called(status: Texts, address: Texts, took: Ints, answer: Texts, *, flags: Texts | None = None) -> Outcomes:
    """Outcomes with a call where there is an address, at the begin of the request."""
    nothing = np.zeros(len(took), dtype=np.int64)
    took = np.where(address.known, took, NONE)
    return Outcomes(status, address, took, nothing + NONE, answer, nothing, nothing, flags)


def _of_traefik(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    took = rows.number("took")
    address = rows.text("address").each(host_of).where((took != NONE) & (took <= duration))
    return _called(_status(rows).each(or_abandoned), address, took, _answers(rows))


def _of_traefik_text(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    check((rows.number("received") != NONE).all())
    status = _status(rows).each(_code)
    return _called(status, rows.text("address").each(host_of), duration, status)


def _code(text: str | None) -> str:
    """The status of three digits or a `-`."""
    if text in (None, "-"):
        return "unknown"
    return _three_digits(text)


def _of_balancer(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    status, answer = _status(rows).each(_code), rows.text("address_status").each(_code)
    check((rows.number("bytes") >= 0).all() and (rows.number("received") >= 0).all())
    called = _called(status, rows.text("address").each(_unless_dash), rows.number("took"), answer)
    return replace(called, before=rows.number("before"))


def _unless_dash(text: str | None) -> str | None:
    return None if text == "-" else text


def _of_balancers_times(rows: Cut, scales: Mapping[str, int]) -> Ints:
    """The sum of the three times, and at least the time since the request was created."""
    parts = [rows.number(column) for column in ("before", "took", "after")]
    check(all((part != NONE).all() and (part < DURATION_MAX_NS).all() for part in parts))
    created, end = rows.number("made"), rows.number("iso")
    check((created >= 0).all() and (end >= 0).all())
    whole: Ints = np.maximum(parts[0] + parts[1] + parts[2], np.maximum(end - created, 0))
    return whole


def _of_w3cs_times(rows: Cut, scales: Mapping[str, int]) -> Ints:
    check((rows.number("duration") >= 0).all())
    return _duration(rows, scales)


def _of_w3c(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    check((duration < BELIEVED_MAX_NS).all())
    return _alone(_status(rows).each(or_abandoned))


def _alone(status: Texts) -> Outcomes:
    """Outcomes of requests whose log says nothing of servers behind."""
    nobody = Texts.same(None, len(status.numbers))
    return _called(status, nobody, np.full(len(status.numbers), NONE), nobody)


def _codes(rows: Cut) -> Texts:
    return _status(rows).each(_three_digits)


def _milliseconds(rows: Cut, scales: Mapping[str, int]) -> Ints:
    """Of milliseconds with decimals, which the engine took for seconds."""
    values = rows.number("duration")
    check((values >= 0).all() and not (values % 1000).any())
    return values // 1000


def _of_program(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    """Lines of uWSGI and PHP-FPM."""
    check((duration < BELIEVED_MAX_NS).all())
    rows.text("method").check_each(is_programs_method)
    return _alone(_codes(rows))


def is_programs_method(text: str | None) -> bool:
    return _METHOD.fullmatch(text or "") is not None


def is_method_or_none(text: str | None) -> bool:
    return text is None or is_programs_method(text)


def _of_uwsgi(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    for column in ("received", "bytes", "duration"):
        check((rows.number(column) != NONE).all())
    check((rows.number("duration") < 10**9).all())
    return _of_program(rows, duration, scales)


def _of_rails(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    """The line of an end has no name if that of its begin was not found."""
    check((duration < BELIEVED_MAX_NS).all())
    rows.text("method").check_each(is_method_or_none)
    return _alone(_codes(rows))


def _of_php(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    rows.text("state").check_each(bool)
    known = rows.text("flags").known
    check(known.all() or not known.any())
    rows.text("flags").check_each(_is_not_empty)
    return _of_program(rows, duration, scales)


def _is_not_empty(text: str | None) -> bool:
    return text != ""


def _of_caddy(rows: Cut, duration: Ints, scales: Mapping[str, int]) -> Outcomes:
    check((duration < CADDYS_MAX_NS).all())
    for column in ("stamp", "bytes", "status"):
        check((rows.number(column) >= 0).all())
    rows.text("method").check_each(is_printable)
    return _alone(_status(rows).each(or_abandoned))


def is_printable(text: str | None) -> bool:
    return text is not None and _PRINTABLE.fullmatch(text) is not None


OF = {
    "nginx": Software(_duration, _of_nginx),
    "haproxy": Software(_of_timers, _of_haproxy),
    "envoy": Software(_needed, _of_envoy, at_begin=True),
    "traefik": Software(_needed, _of_traefik, at_begin=True),
    "traefik text": Software(_duration, _of_traefik_text),
    "balancer": Software(_of_balancers_times, _of_balancer),
    "w3c": Software(_of_w3cs_times, _of_w3c),
    "uwsgi": Software(_of_w3cs_times, _of_uwsgi),
    "rails": Software(_milliseconds, _of_rails),
    "php": Software(_milliseconds, _of_php),
    "caddy": Software(_of_w3cs_times, _of_caddy),
}
"""By the `software` of a layout."""
