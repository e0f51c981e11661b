"""What tools print in less usual forms: bpftrace, nstat, netstat and `date`, the journal and syslog, Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError
from tailrace.units import SECOND, parse_moment

T = parse_moment("2026-11-20T16:49:00Z")
FLOOD = "TCP: request_sock_TCP: Possible SYN flooding on port 8080. Sending cookies. "


def samples(path: Path, lines: list[str], *began: str) -> dict[str, list[tuple[int, float]]]:
    path.write_text("\n".join(lines) + "\n")
    run = readers.read(f"app={path}", began=began)
    frame = run.samples().collect().with_columns(pl.col("metric").cast(pl.String)).sort("time")
    return {
        str(key[0]): [((time - T) // SECOND, value) for time, value in part.select("time", "value").iter_rows()]
        for key, part in frame.group_by("metric", maintain_order=True)
    }


def test_packets_that_bpftrace_prints(tmp_path: Path) -> None:
    again = [
        "Tracing TCP retransmits. Hit Ctrl-C to end.",
        "TIME     PID      LADDR:LPORT          RADDR:RPORT          STATE",
        "16:49:01 0        10.0.0.2:41122       10.0.0.3:8080        SYN_SENT",
        "16:49:01 0        10.0.0.2:41124       10.0.0.3:8080        ESTABLISHED",
    ]
    day = "app=2026-11-20T00:00:00Z"
    assert samples(tmp_path / "again.txt", again, day) == {"syn_retransmits": [(2, 1.0)], "tcp_retransmits": [(2, 1.0)]}
    dropped = [
        "TIME     PID      COMM             SADDR:SPORT          DADDR:DPORT          STATE",
        "16:49:01 12       nginx                  10.0.0.2:41122        10.0.0.3:8080 LISTEN",
        "\ttcp_drop+1",
        "16:49:01 12       nginx                  10.0.0.2:41122        10.0.0.3:8080 ESTABLISHED",
    ]
    assert samples(tmp_path / "dropped.txt", dropped, day) == {"listen_drops": [(2, 1.0)], "tcp_drops": [(2, 1.0)]}


@pytest.mark.parametrize(
    "date",
    ["{}", "Fri Nov 20 16:49:0{} UTC 2026", "Fri 20 Nov 2026 04:49:0{} PM UTC", "Fri Nov 20 04:49:0{} PM +00 2026"],
)
@pytest.mark.parametrize(
    "dump",
    [
        ["TcpExtListenDrops               {}                  0.0"],
        ['{{"kernel":{{"TcpExtListenOverflows":7, "TcpExtListenDrops":{}}}}}'],
        ["TcpExt:", "    {} SYNs to LISTEN sockets dropped"],
    ],
)
def test_dumps_of_counters_after_a_date(tmp_path: Path, date: str, dump: list[str]) -> None:
    stamps = [T // SECOND + i for i in (1, 2)] if date == "{}" else [1, 2]
    lines = [line for i, at in enumerate(stamps) for line in (date.format(at), *(each.format(5 * i) for each in dump))]
    assert samples(tmp_path / "sockets.txt", lines) == {"listen_drops": [(2, 5.0)]}


def events(path: Path, *began: str) -> list[tuple[str, int, int]]:
    frame = readers.read(f"app={path}", began=began).events().collect().with_columns(pl.col("kind").cast(pl.String))
    return [(kind, begin - T, end - T) for kind, begin, end in frame.select("kind", "begin", "end").rows()]


def test_the_journal_as_json_and_syslog_without_years(tmp_path: Path) -> None:
    journal = {"__REALTIME_TIMESTAMP": str((T + 123_456_000) // 1000), "_HOSTNAME": "app1", "MESSAGE": FLOOD}
    path = tmp_path / "kern.log"
    path.write_text(json.dumps(journal) + "\n")
    assert events(path) == [("syn_flooding", 123_456_000, 123_456_000)]
    path.write_text(f"Dec 31 23:59:59 app1 kernel: eth0: up\nNov 20 16:49:00 app1 kernel: [  100.1] {FLOOD}\n")
    assert events(path, "app=2026-11-20T16:00:00Z") == [("syn_flooding", 0, 0)]
    with pytest.raises(InputError, match="no year"):
        events(path)
    path.write_text(f"6,1234,100500000,-;{FLOOD}\n")
    assert events(path, "app=2026-11-20T16:47:20Z") == [("syn_flooding", SECOND // 2, SECOND // 2)]


def test_events_of_kubernetes_that_were_seen_again(tmp_path: Path) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "reason": "BackOff", "regarding": {"name": "a"},
        "eventTime": "2026-11-20T16:49:00.000000Z",
        "series": {"count": 5, "lastObservedTime": "2026-11-20T16:49:09.000000Z"},
    }  # fmt: skip
    bookmark = {"type": "BOOKMARK", "object": {"kind": "Event", "apiVersion": "v1", "metadata": {}}}
    path = tmp_path / "watch.json"
    path.write_text(json.dumps({"type": "ADDED", "object": event}) + "\n" + json.dumps(bookmark) + "\n")
    assert events(path) == [("k8s BackOff", 0, 9 * SECOND)]
    assert not readers.read(path).lost()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("LAST SEEN   TYPE      REASON      OBJECT  MESSAGE\n2m10s  Warning  BackOff  pod/a\n", "Kubernetes as text"),
        ("  Task                  |   Runtime ms  | Switches |\n  java:77  |   1234.567 ms |   10 |\n", "perf sched"),
    ],
)  # fmt: skip
def test_summaries_are_refused_by_name(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "out.txt").write_text(text)
    with pytest.raises(InputError, match=what):
        readers.read(tmp_path / "out.txt")
