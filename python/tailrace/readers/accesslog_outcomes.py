"""What the columns of access logs mean, for each software that writes them: durations, outcomes, and calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from tailrace import units
from tailrace.bounds import YEAR_NS
from tailrace.readers.accesslog_layout import TIMERS
from tailrace.readers.accesslog_lines import status_of
from tailrace.readers.accesslog_proxies import ended_by, host_of
from tailrace.readers.accesslog_rows import (
    DURATION_MAX_NS,
    NONE,
    Numbers,
    Outcomes,
    Software,
    check,
    each,
    is_utc,
    moments,
    numbers,
    scaled,
)
from tailrace.readers.accesslog_servers import moment_of_c

_TIMER_MAX_MS = YEAR_NS // units.MILLISECOND
_NAME_MAX, _FLAGS_MAX = 255, 60
_BELIEVED_MAX_NS = 10**9 * units.MILLISECOND
"""The slow reader takes a longer duration for damage."""


_CADDYS_MAX_NS = 10**6 * units.SECOND
"""The same for Caddy's."""
_METHOD = "^[A-Z]{3,20}$"
_MOMENT_OF_C = r"^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$"


def _duration(rows: pl.DataFrame, scales: Mapping[str, int]) -> Numbers:
    return scaled(rows["duration"], scales.get("duration", 1))


