"""The metrics of a watch: counted from segments, written as text, served by a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tailrace.errors import UsageError
from tailrace.watch.exposition import Exemplar, Family, text
from tailrace.watch.gauges import LAST_NS, OTHERS, SERVERS_MAX, STEP_NS, Gauges, Queue
from tailrace.watch.listing import Incident
from tailrace.watch.serving import CONNECTIONS_MAX, Endpoint, listen

SECOND = 1_000_000_000
NOW = 1_795_193_380 * SECOND
PACKAGING = Path(__file__).parents[2] / "packaging" / "prometheus"


def stays(*rows: tuple[str, float, float, float]) -> pl.DataFrame:
    """Server, and when the request was sent, arrived and left, in seconds before NOW."""
    moments = [(server, *(NOW - round(before * SECOND) for before in times)) for server, *times in rows]
    return pl.DataFrame(moments, schema=["server", "sent", "arrival", "departure"], orient="row")


def written(gauges: Gauges, openmetrics: bool = False) -> dict[str, float]:
    lines = text(gauges.families(NOW), openmetrics).splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_a_queue_is_the_number_of_visits_that_are_present() -> None:
    draw = random.Random(7)
    queue = Queue(NOW // STEP_NS - LAST_NS // STEP_NS)
    visits = []
    for second in range(90):  # each second closes a segment of what left in it
        until = NOW + second * SECOND
        left = [until - draw.randrange(SECOND) for _ in range(50)]
        some = [(departure - draw.randrange(3 * SECOND), departure) for departure in left]
        visits += some
        queue.advance(until)
        queue.add(np.array([a for a, _ in some]), np.array([d for _, d in some]))
    begin = NOW + 89 * SECOND - LAST_NS
    ends = [begin // STEP_NS * STEP_NS + (step + 1) * STEP_NS for step in range(LAST_NS // STEP_NS)]
    assert queue.lengths().tolist() == [sum(a < end <= d for a, d in visits) for end in ends]


def test_segments_are_counted_by_server() -> None:
    gauges = Gauges("1", {"host:80": "web"})
    gauges.see("stays", stays(("app", 3, 2, 1), ("app", 2, 2, 1), ("db", 0.02, 0.01, 0)), NOW)
    gauges.see("events", pl.DataFrame({"place": ["web"] * 3 + ["db"], "kind": ["drop"] * 3 + ["gc"]}), NOW)
    drops = pl.DataFrame(
        [(1, "host:80", "listen_drops", 4.0)], schema=["time", "place", "metric", "value"], orient="row"
    )
    gauges.see("samples", drops, NOW)
    found = written(gauges)
    assert found['tailrace_requests_total{tailrace_server="app"}'] == 2
    assert found['tailrace_vlrt_total{tailrace_server="app"}'] == 2
    assert found['tailrace_vlrt_total{tailrace_server="db"}'] == 0
    assert found['tailrace_response_time_seconds_total{tailrace_server="app"}'] == 2
    assert found['tailrace_response_max_seconds{tailrace_server="app"}'] == 2
    assert found['tailrace_queue_length_max{tailrace_server="app"}'] == 2
    assert found['tailrace_queue_length_mean{tailrace_server="app"}'] == pytest.approx(2 / 60)
    assert found['tailrace_lost_connection_attempts_total{tailrace_server="web"}'] == 3
    assert found['tailrace_refused_connections_total{tailrace_server="web"}'] == 4


def test_incidents_are_counted_by_cause_and_have_an_exemplar() -> None:
    gauges = Gauges("1")
    gauges.incident(Incident("incident-1", cause="freeze", origin="app"), NOW)
    gauges.incident(Incident("incident-2", failed="the disk is full"), NOW)
    plain, more = (text(gauges.families(NOW), openmetrics) for openmetrics in (False, True))
    assert 'tailrace_incidents_total{tailrace_cause="freeze",tailrace_origin="app"} 1\n' in plain
    assert 'origin="app"} 1 # {tailrace_incident="incident-1"} 1 1795193380.000\n' in more
    assert "tailrace_incidents_unexplained_total 1\n" in plain
    assert more.endswith("# EOF\n")
    gauges.incident(Incident("incident-3", cause="freeze", origin="app", traces=(("1" * 32, None),)), NOW)
    [line] = [line for line in text(gauges.families(NOW), openmetrics=True).splitlines() if "# {" in line]
    assert line.endswith(f'# {{tailrace_incident="incident-3",trace_id="{"1" * 32}"}} 1 1795193380.000')


def test_names_of_strangers_cannot_write_lines_or_grow_without_bound() -> None:
    gauges = Gauges("1")
    gauges.see("stays", stays(('a"} 1\nup 0\x1b' + "b" * 500, 0.2, 0.1, 0)), NOW)
    many = stays(*((f"server{i}", 0.2, 0.1, 0.0) for i in range(SERVERS_MAX + 10)))
    gauges.see("stays", many, NOW)
    found = written(gauges)
    assert all(re.fullmatch(r'(tailrace_\w+|target_info)(\{(\w+="([^"\\\n]|\\.)*",?)+\})?', name) for name in found)
    assert found[f'tailrace_requests_total{{tailrace_server="{OTHERS}"}}'] == 11


def test_both_formats_are_written_by_the_book() -> None:
    family = Family("x.y", "counter", "s", "What.", [((("a.b", "b\\c"),), 1.5, Exemplar({"i": "j"}, NOW))])
    about = Family("target", "info", "", "Sender.", [((("service.name", "t"),), 1, None)])
    plain = ["# TYPE x_y_seconds_total counter", "# HELP x_y_seconds_total What."]
    plain += ['x_y_seconds_total{a_b="b\\\\c"} 1.5', "# TYPE target_info gauge", "# HELP target_info Sender."]
    assert text([family, about], openmetrics=False).splitlines() == [*plain, 'target_info{service_name="t"} 1']
    more = text([family, about], openmetrics=True).splitlines()
    assert more[:3] == ["# TYPE x_y_seconds counter", "# HELP x_y_seconds What.", "# UNIT x_y_seconds seconds"]
    assert more[4] == "# TYPE target info"


def test_dashboard_and_rules_use_metrics_that_exist() -> None:
    gauges = Gauges("1", {})
    gauges.see("stays", stays(("app", 3, 2, 1)), NOW)
    gauges.see("events", pl.DataFrame({"place": ["web"], "kind": ["drop"]}), NOW)
    gauges.incident(Incident("incident-1", cause="freeze", origin="app"), NOW)
    labels = set(re.findall(r'(\w+)="', " ".join(written(gauges))))
    known = {name.partition("{")[0] for name in written(gauges)} | {"tailrace_refused_connections_total"}
    dashboard = json.loads((PACKAGING / "dashboard.json").read_text())
    queries = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ()))
    for page in (queries, (PACKAGING / "alerts.yml").read_text()):
        used = set(re.findall(r"\b(?:tailrace|target)_\w+", page))
        assert used - labels
        assert used <= known | labels


PROMTOOL = shutil.which("promtool", path=f"{os.environ['PATH']}:{Path(__file__).parents[2] / '.tools' / 'bin'}")


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (tools/setup --tests)")
@pytest.mark.parametrize("incidents", [0, 1])
def test_prometheus_itself_accepts_rules_and_metrics(incidents: int) -> None:
    assert PROMTOOL is not None
    rules = subprocess.run([PROMTOOL, "check", "rules", PACKAGING / "alerts.yml"], capture_output=True, text=True)
    assert rules.returncode == 0, rules.stderr
    gauges = Gauges("1", {"10.0.0.2:80": "web"})
    gauges.see("stays", stays(("app", 3, 2, 1), ('a"\\\n', 3, 2, 1)), NOW)
    gauges.see("events", pl.DataFrame({"place": ["web"], "kind": ["drop"]}), NOW)
    for _ in range(incidents):
        gauges.incident(Incident("incident-1", cause="freeze", origin="app"), NOW)
    page = text(gauges.families(NOW), openmetrics=False)
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=page, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def fetched(url: str, accept: str = "") -> tuple[str, str]:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=20) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def asked(port: int, method: str) -> tuple[int, str | None, str | None, bytes]:
    """The code, the announced length, the allowed methods, and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, "/metrics")
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Length"), answer.getheader("Allow"), answer.read()
    connection.close()
    return found


