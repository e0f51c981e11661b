"""Access logs: begin, end, lost attempts and calls, computed here by hand from the lines in tests/golden/readers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.errors import InputError, UsageError
from tailrace.readers import accesslog_rows, attempts
from tailrace.readers.naming import Names, folded
from tailrace.units import MILLISECOND, SECOND, parse_moment

FILES = Path(__file__).parents[1] / "golden" / "readers" / "accesslog"
T = parse_moment("2026-11-20T16:49:00Z")


def read(name: str) -> Dataset:
    run = readers.read(f"web={FILES / name}")
    run.validate()
    return run


def stays(run: Dataset, server: str) -> list[tuple[float, ...]]:
    """Sent, arrival, departure in ms after T, and lost attempts."""
    of_server = run.visits().filter(pl.col("server") == server).sort("sent").collect()
    ms = (of_server.select("sent", "arrival", "departure") - T) / MILLISECOND
    return ms.with_columns(of_server["drops"]).rows()


def test_nginx_with_milliseconds_shows_its_visits_and_those_of_its_upstreams() -> None:
    run = read("nginx-timed.log")
    assert [row[1:3] for row in stays(run, "web")] == [
        (0, 10), (80, 1100), (150, 3200), (4000, 4000), (4210, 6250), (6400, 8000),
    ]  # fmt: skip
    # 1.004 s is one lost attempt, 3.010 s is two, since nothing shows a linear schedule; 1.5 s is none.
    assert stays(run, "10.0.0.3:8080") == [
        (0, 0, 8, 0), (80, 1084, 1098, 1), (150, 3160, 3195, 2), (4210, 4210, 6210, 0), (6400, 6400, 8000, 0),
    ]  # fmt: skip
    assert stays(run, "10.0.0.4:8080") == [(6210, 6210, 6250, 0)]
    names = run.requests().collect()["interaction"].cast(pl.String).to_list()
    item, image = "GET /item/{id}", "GET /img/*.png"
    assert names == [item, item, "POST /login", image, item, "GET /search/slow"]
    assert run.lost() == {
        "nginx-timed.log: damaged lines": 1, "nginx-timed.log: lines without a duration": 1,
    }  # fmt: skip
    assert any("indirect evidence" in note for note in run.manifest.notes)
    assert {(call.caller, call.callee) for call in run.topology.calls} == {
        ("web", "10.0.0.3:8080"), ("web", "10.0.0.4:8080"),
    }  # fmt: skip


def test_json_holds_the_same() -> None:
    run = read("nginx.json.log")
    assert stays(run, "web") == [(0, 0, 10, 0), (80, 80, 1100, 0)]
    assert stays(run, "10.0.0.3:8080") == [(0, 0, 8, 0), (80, 1084, 1098, 1)]


def test_whole_seconds_give_response_times_and_no_order() -> None:
    run = read("combined-whole-seconds.log")
    requests = run.requests().collect()
    assert ((requests["end"] - requests["sent"]) / MILLISECOND).to_list() == [10, 1020]
    assert requests["status"].cast(pl.String).to_list() == ["ok", "503"]
    assert run.visits().collect().is_empty()
    assert any("queues in steps of 50 ms" in note for note in run.manifest.notes)


def test_a_log_of_whole_seconds_claims_no_lost_attempts(tmp_path: Path) -> None:
    """Nothing shows whether packets were lost, so the answer does not say that any were."""
    line = '10.0.0.9 - - [20/Nov/2026:16:49:{:02d} +0000] "GET /x HTTP/1.1" 200 5 rt={:.3f}'
    lines = [line.format(n % 60, 1.1 if n % 20 == 10 else 0.004) for n in range(60)]
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    found = diagnose(readers.read(f"web={tmp_path / 'log'}"))
    assert (found.requests, found.vlrt) == (60, 3)
    assert "whether packets were lost was not recorded" in found.answer[0]
    assert not any("attempt" in sentence for sentence in found.answer)


def test_a_diagnosis_without_visits_claims_nothing_of_queues(tmp_path: Path) -> None:
    usual = [f'a - - [20/Nov/2026:16:49:{i % 60:02} +0000] "GET / HTTP/1.1" 200 5 "-" "x" 0.005' for i in range(600)]
    slow = [line.replace("0.005", f"1.0{i:02}") for i, line in enumerate(usual[:20], 5)]
    (tmp_path / "log").write_text("\n".join([*usual, *slow, ""]))
    found = diagnose(readers.read(f"web={tmp_path / 'log'}"))
    assert found.vlrt == 20
    assert {(episode.origin, episode.cause) for episode in found.episodes} == {(None, "unknown")}
    assert not any("No queue rose" in sentence for sentence in found.answer)
    assert {row.ctqo for row in found.summary} == {"unknown"}


def test_what_a_client_sends_is_no_field(tmp_path: Path) -> None:
    line = '9 - - [20/Nov/2026:16:49:00 +0000] "GET /rt=7 HTTP/1.1" 200 5 "rt=8" "x msec=1 rt=9" rt=0.010 msec='
    (tmp_path / "log").write_text(line + "1795193340.010\n")
    assert stays(readers.read(f"web={tmp_path / 'log'}"), "web") == [(0, 0, 10, 0)]
    (tmp_path / "log").write_text('9 - - [20/Nov/2026:16:49:00 +0000] "GET / HTTP/1.1" 200 5 "9.999" 0.010\n')
    requests = readers.read(f"web={tmp_path / 'log'}").requests().collect()
    assert ((requests["end"] - requests["sent"]) / MILLISECOND).to_list() == [10]


def test_haproxy_shows_its_queue_and_the_attempts_that_its_server_lost() -> None:
    run = read("haproxy.log")
    assert [row[1:3] for row in stays(run, "web")] == [(100, 1135), (1000, 1010), (2000, 2000), (3000, 7000)]
    # Sent after 2 ms of request and 5 ms in the queue; connected 1,003 ms later.
    assert stays(run, "app/app1") == [(107, 1110, 1135, 1), (1000, 1000, 1010, 0), (3000, 3000, 7000, 0)]
    statuses = run.visits().filter(pl.col("server") == "app/app1").sort("sent").collect()["status"].cast(pl.String)
    assert statuses.to_list() == ["ok", "ok", "timeout"]


def test_the_visits_of_a_server_come_from_one_input(tmp_path: Path) -> None:
    first = readers.read(f"web={FILES / 'nginx.json.log'}", out=tmp_path / "run")
    again = readers.read(tmp_path / "run", f"web={FILES / 'nginx-timed.log'}")
    assert again.requests().collect().height == first.requests().collect().height
    assert stays(again, "web") == stays(first, "web")
    assert stays(again, "10.0.0.4:8080") == [(6210, 6210, 6250, 0)]
    assert any("11 visits of servers that another input shows" in note for note in again.manifest.notes)


APACHE = (
    '10.0.0.9 - - [20/Nov/2026:16:49:01 +0000] "GET /item/17 HTTP/1.1" 200 5120 "-" "x \\"y\\"" 250 12000\n'
    '10.0.0.9 - - [20/Nov/2026:17:49:02 +0100] "GET /item/18 HTTP/1.1" 503 - "-" "x" 000 1003000\n'
    "nonsense\n"
)


def test_a_format_of_apache(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(APACHE)
    form = '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %{msec_frac}t %D'
    run = readers.read(f"web={tmp_path / 'log'}", log_format=form)
    assert stays(run, "web") == [(1250, 1250, 1262, 0), (2000, 2000, 3003, 0)]
    assert run.lost() == {"log: damaged lines": 1}


def test_a_format_of_nginx(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("1795193341.100|GET /a/17?b HTTP/1.1|200|1.020|1.004|1.018\n")
    form = "$msec|$request|$status|$request_time|$upstream_connect_time|$upstream_response_time"
    run = readers.read(f"web={tmp_path / 'log'}", log_format=form)
    assert stays(run, "web") == [(80, 80, 1100, 0)]
    assert stays(run, "upstream") == [(80, 1084, 1098, 1)]


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ('%{begin:msec}t "%m %U%q %H" %>s %{ms}Tms', '{0}{1:03} "GET /item/17{2} HTTP/1.1" 200 {1}ms'),
        ("%{begin:msec}t %v%U%q %m %>s %{ms}T", "{0}{1:03} shop.example/item/17{2} GET 200 {1}"),
        ("$msec $uri$is_args$args|$request_method|$status|$request_time", "{0}.{1:03} /item/17{2}|GET|200|0.{1:03}"),
        (
            '$msec "$request_method $scheme://${host}${request_uri} x" $status $request_time',
            '{0}.{1:03} "GET https://shop.example/item/17{2} x" 200 0.{1:03}',
        ),
    ],
)
def test_fields_without_anything_between_them(form: str, line: str, tmp_path: Path) -> None:
    """A path, and a query that may be empty, often stand side by side. Both readers read them alike."""
    lines = [line.format(1795193341, took, "" if took % 3 else "?q=/a") for took in range(10, 110)]
    (tmp_path / "log").write_text("\n".join([*lines, ""]))
    run = readers.read(f"web={tmp_path / 'log'}", log_format=form)
    begins = [0] * 100 if form[0] == "$" else range(10, 110)
    assert sorted(row[:3] for row in stays(run, "web")) == sorted(
        (1000 + begin, 1000 + begin, 1000 + begin + took) for begin, took in zip(begins, range(10, 110), strict=True)
    )
    assert set(run.requests().collect()["interaction"].cast(pl.String)) == {"GET /item/{id}"}
    assert run.lost() == {}


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ('%h %t "%r" %>s', "lacks a time or the duration"),
        ("$msec $status", "lacks a time or the duration"),
        ("$msec$request_time", "nothing between them"),
        ("$msec $request_time $remote_addr$host", "nothing between them"),
    ],
)
def test_a_format_that_cannot_tell_times_is_refused(form: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a b c\n")
    with pytest.raises(UsageError, match=said):
        readers.read(tmp_path / "log", log_format=form)


def test_a_format_that_no_line_has_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a b c\n")
    with pytest.raises(InputError, match="no line of this access log could be read; --log-format must be"):
        readers.read(tmp_path / "log", log_format="$msec $request_time $status")


def test_an_upstream_gets_the_name_of_its_address() -> None:
    servers = {"app": "10.0.0.3:8080"}
    run = readers.read(f"web={FILES / 'nginx-timed.log'}", servers=servers)
    assert len(stays(run, "app")) == 5
    assert [(server.name, server.tier) for server in run.topology.servers] == [
        ("web", 1), ("10.0.0.4:8080", 2), ("app", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("waits_s", "wait_s", "lost"),
    [
        *(([1.0], 1.004, 1), ([3.01], 3.01, 2), ([2.01, 3.01], 3.01, 3), ([7.1], 7.1, 3), ([1.2], 1.2, 0)),
        *(([0.5], 0.5, 0), ([0.3, 0.31], 1.31, 1), ([0.3, 0.31], 1.05, 0), ([0.001], 1.3, 0)),
    ],
)
def test_a_connection_time_tells_the_lost_attempts(waits_s: list[float], wait_s: float, lost: int) -> None:
    waits = attempts.Waits()
    waits.add(np.array([round(wait * SECOND) for wait in waits_s], np.int64))
    found = attempts.lost_of_each(np.array([round(wait_s * SECOND)], np.int64), waits.schedule)
    assert found.tolist() == [lost]


@pytest.mark.parametrize(
    ("segment", "name"),
    [
        *(("stories", "stories"), ("17", "{id}"), ("550e8400-e29b-41d4-a716-446655440000", "{id}"), ("v2", "v2")),
        *(("BrowseStories", "BrowseStories"), ("{itemId}", "{id}"), ("john.smith@example.org", "{}"), ("%41", "{}")),
        *(("sk_live_4eC39HqLyjWDarjtT1", "{id}"), ("index.html", "index.html"), ("xkcdqwrtz", "{}"), ("", "")),
    ],
)
def test_only_plain_words_stay_in_names(segment: str, name: str) -> None:
    assert folded(segment) == name


def test_names_are_bounded() -> None:
    names = Names()
    words = [a + b + c for a in "abcdef" for b in "aeiou" for c in "abcdef"]
    found = {names.of("GET", f"https://shop.example/u/{word}?q=1") for word in words}
    assert len(found) == 101
    assert "GET /u/{}" in found
    assert names.of("MIX", "none") == "{} {}"
    assert "(other)" not in found


# Each format: begin and duration of its requests in ms after 16:49:00, status; then calls: server, status, duration.
OTHERS: dict[str, tuple[list[tuple[float, float, str]], list[tuple[str, str, float]]]] = {
    "haproxy-tcp.log": (
        [(123, 12, "ok"), (1000, 1015, "ok"), (2000, 5000, "timeout")],
        [("db/db1", "ok", 12), ("db/db1", "ok", 1011), ("db/db1", "timeout", 5000)],
    ),
    "envoy.log": (
        [(310, 12, "ok"), (400, 0, "503"), (500, 3001, "503"), (600, 900, "abandoned")],
        [("10.0.0.3:8080", "ok", 10), ("10.0.0.3:8080", "refused", 3001), ("10.0.0.3:8080", "abandoned", 900)],
    ),
    "istio.log": (
        [(310, 41, "ok"), (1310, 1, "503")],
        [("10.244.0.14:9080", "ok", 40), ("10.244.0.14:9080", "refused", 1)],
    ),
    "envoy.json.log": ([(310, 12, "ok"), (600, 900, "abandoned")], [("10.0.0.3:8080", "ok", 10)]),
    "traefik.log": ([(0, 12, "ok"), (1000, 3004, "502")], []),
    "traefik.json.log": ([(123.456789, 12.345678, "ok")], [("10.0.0.3:8080", "ok", 11)]),
    "caddy.log": ([(511.172725, 12.929675, "ok"), (850, 1250, "abandoned")], []),
    "alb.log": ([(172.641, 14, "ok"), (1000, 10_000, "504")], [("10.0.0.1:80", "ok", 11)]),
    "elb.log": ([(945.958, 1.178, "ok")], [("10.0.0.1:80", "ok", 1.048)]),
    "cloudfront.log": ([(-203, 1203, "ok")], []),
    "iis.log": ([(985, 15, "ok"), (969, 2031, "500"), (3984, 16, "ok")], []),
    "uwsgi.log": ([(0, 12, "ok"), (1000, 1203, "503")], []),
    "rails.log": ([(100.5, 12, "ok"), (1109.5, 1203, "500")], []),
    "lograge.log": ([(100.16, 12.34, "ok")], []),
    "rack.log": ([(-12.3, 12.3, "ok"), (796.6, 1203.4, "ok")], []),
    "pino.log": ([(123, 12, "ok"), (135, 1203, "503")], []),
    "ecs.log": ([(123, 12, "ok")], []),
    "gclb.log": ([(123.456, 1203, "ok")], []),
    "zap.log": ([(123, 12, "ok"), (1334.5, 3.5, "ok")], []),
    "php-fpm.log": ([(0, 12.345, "ok"), (1000, 1203, "500")], []),
}


@pytest.mark.parametrize("name", OTHERS)
def test_logs_of_other_servers_and_proxies(name: str) -> None:
    start = parse_moment("2026-11-20T16:49:00Z")
    expected, calls = OTHERS[name]
    run = readers.read(f"web={FILES / name}")
    run.validate()
    found = run.requests().sort("end").collect()
    requests = [
        ((sent - start) / MILLISECOND, (end - sent) / MILLISECOND, status)
        for sent, end, status in found.select("sent", "end", pl.col("status").cast(pl.String)).rows()
    ]
    assert sorted(requests) == sorted(expected)
    if "visits" in run.manifest.rows:
        behind = run.visits().filter(pl.col("server").cast(pl.String) != "web").sort("sent").collect()
        assert [
            (server, status, (departure - sent) / MILLISECOND)
            for server, status, sent, departure in behind.select(
                pl.col("server", "status").cast(pl.String), "sent", "departure"
            ).rows()
        ] == calls


def test_a_duration_without_a_unit_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"ts": "2026-11-20T16:49:00Z", "status": 200, "duration": 12}\n')
    with pytest.raises(InputError, match="whose durations have no unit"):
        readers.read(tmp_path / "log")


def test_tcplog_shows_the_lost_attempt_and_envoy_its_flags() -> None:
    run = readers.read(FILES / "haproxy-tcp.log")
    assert run.visits().select(pl.col("drops").sum()).collect().item() == 1
    said = " ".join(readers.read(FILES / "envoy.log").manifest.notes)
    assert "a circuit breaker refused requests (UO): 1 times" in said
    assert "the retries or connection attempts were used up (URX): 1 times" in said


def test_other_lines_of_a_program_are_no_damage_but_those_of_a_pure_log_are() -> None:
    assert readers.read(FILES / "rails.log").lost() == {}
    assert readers.read(FILES / "iis.log").lost() == {"iis.log: damaged lines": 1}


@pytest.mark.parametrize(
    ("form", "end"),
    [('%(h)s %(t)s "%(r)s" %(s)s %(b)s %(D)s', "1203000"), ('%(h)s %(t)s "%(r)s" %(s)s %(b)s %(L)s', "1.203000")],
)
def test_a_format_of_gunicorn(form: str, end: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f'a [20/Nov/2026:16:49:02 +0000] "GET /x HTTP/1.1" 200 5 {end}\n')
    run = readers.read(tmp_path / "log", log_format=form)
    [(sent, end_of)] = run.requests().select("sent", "end").collect().rows()
    assert (sent, end_of) == (T + 797 * MILLISECOND, T + 2 * SECOND)


def test_lines_of_two_forms_in_one_file_are_all_read(tmp_path: Path) -> None:
    """HAProxy wrote these lines, with a frontend for TCP and one for HTTP."""
    (tmp_path / "haproxy.log").write_text(
        "127.0.0.1:46210 [26/Nov/2026:05:41:02.125] t b/s1 1/1/12 62 -- 1/1/0/0/0 0/0\n"
        '127.0.0.1:56456 [26/Nov/2026:05:41:02.162] h c/s1 0/0/0/4/4 200 54 - - ---- 1/1/0/0/0 0/0 "GET /y HTTP/1.1"\n'
        "127.0.0.1:46232 [26/Nov/2026:05:41:02.558] t b/s1 1/-1/3006 0 SC 1/1/0/0/3 0/0\n"
        '::1:56478 [26/Nov/2026:05:41:05.589] h c/s1 0/0/-1/-1/3003 503 217 - - SC-- 1/1/0/0/3 0/0 "GET /z HTTP/1.1"\n'
    )
    run = readers.read(f"lb={tmp_path / 'haproxy.log'}")
    assert run.lost() == {}
    statuses = run.requests().sort("sent").select(pl.col("status").cast(pl.String)).collect().to_series().to_list()
    assert statuses == ["ok", "ok", "refused", "503"]


def test_a_connection_on_which_no_request_came_is_no_slow_request(tmp_path: Path) -> None:
    """The ten seconds are those of a client that sent nothing, or not all of it."""
    proxy = tmp_path / "proxy.log"
    line = 'lb haproxy[7]: 10.0.0.9:4 [20/Nov/2026:16:49:0{}.000] www {} {} {} 212 - - {} 1/1/0/0/0 0/0 "{}"\n'
    asked = [line.format(n, "app/a1", "0/0/1/8/9", 200, "----", "GET / HTTP/1.1") for n in range(9)]
    asked.insert(4, "lb haproxy[7]: Server app/a1 is DOWN, reason: Layer4 timeout. 0 active servers left.\n")
    proxy.write_text("".join(asked) + line.format(9, "www/<NOSRV>", "-1/-1/-1/-1/10000", 408, "cR--", "<BADREQ>"))
    server = tmp_path / "server.log"
    timed = '10.0.0.9 - - [20/Nov/2026:16:49:00 +0000] "{}" {} 0 msec=1795193340.{:03} rt={}\n'
    asked = [timed.format("GET / HTTP/1.1", 200, n, "0.010") for n in range(40)]
    server.write_text("".join(asked) + "".join(timed.format("-", code, 500, "10.0") for code in (408, 400)))
    for file, requests, left_out in ((proxy, 9, 1), (server, 40, 2)):
        run = readers.read(file)
        took = run.requests().select((pl.col("end") - pl.col("sent")).max(), pl.len()).collect().row(0)
        assert took == (took[0], requests)
        assert took[0] < 100 * MILLISECOND
        assert run.lost() == {f"{file.name}: connections on which no whole request came": left_out}


def rails(second: float, tag: str, text: str) -> str:
    return f"I, [2026-11-20T16:49:{second:09.6f} #22]  INFO -- : {tag}{text}\n"


def begun(second: float, tag: str, path: str) -> str:
    return rails(second, tag, f'Started GET "{path}" for ::1 at 2026-11-20 16:49:00 +0000')


@pytest.mark.parametrize("run_min", [2, 10**6])
def test_requests_of_rails_have_the_names_of_their_tags(
    run_min: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag names the requests of one process that overlap; without tags only one that is alone has a name."""
    monkeypatch.setattr(accesslog_rows, "RUN_MIN", run_min)
    done = "Completed 200 OK in 50ms (Views: 1.0ms)"
    text = "".join(
        begun(n, f"[a{n}] ", f"/items/{n}?x=1")
        + begun(n + 0.01, f"[b{n}] ", "/page")
        + rails(n + 0.051, f"[b{n}] ", "Completed 400 Bad Request in 40ms (Views: 1.0ms)")
        + rails(n + 0.052, f"[a{n}] ", done)
        for n in range(20)
    )
    alone = begun(30, "", "/alone") + rails(30.052, "", done)
    together = begun(31, "", "/x") + begun(31.001, "", "/y") + rails(31.052, "", done) + rails(31.053, "", done)
    (tmp_path / "rails.log").write_text(text + alone + together)
    run = readers.read(f"web={tmp_path / 'rails.log'}")
    counts = run.requests().group_by(pl.col("interaction", "status").cast(pl.String)).len().collect().rows()
    assert sorted(counts, key=str) == [
        ("GET /items/{id}", "ok", 20),
        ("GET /page", "400", 20),
        ("GET /{}", "ok", 1),
        (None, "ok", 2),
    ]
    assert any("2 requests have no name" in note for note in run.manifest.notes)
    assert run.lost() == {}
