"""Events of the kernel and of Kubernetes, dumps of sockets, Netdata, histograms and Locust; by hand from the files in
tests/golden/readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.units import MILLISECOND, SECOND, parse_moment

FILES = Path(__file__).parents[1] / "golden" / "readers"
T = parse_moment("2026-11-20T16:49:00Z")


def events(run: Dataset) -> list[tuple[Any, ...]]:
    """Place, kind, begin and end in ms after T."""
    run.validate()
    found = run.events().select(pl.col("place", "kind").cast(pl.String), "begin", "end").collect().rows()
    return [(place, kind, (begin - T) // MILLISECOND, (end - T) // MILLISECOND) for place, kind, begin, end in found]


def values(path: Path | str, metric: str, place: str) -> list[tuple[int, float]]:
    samples = readers.read(path).samples().with_columns(pl.col("metric", "place").cast(pl.String)).collect()
    found = samples.filter((pl.col("metric") == metric) & (pl.col("place") == place))
    return found.select("time", pl.col("value").round(6)).rows()


def test_lines_of_the_kernel_become_events() -> None:
    assert events(readers.read(FILES / "kernellog" / "dmesg.txt")) == [
        ("host", "syn_flooding", 0, 0),
        ("host", "hung_task", 0, 120_000),
        ("host", "oom_kill", 5000, 5000),
    ]
    assert events(readers.read(f"node7={FILES / 'kernellog' / 'iso.txt'}")) == [
        ("node7", "soft_lockup", 123 - 22_000, 123),
        ("node7", "thermal_throttling", 1000, 1000),
    ]
    assert events(readers.read(FILES / "kernellog" / "journal.txt")) == [
        ("app1", "syn_flooding", 123, 123),
        ("app1", "conntrack_full", 1000, 1000),
    ]


def test_a_log_that_counts_from_the_start_of_the_machine_needs_its_start(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    path.write_text("[    1.000000] Linux version 6.1\n[ 5000.250000] Out of memory: Killed process 950 (java)\n")
    with pytest.raises(InputError, match="its lines have no date, or no year; pass the start of the machine"):
        readers.read(path)
    run = readers.read(path, began=["dmesg=2026-11-20T15:25:40Z"])
    assert events(run) == [("host", "oom_kill", 250, 250)]


def test_events_of_kubernetes() -> None:
    run = readers.read(FILES / "kubernetes" / "events.json")
    assert events(run) == [
        ("app-1", "k8s Unhealthy", 0, 20_000),
        ("app-1", "k8s OOMKilling", 5000, 5000),
        ("app-2", "k8s Scheduled", 6123, 6123),
    ]
    assert run.lost() == {"events.json: events without a time or a reason": 1}


def test_events_that_are_of_no_jvm_leave_the_place_of_a_jvm_alone(tmp_path: Path) -> None:
    run = readers.read(FILES / "kubernetes" / "events.json", f"app={FILES / 'gclog' / 'jdk17-g1.log'}")
    assert {place for place, *_ in events(run)} == {"app", "app-1", "app-2"}


def test_a_watch_of_kubernetes_counts_an_event_once(tmp_path: Path) -> None:
    watch = FILES / "kubernetes" / "watch.json"
    want = [("app-1", "k8s Unhealthy", 0, 20_000), ("app-2", "k8s Unhealthy", 0, 1_000)]
    assert sorted(events(readers.read(watch))) == want
    objects = [json.loads(line)["object"] for line in watch.read_text().splitlines()]
    (tmp_path / "w.json").write_text("".join(json.dumps(one, indent=4) for one in objects))
    assert sorted(events(readers.read(tmp_path / "w.json"))) == want
    audit = '{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","requestURI":"/","user":{}}\n'
    (tmp_path / "audit.json").write_text(audit)
    with pytest.raises(InputError, match="neither a capture"):
        readers.read(tmp_path / "audit.json")


def test_dumps_of_sockets() -> None:
    path = FILES / "sockets" / "ss.txt"
    first, second = T + 100 * MILLISECOND, T + 200 * MILLISECOND
    assert values(path, "accept_queue", "0.0.0.0:8080") == [(first, 0.0), (second, 129.0)]
    assert values(f"app1={path}", "accept_queue_limit", "app1:8080") == [(first, 128.0), (second, 128.0)]
    assert values(path, "listen_drops", "host") == [(second, 12.0)]
    assert values(path, "syn_retransmits", "host") == [(second, 2.0)]
    recorded = values(FILES / "sockets" / "recorded-netstat.txt", "listen_drops", "host")
    assert [value for _, value in recorded] == [0.0, 0.0]


def test_what_connections_sent_again_between_dumps() -> None:
    """The connection that the second dump has first sent nine segments again, nobody knows when."""
    found = values(FILES / "sockets" / "ss-details.txt", "tcp_retransmits", "host")
    assert found == [(T + 600 * MILLISECOND, 3.0), (T + 1100 * MILLISECOND, 0.0)]


@pytest.mark.parametrize("name", ["system.cpu.json", "system.cpu.csv"])
def test_the_chart_of_cpus_of_netdata(name: str) -> None:
    path = f"app1={FILES / 'netdata' / name}"
    assert values(path, "cpu_busy", "app1") == [(T + SECOND, 0.2), (T + 2 * SECOND, 0.5)]
    assert values(path, "cpu_iowait", "app1") == [(T + SECOND, 0.04), (T + 2 * SECOND, 0.0)]


def test_histograms_have_modes_and_no_requests() -> None:
    """Each second a thousand responses of 4 to 8 ms; in the second one also seven of 1,003 to 1,009 ms and two of
    3,005 ms. hdrhistogram wrote the file, with three digits."""
    path = FILES / "histograms" / "wrk.hlog"
    ends = [T + 123 * MILLISECOND + n * SECOND for n in (1, 2, 3)]
    assert values(path, "responses", "server") == list(zip(ends, (1000, 1009, 1000), strict=True))
    assert values(path, "responses_over_1s", "server") == list(zip(ends, (0, 9, 0), strict=True))
    run = readers.read(path)
    assert "requests" not in run.manifest.rows
    said = next(note for note in run.manifest.notes if "groups" in note)
    assert "3,000 took 4 ms to 8 ms" in said
    assert "7 took 1 s to 1.01 s; 2 took 3" in said


def test_damaged_histograms_are_counted(tmp_path: Path) -> None:
    text = (FILES / "histograms" / "wrk.hlog").read_text()
    (tmp_path / "log").write_text(text.replace("HISTFAAA", "HIST!AAA", 1) + "3.0,1.0,5.0,AAAA\n")
    assert readers.read(tmp_path / "log").lost() == {"log: damaged lines": 2}


def test_the_history_of_locust() -> None:
    run = readers.read(FILES / "locust" / "stats_history.csv")
    metrics = set(run.samples().select(pl.col("metric").cast(pl.String).unique()).collect().to_series())
    assert {"users", "response_time_p99_ms", "response_time_max_ms"} <= metrics
    assert "requests" not in run.manifest.rows


def test_packets_that_bcc_saw() -> None:
    files = FILES / "bcc"
    assert "it has times of day and no date" in " ".join(readers.read(files / "tcpretrans.txt").manifest.notes)
    run = readers.read(f"app1={files / 'tcpretrans.txt'}", began=["2026-11-20T16:49:00Z"])
    found = run.samples().with_columns(pl.col("metric", "place").cast(pl.String)).collect()
    counts = [
        found.filter(pl.col("metric") == metric).select("time", "value").rows()
        for metric in ("syn_retransmits", "tcp_retransmits")
    ]
    ends = [T + n * SECOND for n in (2, 3, 4)]
    assert counts == [list(zip(ends, (2, 0, 1), strict=True)), list(zip(ends, (0, 0, 1), strict=True))]
    drops = readers.read(files / "tcpdrop.txt", began=["2026-11-20"])
    metrics = set(drops.samples().select(pl.col("metric").cast(pl.String)).collect().to_series())
    assert metrics == {"listen_drops", "tcp_drops"}


def test_files_of_collectd_are_read_by_their_folders(tmp_path: Path) -> None:
    folder = FILES.parent / "collectd" / "app1" / "cpu-0"
    run = readers.read(*sorted(folder.iterdir()))
    found = run.samples().with_columns(pl.col("metric", "place").cast(pl.String)).collect()
    busy = found.filter((pl.col("metric") == "cpu_busy") & (pl.col("place") == "app1/cpu0"))
    assert busy.select("time", "value").rows() == [(T + SECOND, 0.2), (T + 2 * SECOND, 0.5)]
    (tmp_path / "load-2026-11-20").write_text("epoch,value\n1795193341.000,1.0\n")
    with pytest.raises(InputError, match="it is a file of collectd's csv plugin, and only those of cpu"):
        readers.read(tmp_path / "load-2026-11-20")


def test_events_of_the_newer_interface_of_kubernetes(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "events.k8s.io/v1", "kind": "Event", '
        '"eventTime": null, "reason": "BackOff", "note": "again", "regarding": {"kind": "Pod", "name": "web-1"}, '
        '"deprecatedCount": 3, "deprecatedFirstTimestamp": "2026-11-20T16:48:00Z", '
        '"deprecatedLastTimestamp": "2026-11-20T16:49:00Z"}]}'
    )
    [event] = readers.read(path).events().collect().to_dicts()
    assert (event["place"], event["kind"], event["detail"]) == ("web-1", "k8s BackOff", "3 times: again")
    assert event["end"] - event["begin"] == 60_000_000_000


def test_levels_of_dmesg_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "dmesg.txt"
    path.write_text(
        "kern  :warn  : [Fri Nov 20 16:49:01 2026] TCP: Possible SYN flooding on port 80. Sending cookies.\n"
    )
    assert readers.read(path).events().collect()["kind"].to_list() == ["syn_flooding"]