def test_the_endpoint_serves_the_newest_text_and_ends_with_the_watch() -> None:
    listening = listen("127.0.0.1:0")
    port = listening.getsockname()[1]
    url = f"http://127.0.0.1:{port}/metrics"
    endpoint = Endpoint(listening)
    try:
        assert endpoint.offer("open # EOF\n", "plain\n")
        until = time.monotonic() + 30
        while fetched(url)[1] != "plain\n" and time.monotonic() < until:
            time.sleep(0.05)
        assert fetched(url) == ("text/plain; version=0.0.4; charset=utf-8", "plain\n")
        kind, body = fetched(url, "application/openmetrics-text; version=1.0.0")
        assert (kind.partition(";")[0], body) == ("application/openmetrics-text", "open # EOF\n")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetched(f"http://127.0.0.1:{port}/")
        assert asked(port, "HEAD") == (200, "6", None, b"")
        for method in ("POST", "DELETE", "BREW"):
            assert asked(port, method) == (405, "0", "GET, HEAD", b"")
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3 * CONNECTIONS_MAX)]
        assert fetched(url)[1] == "plain\n"
        for one in silent:
            one.close()
    finally:
        endpoint.close()
    with pytest.raises(OSError, match="refused"):
        fetched(url)


@pytest.mark.parametrize("address", ["9464", ":9464", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x", "no.invalid:80"])
def test_an_address_that_cannot_be_used_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="--metrics"):
        listen(address)
