"""Access logs whose lines are names and values: JSON with other names, LTSV, logfmt, and other durations of Caddy."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError
from tailrace.units import MILLISECOND, SECOND, parse_moment

T = parse_moment("2026-11-20T16:49:00Z")
STAMP = "2026-11-20T16:49:01.500Z"


def requests(path: Path, *lines: str) -> list[tuple[object, ...]]:
    path.write_text("".join(line + "\n" for line in lines))
    run = readers.read(f"web={path}")
    run.validate()
    text = pl.col("interaction", "status").cast(pl.String)
    frame = run.requests().select((pl.col("sent") - T) / MILLISECOND, (pl.col("end") - T) / MILLISECOND, text)
    return frame.collect().rows()


@pytest.mark.parametrize(
    "line",
    [
        {"startTime": STAMP, "durationMs": 12, "status": 200, "req_method": "GET", "req_path": "/"},
        {"start_time": STAMP, "request_time_ms": 12, "upstream_duration_ms": 9, "status": 200, "req": "GET / HTTP/2"},
        {"start-time": STAMP, "duration": 12, "code": 200, "response_flags": "-", "method": "GET", "path": "/"},
        {"requestStart": STAMP, "latencyMicros": 12000, "code": 200, "http": {"method": "GET", "target": "/"}},
    ],
)  # fmt: skip
def test_json_with_other_names(tmp_path: Path, line: dict[str, object]) -> None:
    assert requests(tmp_path / "log", json.dumps(line)) == [(1500.0, 1512.0, "GET /", "ok")]


def test_flags_and_the_server_behind_have_other_names_too(tmp_path: Path) -> None:
    line = {"startTime": STAMP, "durationMs": 1012, "status": 503, "flags": "UF", "upstreamHost": "10.0.0.3:80"}
    path = tmp_path / "log"
    assert requests(path, json.dumps(line)) == [(1500.0, 2512.0, None, "503")]
    run = readers.read(f"web={path}")
    assert any("connecting to the server behind failed (UF): 1 times" in note for note in run.manifest.notes)
    assert set(run.visits().collect()["server"].cast(pl.String)) == {"web", "10.0.0.3:80"}


def test_two_durations_that_may_be_meant_are_not_guessed(tmp_path: Path) -> None:
    line = {"time": STAMP, "status": 200, "latency_ms": 12, "elapsed_ms": 900}
    with pytest.raises(InputError):
        requests(tmp_path / "log", json.dumps(line))


def test_ltsv_and_logfmt(tmp_path: Path) -> None:
    ltsv = "time:20/Nov/2026:17:49:02 +0100\thost:10.0.0.9\treq:GET / HTTP/1.1\tstatus:200\tsize:5\treqtime:0.012"
    assert requests(tmp_path / "ltsv", ltsv) == [(1988.0, 2000.0, "GET /", "ok")]
    micros = ltsv.replace("reqtime:0.012", "reqtime_microsec:12000")
    assert requests(tmp_path / "ltsv", micros) == [(1988.0, 2000.0, "GET /", "ok")]
    logfmt = f'time={STAMP} level=INFO msg="a request" method=GET path=/ status=404 elapsed=12ms'
    other = f'time={STAMP} level=INFO msg="no request" took=nothing'
    assert requests(tmp_path / "logfmt", other, logfmt) == [(1488.0, 1500.0, "GET /", "404")]
    router = f'{STAMP} app[router]: at=info method=GET path="/" connect=1ms service=12ms status=200'
    assert requests(tmp_path / "router", router) == [(1488.0, 1500.0, "GET /", "ok")]
    with pytest.raises(InputError):
        requests(tmp_path / "bare", logfmt.replace("12ms", "12"))


@pytest.mark.parametrize("form", ["s", "ms", "ns", "text"])
def test_durations_of_caddy_in_each_of_its_formats(tmp_path: Path, form: str) -> None:
    rng = random.Random(7)
    took = [rng.randrange(200_000, 30_000_000) for _ in range(40)] + [1_234_567_891]
    written = {
        "s": [ns / SECOND for ns in took],
        "ms": [ns // MILLISECOND for ns in took],
        "ns": took,
        "text": [f"{ns / MILLISECOND:.6f}ms" for ns in took],
    }
    lines = [
        json.dumps({"ts": T / SECOND + i, "request": {"method": "GET", "uri": "/"}, "duration": each, "status": 200})
        for i, each in enumerate(written[form], 1)
    ]
    found = requests(tmp_path / "caddy.log", *lines)
    exact = sorted(ns // MILLISECOND if form == "ms" else ns / MILLISECOND for ns in took)
    assert sorted(end - sent for sent, end, *_ in found) == pytest.approx(exact)


def caddy(*took: float) -> list[str]:
    each = ((i, one) for i, one in enumerate(took, 1))
    request = {"method": "GET", "uri": "/"}
    return [json.dumps({"ts": T / SECOND + i, "request": request, "duration": d, "status": 200}) for i, d in each]


@pytest.mark.parametrize(
    ("took", "expected"),
    [
        ((12, 0, 1012), [0, 12, 1012]),
        ((120_000, 1_012_000_000), [0.12, 1012]),
        ((0.000251, 0.000012, 1.012), [0.012, 0.251, 1012]),
    ],
)
def test_a_few_durations_of_caddy_show_their_unit(
    tmp_path: Path, took: tuple[float, ...], expected: list[float]
) -> None:
    found = requests(tmp_path / "caddy.log", *caddy(*took))
    assert sorted(end - sent for sent, end, *_ in found) == pytest.approx(expected)


NAMED = {"time": STAMP, "status": 200, "method": "GET", "uri": "/"}


def test_whole_numbers_that_may_be_in_several_units_are_refused(tmp_path: Path) -> None:
    for lines in (
        caddy(5000, 7000),
        [json.dumps({**NAMED, "request_time": took}) for took in (0, 12, 1012)],
        [json.dumps({**NAMED, "response_time": took}) for took in (0.512, 12.25)],
    ):
        with pytest.raises(InputError, match="durations have no unit"):
            requests(tmp_path / "log", *lines)
    text = '10.0.0.9 - - [20/Nov/2026:16:49:02 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" rt={}'
    with pytest.raises(InputError):
        requests(tmp_path / "log", text.format(12), text.format(0))
    assert requests(tmp_path / "log", text.format("0.012")) == [(1988.0, 2000.0, "GET /", "ok")]
    # One of nginx's names beside it says whose number it is; a second that lost its decimals is one among others.
    named = [json.dumps({**NAMED, "response_time": took, "body_bytes_sent": 5}) for took in (1, 0.012)]
    assert requests(tmp_path / "log", *named)[1] == (1488.0, 1500.0, "GET /", "ok")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"time": "2026-11-20T16:49:00Z", "status": 200, "latency": 0.012}', "whose durations have no unit"),
        ('2026-11-20T16:49:00Z | "GET / HTTP/1.1" | 200 | 0.012', "in a format that Tailrace does not know"),
        ('INFO: 10.0.0.1:5000 - "GET / HTTP/1.1" 200 OK', "in a format that Tailrace does not know"),
        (
            "\n[20-Nov-2026 16:49:05]  [pool www] pid 22\nscript_filename = /var/www/index.php\n[0x7f] sleep()",
            "the slow log of PHP-FPM",
        ),
        ('{"metrics": {"http_req_duration": {"values": {"avg": 12.3, "p(95)": 30}}}}', "the summary of a load test"),
    ],
)
def test_what_is_refused_says_what_it_is(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        requests(tmp_path / "log", text)
