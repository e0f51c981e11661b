"""What a watch counts as the sign of an incident, and what as usual."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from tailrace.watch.incidents import listeners
from tailrace.watch.noticing import CLUSTER, Notice

SECOND = 1_000_000_000


def events(folder: Path, drops: int) -> Path:
    path = folder / "00000001.events.parquet"
    pl.DataFrame({"place": ["web"] * drops + ["db"], "kind": ["drop"] * drops + ["gc"]}).write_parquet(path)
    return path


def samples(folder: Path, *rows: tuple[int, str, str, float]) -> Path:
    path = folder / "00000002.samples.parquet"
    pl.DataFrame(rows, schema=["time", "place", "metric", "value"], orient="row").write_parquet(path)
    return path


def stays(folder: Path, *seconds: float) -> Path:
    path = folder / "00000003.stays.parquet"
    departures = [int(1000 * s) * 1_000_000 for s in seconds]
    pl.DataFrame({"server": "web", "sent": [0] * len(seconds), "departure": departures}).write_parquet(path)
    return path


def test_many_lost_connections_are_a_sign_and_a_single_one_is_not(tmp_path: Path) -> None:
    assert Notice().see(events(tmp_path, CLUSTER - 1)) == []
    assert Notice().see(events(tmp_path, CLUSTER)) == ["5 connection attempts to web were lost"]


def test_what_goes_on_all_the_time_is_noticed_once(tmp_path: Path) -> None:
    notice = Notice()
    assert [bool(notice.see(events(tmp_path, 20))) for _ in range(10)] == [True] * 7 + [False] * 3
    assert notice.see(events(tmp_path, 200))


def test_refused_connections_and_a_full_accept_queue_are_signs(tmp_path: Path) -> None:
    calm = samples(
        tmp_path,
        (1, "host", "listen_drops", 4.0),
        (1, "host:80", "accept_queue", 127.0),
        (1, "host:80", "accept_queue_limit", 128.0),
        (1, "host:81", "accept_queue", 0.0),
        (1, "host:81", "accept_queue_limit", 0.0),
    )
    assert Notice().see(calm) == []
    full = samples(
        tmp_path,
        (1, "host", "listen_drops", 3.0),
        (2, "host", "listen_drops", 2.0),
        (1, "host:80", "accept_queue", 129.0),
        (1, "host:80", "accept_queue_limit", 128.0),
    )
    assert Notice().see(full) == ["host refused 5 connections", "the accept queue of host:80 was full in 1 samples"]
    assert "the accept queue of nginx was full in 1 samples" in Notice(names={"host:80": "nginx"}).see(full)


def test_a_listener_has_the_name_of_its_server(tmp_path: Path) -> None:
    state = {
        "nodes": [{"name": "host", "addresses": ["10.0.0.3", "::1"]}],
        "servers": {"nginx": ["10.0.0.3:80", "[::1]:80"], "elsewhere": ["10.0.0.9:80"]},
    }
    (tmp_path / "recording.json").write_text(json.dumps(state))
    assert listeners(tmp_path, {"shop": "10.0.0.3:8000"}) == {"host:80": "nginx", "host:8000": "shop"}


def test_very_long_requests_are_a_sign(tmp_path: Path) -> None:
    assert Notice().see(stays(tmp_path, 0.9, *[0.01] * 100, *[1.0] * 4)) == []
    assert Notice().see(stays(tmp_path, *[1.0] * 5)) == ["5 requests to web took 950 ms or longer"]


def test_a_segment_that_is_gone_or_damaged_is_no_sign(tmp_path: Path) -> None:
    assert Notice().see(tmp_path / "00000009.events.parquet") == []
    damaged = tmp_path / "00000010.samples.parquet"
    damaged.write_bytes(b"PAR1")
    assert Notice().see(damaged) == []
    assert Notice().see(tmp_path / "00000011.packets.pcap") == []
