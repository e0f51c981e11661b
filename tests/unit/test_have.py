"""What people already have is read as the page says, and shows what the page says that one may expect."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/use-what-you-have.md"
COMMAND = re.compile(r"^\$ (tailrace .*)$", re.MULTILINE)

HAVE = {
    **{"access.log": "accesslog/nginx-timed.log", "access.json": "accesslog/nginx.json.log"},
    **{"haproxy.log": "accesslog/haproxy.log", "traces.json": "traces/otlp.jsonl", "sar.json": "sadf/sar.json"},
    **{"jaeger.json": "traces/jaeger.json", "zipkin.json": "traces/zipkin.json", "gc.log": "gclog/jdk17-g1.log"},
    **{"envoy.log": "accesslog/envoy.log", "alb.log": "accesslog/alb.log", "mysql-slow.log": "dblog/mysql-slow.log"},
    **{"results.jtl": "loadtest/jmeter.jtl", "hey.csv": "loadtest/hey.csv"},
    **{"vmstat.txt": "vmstat/vmstat-t.txt", "iostat.txt": "sysstat_text/iostat-t.txt"},
    **{"node.json": "prometheus/node.json", "telegraf.lp": "influx/telegraf.lp"},
    **{"metrics.jsonl": "otlpmetrics/metrics.jsonl", "influx.csv": "influx/annotated.csv"},
    **{"system.cpu.json": "netdata/system.cpu.json"},
    **{"cpu_busy.json": "prometheus/cpu_busy.json", "wide.csv": "wide/wide.csv"},
}


WIDE = {**os.environ, "COLUMNS": "200"}
LOST = "connection attempts to app got no answer and were sent again 1 s later"
"""What the traces show alone: a gap of 1 s between the spans of the client and the server."""
EXPECTED = {
    "web=access.log": (
        "4 of 6 requests",
        "2 sent connection attempts that got no answer",
        "lost before this server are",
    ),
    "web=access.log --server app=": ("4 of 6 requests", "spent the most time in app."),
    "web=access.json": ("1 of 2 requests", "connection attempt to 10.0.0.3:8080 got no answer"),
    "web=apache.log": (
        "1 request",
        "attempts that were lost before this server are not in its log",
    ),
    "lb=haproxy.log": (
        "2 of 4 requests",
        "waited in HAProxy's own queue",
        "1 sent connection attempts that got no answer",
    ),
    "gateway=envoy.log": ("1 of 4 requests", "given up by clients before gateway answered"),
    "lb=alb.log": ("1 of 2 requests", "whether packets were lost was not recorded"),
    "web=access.log db=mysql-slow.log": (
        "4 of 6 requests",
        "mysql-slow.log: no query took less than",
        "has a threshold",
    ),
    "results.jtl": ("2 of 41 requests", "1 of 41 requests was refused", "indirect evidence"),
    "web=hey.csv wide.csv": ("17 of 240 requests", "connection attempts to web got no answer", "wide.csv: 5 samples"),
    "traces.json": ("3 of 5 requests", LOST, "Whether app dropped them or they were lost on the way is not known"),
    "jaeger.json": ("None of the 1 request took", "if a sampler dropped traces, queue lengths are too small"),
    "zipkin.json": ("None of the 1 request took", "if a sampler dropped traces, queue lengths are too small"),
    "traces.json app=gc.log sar.json --place app1=app": (
        "3 of 5 requests",
        LOST,
        "its stamps are whole seconds",
    ),
    "traces.json app=gc.log sar.json --place app1=app -o all": (
        "requests 5",
        "JVM garbage",
        "what lasts 2 s or longer",
    ),
    "all": ("indirectly", "JVM garbage", "what lasts 2 s or longer"),
    "packets.pcap web=access.log": ("another input counts", "this one's are visits only"),
    "run": ("another input counts", "seen whole", "this one's are visits only"),
    "traces.json node.json": ("lost on the way and sent again 1 s later", "100 % explained"),
    "traces.json telegraf.lp": ("lost on the way and sent again 1 s later", "100 % explained"),
    "traces.json metrics.jsonl": ("3 of 5 requests", LOST),
    "traces.json influx.csv": ("3 of 5 requests", LOST, "influx.csv: 9 samples without an interval"),
    "traces.json cpu_busy.json": ("3 of 5 requests", LOST, "cpu_busy.json: 3 samples without an interval"),
    "traces.json collectd/": ("3 of 5 requests", LOST, "4 samples without an interval"),
    "traces.json app=system.cpu.json": ("app dropped their connection attempts, which were sent again 1 s later",),
    "quic.pcap --keys": ("None of the 19 requests", "1 of these packets never reached the server"),
    "quic.pcap -o handshakes": ("no end-to-end requests", "drop 1", "The secrets of their sessions would show them"),
    "handshakes": ("no end-to-end requests", "drop 1", "The secrets of their sessions would show them"),
    "traces.json app1=vmstat.txt iostat.txt": ("3 of 5 requests", LOST, "are taken as UTC"),
    "web=access.log wide.csv": ("4 of 6 requests", "wide.csv: 5 samples without an interval"),
}
"""By how the arguments of a command begin, the longest that fits; what it prints, with single spaces."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("have")
    golden = ROOT / "tests" / "golden"
    for name, file in HAVE.items():
        shutil.copyfile(golden / "readers" / file, folder / name)
    for name, file in {"packets.pcap": "http.pcap", "quic.pcap": "quic.pcap", "sslkeys.log": "quic.keys"}.items():
        shutil.copyfile(golden / "captures" / file, folder / name)
    drops = {"labels": ["time", "overflows", "drops"], "data": [[1795193341, 3, 3], [1795193340, 0, 0]]}
    (folder / "ip.tcp_accept_queue.json").write_text(json.dumps({"id": "ip.tcp_accept_queue", "result": drops}))
    for name, share in (("idle", "75.0"), ("wait", "5.0")):
        file = folder / "collectd" / "app1" / "cpu-0" / f"cpu-{name}-2026-11-20"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"epoch,value\n1795193341.000,{share}\n1795193342.000,{share}\n")
    (folder / "apache.log").write_text('a - - [20/Nov/2026:16:49:01 +0000] "GET / HTTP/1.1" 200 5 250 12000\n')
    return folder


def test_each_command_of_the_page_shows_what_one_may_expect(folder: Path) -> None:
    commands = COMMAND.findall(PAGE.read_text())
    assert [name for name in HAVE if not any(name in command for command in commands)] == []
    seen = set()
    for command in commands:
        arguments = command.split(" ", 2)[2]
        key = max((key for key in EXPECTED if arguments.startswith(key)), key=len)
        seen.add(key)
        line = command.replace("tailrace ", f"{sys.executable} -m tailrace ", 1)
        done = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, env=WIDE)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        printed = " ".join(done.stdout.split())
        assert [words for words in EXPECTED[key] if words not in printed] == [], command
    assert seen == set(EXPECTED)


def test_queues_of_an_access_log_need_times_to_the_millisecond(folder: Path) -> None:
    text = (folder / "access.log").read_text()
    (folder / "whole.log").write_text(re.sub(r"msec=(\d+)\.\d+", r"msec=\1", text))
    line = f"{sys.executable} -m tailrace diagnose web=whole.log"
    done = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, env=WIDE)
    assert "queues in steps of 50 ms, and what a server did meanwhile are unknown" in " ".join(done.stdout.split())