def _of_nginx(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    took, connect = numbers(rows["took"]), numbers(rows["connect"])
    check((took < DURATION_MAX_NS).all() and (connect < DURATION_MAX_NS).all())
    called = pl.Series(took >= 0)
    address = each(rows["address"], lambda text: text or "upstream", pl.String)
    nothing = np.zeros(rows.height, np.int64)
    return Outcomes(
        status=each(rows["status"], _three_digits, pl.String),
        address=address.set(~called, None),
        took=took,
        connect=connect,
        answer=each(rows["address_status"], lambda text: status_of(text or "") or "unknown", pl.String),
        before=nothing,
        queued=nothing,
    )


def _three_digits(text: str | None) -> str:
    status = status_of(text or "")
    check(status)
    return status or ""


def _timers(rows: pl.DataFrame) -> dict[str, Numbers]:
    """HAProxy's, in ns; negative where the request did not come so far."""
    check(not any(rows[timer].null_count() or (rows[timer].abs() > _TIMER_MAX_MS).any() for timer in TIMERS))
    return {timer: rows[timer].to_numpy().astype(np.int64) * units.MILLISECOND for timer in TIMERS}


def _of_haproxy(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    timers = _timers(rows)
    queued = np.maximum(timers["waiting"], 0)
    before = np.maximum(timers["asking"], 0) + queued
    connecting, answered = timers["connecting"], pl.Series(timers["answering"] >= 0)
    check(each(rows["state"], lambda text: len(text or "") == 4, pl.Boolean).all())
    without = each(rows["state"], lambda text: "timeout" if text and text[0] in "sS" else "unknown", pl.String)
    codes = each(rows["status"], lambda text: status_of(text or ""), pl.String)
    has_server = each(rows["address"], _has_server, pl.Boolean).to_numpy()
    called = has_server & (timers["waiting"] >= 0) & (duration >= before)
    return Outcomes(
        status=codes.fill_null("abandoned"),
        address=rows["address"].cast(pl.String).set(pl.Series(~called), None),
        took=np.where(called, duration - before, NONE),
        connect=np.where(connecting >= 0, connecting, NONE),
        answer=codes.fill_null("unknown").zip_with(answered, without),
        before=before,
        queued=queued,
        retries=numbers(rows["retries"]),
        ahead=numbers(rows["ahead"]) + numbers(rows["ahead_too"]),
    )


def _has_server(text: str | None) -> bool:
    backend, _, server = (text or "").partition("/")
    check(0 < len(backend) <= _NAME_MAX and 0 < len(server) <= _NAME_MAX)
    return server != "<NOSRV>"


def _needed(rows: pl.DataFrame, scales: Mapping[str, int]) -> Numbers:
    """The same where a line without a duration is damaged."""
    check(not rows["duration"].null_count() and is_utc(rows["iso"]))
    return _duration(rows, scales)


def _of_envoy(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    """Its flags say what became of a request without a response of the server behind."""
    for column in ("status", "bytes"):
        check(not rows[column].null_count())
    check(rows["received"].null_count() in (0, rows.height) and rows["status"].is_between(0, 999).all())
    numbers(rows["received"])
    check((duration < _BELIEVED_MAX_NS).all())
    flags = rows["flags"].cast(pl.String).fill_null("-")
    check(flags.str.len_bytes().is_between(1, _FLAGS_MAX).all())
    code = rows["status"].cast(pl.String)
    ends = each(flags, lambda flags: ended_by(flags or ""), pl.String)
    known = each(code, lambda code: status_of((code or "").rjust(3, "0")), pl.String).fill_null("unknown")
    status = ends.fill_null("abandoned").zip_with(code == "0", known)
    address = each(rows["address"], host_of, pl.String)
    service = scaled(rows["took"], scales.get("took", 1))
    took = np.where(service == NONE, duration, np.minimum(service, duration))
    return _called(status, address, took, ends.zip_with(ends.is_not_null(), status), flags=flags)


def _called(
    status: pl.Series, address: pl.Series, took: Numbers, answer: pl.Series, *, flags: pl.Series | None = None
) -> Outcomes:
    """Outcomes with a call where there is an address, at the begin of the request."""
    nothing = np.zeros(len(status), dtype=np.int64)
    took = np.where(address.is_null().to_numpy(), NONE, took)
    return Outcomes(status, address, took, nothing + NONE, answer, nothing, nothing, flags)


def _of_traefik(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    status = each(rows["status"], lambda code: status_of(code or "") or "abandoned", pl.String)
    took = numbers(rows["took"])
    called = pl.Series((took != NONE) & (took <= duration))
    address = each(rows["address"], host_of, pl.String).set(~called, None)
    answer = each(rows["address_status"], lambda code: status_of(code or "") or "unknown", pl.String)
    return _called(status, address, took, answer)


def _of_traefik_text(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    check((numbers(rows["received"]) != NONE).all())
    status = each(rows["status"], _code, pl.String)
    return _called(status, each(rows["address"], host_of, pl.String), duration, status)


def _code(text: str | None) -> str:
    """The status of three digits or a `-`."""
    if text in (None, "-"):
        return "unknown"
    return _three_digits(text)


def _of_balancer(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    status, answer = (each(rows[column], _code, pl.String) for column in ("status", "address_status"))
    check(not rows["bytes"].null_count() and (numbers(rows["received"]) != NONE).all())
    address = each(rows["address"], lambda text: None if text in ("-", None) else text, pl.String)
    called = _called(status, address, numbers(rows["took"]), answer)
    return replace(called, before=numbers(rows["before"]))


def _of_balancers_times(rows: pl.DataFrame, scales: Mapping[str, int]) -> Numbers:
    """The sum of the three times, and at least the time since the request was created."""
    parts = [numbers(rows[column]) for column in ("before", "took", "after")]
    check(all((part != NONE).all() and (part < DURATION_MAX_NS).all() for part in parts))
    check(is_utc(rows["created"]) and is_utc(rows["iso"]))
    created, end = (moments(rows[column]) for column in ("created", "iso"))
    since: Numbers = end.to_numpy() - created.to_numpy()
    whole: Numbers = np.maximum(parts[0] + parts[1] + parts[2], np.where(since >= 0, since, 0))
    return whole


def _of_w3cs_times(rows: pl.DataFrame, scales: Mapping[str, int]) -> Numbers:
    check(not rows["duration"].null_count())
    return _duration(rows, scales)


def _of_w3c(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    check((duration < _BELIEVED_MAX_NS).all())
    status = each(rows["status"], lambda code: status_of(code or "") or "abandoned", pl.String)
    return _alone(status, duration)


def _alone(status: pl.Series, duration: Numbers) -> Outcomes:
    """Outcomes of requests whose log says nothing of servers behind."""
    nobody = pl.Series([None], dtype=pl.String).new_from_index(0, len(status))
    return _called(status, nobody, duration, nobody)


def _codes(rows: pl.DataFrame) -> pl.Series:
    return each(rows["status"], _three_digits, pl.String)


def _check_texts(column: pl.Series, form: str) -> None:
    check(not column.null_count() and column.cast(pl.String).str.contains(form).all())


def _milliseconds(rows: pl.DataFrame, scales: Mapping[str, int]) -> Numbers:
    """Of milliseconds with decimals, which the engine took for seconds."""
    values = numbers(rows["duration"])
    check(not rows["duration"].null_count() and not (values % 1000).any())
    return values // 1000


def _of_program(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    """Lines of uWSGI, lograge and PHP-FPM."""
    check((duration < _BELIEVED_MAX_NS).all())
    _check_texts(rows["method"], _METHOD)
    check(rows["uri"].cast(pl.String).is_not_null().all())
    return _alone(_codes(rows), duration)


def _of_uwsgi(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    for column in ("received", "bytes", "duration"):
        check((numbers(rows[column]) != NONE).all())
    check((rows["duration"] < 10**9).all())
    return _of_program(rows, duration, scales)


def _of_uwsgis_stamps(rows: pl.DataFrame) -> Numbers:
    _check_texts(rows["created"], _MOMENT_OF_C)
    stamps = each(rows["created"], lambda text: moment_of_c(text or ""), pl.Int64)
    check(not stamps.null_count())
    return stamps.to_numpy().astype(np.int64)


def _of_rails(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    """Rails itself names no request in the line that has its duration."""
    if rows["method"].null_count() == rows.height:
        check((duration < _BELIEVED_MAX_NS).all())
        return _alone(_codes(rows), duration)
    _check_texts(rows["uri"], "^[^?#]+$")
    return _of_program(rows, duration, scales)


def _of_php(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    _check_texts(rows["state"], ".")
    check(rows["flags"].null_count() in (0, rows.height) and not (rows["flags"].cast(pl.String) == "").any())
    return _of_program(rows, duration, scales)


def _of_caddy(rows: pl.DataFrame, duration: Numbers, scales: Mapping[str, int]) -> Outcomes:
    check((duration < _CADDYS_MAX_NS).all() and not rows["stamp"].null_count() and not rows["bytes"].null_count())
    check(not rows["status"].null_count())
    _check_texts(rows["method"], "^[!-~]*$")
    _check_texts(rows["uri"], r"^[^\x00-\x1f]*$")
    status = each(rows["status"], lambda code: status_of(code or "") or "abandoned", pl.String)
    return _alone(status, duration)


OF = {
    "nginx": Software(_duration, _of_nginx),
    "haproxy": Software(lambda rows, scales: _timers(rows)["all"], _of_haproxy),
    "envoy": Software(_needed, _of_envoy, at_begin=True),
    "traefik": Software(_needed, _of_traefik, at_begin=True),
    "traefik text": Software(_duration, _of_traefik_text),
    "balancer": Software(_of_balancers_times, _of_balancer),
    "w3c": Software(_of_w3cs_times, _of_w3c),
    "uwsgi": Software(_of_w3cs_times, _of_uwsgi, stamp=_of_uwsgis_stamps),
    "rails": Software(_milliseconds, _of_rails),
    "php": Software(_milliseconds, _of_php),
    "caddy": Software(_of_w3cs_times, _of_caddy),
}
"""By the `software` of a layout."""
