"""The bundled recording as two hosts would have captured it, with clocks seconds apart: the answer must be the same."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace import _core, readers
from tailrace.diagnosis import diagnose

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
