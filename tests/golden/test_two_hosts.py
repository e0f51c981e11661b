"""The bundled recording as two hosts would have captured it, with clocks seconds apart: the answer must be the same."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tailrace import _core, readers
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.join import join

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DEMO = Path(__file__).parents[2] / "demo" / "packets.pcap.zst"
SERVERS = {"web": "10.77.0.3:80", "app": "10.77.0.4:8009", "db": "10.77.0.5:3306"}
WEB, APP = bytes((10, 77, 0, 3)), bytes((10, 77, 0, 4))
SHIFT_US = 2_345_678
ADDRESSES = slice(14 + 12, 14 + 20)
"""Source and destination of an IPv4 packet in an Ethernet frame."""

pytestmark = pytest.mark.skipif(not hasattr(_core, "decode"), reason="the engine here has no decoder")


def packets(capture: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Time in microseconds, lengths as they stand, frame."""
    at = 24
    while at < len(capture):
        seconds, micros, length = struct.unpack_from("<III", capture, at)
        yield seconds * 1_000_000 + micros, capture[at + 8 : at + 16], capture[at + 16 : at + 16 + length]
        at += 16 + length


def seen_by(host: bytes, capture: bytes, shift_us: int) -> bytes:
    rows = [capture[:24]]
    for time_us, lengths, frame in packets(capture):
        addresses = frame[ADDRESSES]
        if host in (addresses[:4], addresses[4:]):
            rows += [struct.pack("<II", *divmod(time_us + shift_us, 1_000_000)), lengths, frame]
    return b"".join(rows)


@pytest.mark.parametrize("first", ["web", "app"])
def test_clocks_seconds_apart_do_not_change_the_answer(tmp_path: Path, first: str) -> None:
    whole = zstd.decompress(DEMO.read_bytes())
    web, app = tmp_path / "web.pcap", tmp_path / "app.pcap"
    web.write_bytes(seen_by(WEB, whole, 0))
    app.write_bytes(seen_by(APP, whole, SHIFT_US))
    files = (web, app) if first == "web" else (app, web)
    run = readers.read(*files, servers=SERVERS, out=tmp_path / "run")
    alone = readers.read(DEMO, servers=SERVERS, out=tmp_path / "alone")
    offsets = {Path(clock.capture).name: clock.offset_ns for clock in run.topology.clocks}
    assert offsets["app.pcap"] - offsets["web.pcap"] == pytest.approx(-SHIFT_US * 1000, abs=1000)
    found, expected = diagnose(run), diagnose(alone)
    assert (found.requests, found.vlrt) == (expected.requests, expected.vlrt)
    assert found.summary == expected.summary


HOSTS = {"web": (WEB, 0), "app": (APP, SHIFT_US), "db": (bytes((10, 77, 0, 5)), -777_777_777)}
SAME = ["server", "interaction", "sent", "arrival", "first_byte", "departure", "drops", "data_drops", "status"]


def rows(run: Dataset, table: str, columns: list[str]) -> pl.DataFrame:
    frame: pl.LazyFrame = getattr(run, table)()
    texts = frame.with_columns(pl.col(pl.Categorical).cast(pl.String))
    return texts.select(columns).collect().sort(columns)


def test_run_folders_of_three_hosts_become_that_of_one_capture(tmp_path: Path) -> None:
    whole = zstd.decompress(DEMO.read_bytes())
    runs = {}
    for name, (address, shift_us) in HOSTS.items():
        (tmp_path / f"{name}.pcap").write_bytes(seen_by(address, whole, shift_us))
        runs[name] = readers.read(tmp_path / f"{name}.pcap", servers=SERVERS, out=tmp_path / name)
    alone = readers.read(DEMO, servers=SERVERS, out=tmp_path / "alone")
    joined = join(runs, tmp_path / "run")
    assert joined.both == {"app": 9030, "db": 18109}
    for name, offset in joined.offsets.items():
        assert abs(offset.offset_ns + HOSTS[name][1] * 1000) <= offset.bound_ns
    joined.run.validate()
    assert_frame_equal(rows(joined.run, "visits", SAME), rows(alone, "visits", SAME))
    entries = ["server", "sent", "end", "status", "drops"]
    assert_frame_equal(rows(joined.run, "requests", entries), rows(alone, "requests", entries))
    assert_frame_equal(
        rows(joined.run, "events", ["place", "kind", "begin"]), rows(alone, "events", ["place", "kind", "begin"])
    )
    tiers = [{server.name: server.tier for server in run.topology.servers} for run in (joined.run, alone)]
    assert tiers[0] == tiers[1]
    # Few visits have another parent: three captures show a few calls less than one does.
    orphans = [run.visits().collect()["parent"].null_count() for run in (joined.run, alone)]
    assert abs(orphans[0] - orphans[1]) < 0.001 * joined.run.manifest.rows["visits"]
    found, expected = diagnose(joined.run), diagnose(alone)
    assert (found.requests, found.vlrt, found.summary) == (expected.requests, expected.vlrt, expected.summary)
