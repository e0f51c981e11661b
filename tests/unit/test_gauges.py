"""The metrics of a watch: counted from segments, written as text, served by a process of its own."""

from __future__ import annotations

import json
import random
import re
import socket
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
    assert found['tailrace_requests_total{server="app"}'] == 2
    assert found['tailrace_vlrt_total{server="app"}'] == 2
    assert found['tailrace_vlrt_total{server="db"}'] == 0
    assert found['tailrace_response_seconds_total{server="app"}'] == 2
    assert found['tailrace_response_max_seconds{server="app"}'] == 2
    assert found['tailrace_queue_length_max{server="app"}'] == 2
    assert found['tailrace_queue_length_mean{server="app"}'] == pytest.approx(2 / 60)
    assert found['tailrace_lost_connection_attempts_total{server="web"}'] == 3
    assert found['tailrace_refused_connections_total{server="web"}'] == 4


def test_incidents_are_counted_by_cause_and_have_an_exemplar() -> None:
    gauges = Gauges("1")
    gauges.incident(Incident("incident-1", cause="freeze", origin="app"), NOW)
    gauges.incident(Incident("incident-2", failed="the disk is full"), NOW)
    plain, more = (text(gauges.families(NOW), openmetrics) for openmetrics in (False, True))
    assert 'tailrace_incidents_total{cause="freeze",origin="app"} 1\n' in plain
    assert 'origin="app"} 1 # {incident="incident-1"} 1 1795193380.000\n' in more
    assert "tailrace_incidents_unexplained_total 1\n" in plain
    assert more.endswith("# EOF\n")


def test_names_of_strangers_cannot_write_lines_or_grow_without_bound() -> None:
    gauges = Gauges("1")
    gauges.see("stays", stays(('a"} 1\nup 0\x1b' + "b" * 500, 0.2, 0.1, 0)), NOW)
    many = stays(*((f"server{i}", 0.2, 0.1, 0.0) for i in range(SERVERS_MAX + 10)))
    gauges.see("stays", many, NOW)
    found = written(gauges)
    assert all(re.fullmatch(r'tailrace_\w+(\{(\w+="([^"\\\n]|\\.)*",?)+\})?', name) for name in found)
    assert found[f'tailrace_requests_total{{server="{OTHERS}"}}'] == 11


def test_both_formats_are_written_by_the_book() -> None:
    family = Family("x", "counter", "What.", [((("a", "b\\c"),), 1.5, Exemplar({"i": "j"}, NOW))])
    assert (
        text([family], openmetrics=False) == '# TYPE x_total counter\n# HELP x_total What.\nx_total{a="b\\\\c"} 1.5\n'
    )
    assert text([family], openmetrics=True).splitlines()[:2] == ["# TYPE x counter", "# HELP x What."]


def test_dashboard_and_rules_use_metrics_that_exist() -> None:
    gauges = Gauges("1", {})
    gauges.see("stays", stays(("app", 3, 2, 1)), NOW)
    gauges.see("events", pl.DataFrame({"place": ["web"], "kind": ["drop"]}), NOW)
    gauges.incident(Incident("incident-1", cause="freeze", origin="app"), NOW)
    known = {name.partition("{")[0] for name in written(gauges)} | {"tailrace_refused_connections_total"}
    dashboard = json.loads((PACKAGING / "dashboard.json").read_text())
    queries = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ()))
    for page in (queries, (PACKAGING / "alerts.yml").read_text()):
        used = set(re.findall(r"\btailrace_\w+", page))
        assert used
        assert used <= known


def fetched(url: str, accept: str = "") -> tuple[str, str]:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=20) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


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
