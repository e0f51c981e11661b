"""Dates in the format of an access log, of Apache and of servers in Java."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import UsageError
from tailrace.readers import accesslog_dates
from tailrace.units import MILLISECOND, parse_moment

T = parse_moment("2026-11-20T16:49:00Z")
ASKED = '"GET /x HTTP/1.1" 200 5'
FORMATS = {
    "strftime": ("%{%Y-%m-%d %H:%M:%S}t.%{msec_frac}t%{%z}t", "2026-11-20 17:49:05.123+0100", "%D", "12000", 5123),
    "begin": (
        "%{begin:%d/%b/%Y:%T}t.%{begin:usec_frac}t %{%z}t",
        "20/Nov/2026:16:49:05.123000 +0000",
        "%D",
        "12000",
        5123,
    ),
    "end": ("%{end:%s}t.%{end:msec_frac}t", "1795193345.123", "%{us}T", "12000", 5111),
    "begin-and-end": ("%{begin:msec}t %{end:msec_frac}t", "1795193345123 135", "%D", "12000", 5123),
    "unix": ("%{begin:usec}t", "1795193345123000", "%{ms}T", "12", 5123),
    "tomcat": ("%{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}t", "2026-11-20T17:49:05.123+01:00", "%{ms}T", "12", 5111),
    "tomcat-begin": (
        "[%{begin:dd/MMM/yyyy:hh:mm:ss.SSS a Z}t]",
        "[20/Nov/2026:04:49:05.123 PM +0000]",
        "%T",
        "0.012",
        5123,
    ),
    "undertow": ("%{time,yyyy-MM-dd'T'HH:mm:ss.SSSX}", "2026-11-20T16:49:05.123Z", "%D", "12", 5111),
    "jetty-brackets": (
        "%{dd/MMM/yyyy:HH:mm:ss.SSS ZZZ|UTC}t",
        "[20/Nov/2026:16:49:05.123 +0000]",
        "%{us}T",
        "12000",
        5123,
    ),
    "both": (
        "%{begin:yyyy-MM-dd HH:mm:ss.SSS Z}t %{HH:mm:ss.SSS}t",
        "2026-11-20 16:49:05.123 +0000 16:49:05.135",
        "%{ns}T",
        "12000000",
        5123,
    ),
    "undertow-both": (
        "%t %{time,yyyy-MM-dd HH:mm:ss.SSS X}",
        "[20/Nov/2026:16:49:05 +0000] 2026-11-20 16:49:05.123 Z",
        "%D",
        "12",
        5111,
    ),
    "jetty": ("%{dd/MMM/yyyy:HH:mm:ss.SSS|GMT}t", "20/Nov/2026:16:49:05.123", "%{ms}T", "12", 5123),
}


@pytest.mark.parametrize("which", FORMATS)
def test_a_date_of_another_form_is_the_moment_that_it_says(tmp_path: Path, which: str) -> None:
    form, stamp, duration, took, begin = FORMATS[which]
    path = tmp_path / "access.log"
    path.write_text("".join(f"10.0.0.{i} - - {stamp} {ASKED} {took}\n" for i in range(9)))
    run = readers.read(f"web={path}", log_format=f'%h %l %u {form} "%r" %>s %b {duration}')
    times = ((pl.col("sent") - T) / MILLISECOND, (pl.col("end") - pl.col("sent")) / MILLISECOND)
    assert run.requests().select(*times).collect().rows() == [(begin, 12)] * 9
    assert run.manifest.rows["visits"] == 9
    assert not any("time zone" in note for note in run.manifest.notes)


SPRING = """\
[28/Nov/2026:05:02:07 +0000] 127.0.0.1 GET /item/x%20y HTTP/1.1 200 (9634 microseconds)
[28/Nov/2026:05:02:07 +0000] 127.0.0.1 GET /broken HTTP/1.1 500 (84554 microseconds)
[28/Nov/2026:05:02:08 +0000] 127.0.0.1 GET /slow HTTP/1.1 200 (1202714 microseconds)
"""
"""Of Spring Boot 3.3.5 with Tomcat 10.1.31, whose pattern is the example of its documentation."""


def test_a_request_without_quotes_is_read(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text(SPRING)
    run = readers.read(f"web={tmp_path / 'access.log'}", log_format="%t %a %r %s (%D microseconds)")
    took = (pl.col("end") - pl.col("sent")) // 1000
    found = run.requests().select("interaction", "status", took).collect().rows()
    assert [(str(status), us) for _, status, us in found] == [("ok", 9634), ("500", 84554), ("ok", 1202714)]


def test_a_date_without_a_zone_is_taken_as_utc_and_a_note_says_so(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(f"10.0.0.9 2026-11-20 16:49:05.123 {ASKED} 12\n")
    run = readers.read(path, log_format='%h %{yyyy-MM-dd HH:mm:ss.SSS}t "%r" %s %b %{ms}T')
    assert any("no time zone and are taken as UTC" in note for note in run.manifest.notes)


@pytest.mark.parametrize(
    "form", ["%{%Q}t", "%{yyyy-MM-dd 'open}t", "%{%Y-%m-%d}t", "%{HH:mm}t", "%{msec_frac}t", "%{q}t"]
)
def test_dates_that_are_unknown_or_incomplete_are_refused(tmp_path: Path, form: str) -> None:
    (tmp_path / "access.log").write_text(f"10.0.0.9 {ASKED} 12\n")
    with pytest.raises(UsageError, match="--log-format"):
        readers.read(tmp_path / "access.log", log_format=f'%h {form} "%r" %>s %b %D')


@pytest.mark.parametrize("text", ["2026-13-20", "2026-02-30", "9999-99-99"])
def test_impossible_days_are_no_moment(text: str) -> None:
    date = accesslog_dates.of_strftime("%Y-%m-%d")
    assert date is not None
    clock = {"hour": "16", "minute": "49", "second": "05"}
    assert accesslog_dates.moment({**date.parts(text), **clock}) is None
