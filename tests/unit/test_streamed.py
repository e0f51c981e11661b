"""Captures on standard input: files that follow one another are one capture, and a killed read can be run again."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from recordings import recording

HEADER, RECORD = 24, 16
PARTS = 3


@pytest.fixture(scope="module")
def packets() -> bytes:
    """The beginning of a real capture."""
    stream = pa.input_stream(str(recording("sync-control") / "packets.pcap.zst"), compression="zstd")
    found = bytes(stream.read())
    places = list(records(found))
    return found[: places[len(places) // 5]]


def reading(out: Path) -> subprocess.Popen[bytes]:
    words = (sys.executable, "-m", "tailrace", "read", "-", "-o", str(out), "--quiet")
    return subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


def tables(out: Path, stream: bytes) -> dict[str, bytes]:
    """What is read of a capture on standard input."""
    process = reading(out)
    _, said = process.communicate(stream)
    assert process.returncode == 0, said
    found = {path.name: path.read_bytes() for path in out.glob("*.parquet")}
    assert {"visits.parquet", "requests.parquet"} <= found.keys()
    return found


@pytest.fixture(scope="module")
def whole(packets: bytes, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return tables(tmp_path_factory.mktemp("whole") / "run", packets)


def records(packets: bytes) -> Iterator[int]:
    """Where each record begins, and where the last one ends."""
    at = HEADER
    while at < len(packets):
        yield at
        at += RECORD + struct.unpack_from("<I", packets, at + 8)[0]
    yield at


def rotated(packets: bytes) -> list[bytes]:
    """Files as a rotating capture writes them."""
    places = list(records(packets))
    cuts = [places[len(places) * part // PARTS] for part in range(PARTS)]
    return [packets[:HEADER] + packets[begin:end] for begin, end in pairwise([*cuts, len(packets)])]


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_files_that_follow_one_another_are_one_capture(
    pack: type[bytes], packets: bytes, whole: dict[str, bytes], tmp_path: Path
) -> None:
    files = rotated(packets)
    assert len(files) == PARTS
    assert tables(tmp_path / "run", b"".join(map(pack, files))) == whole


def test_a_read_that_was_killed_half_way_gives_the_same_tables_when_it_is_run_again(
    packets: bytes, whole: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = reading(out)
    assert process.stdin is not None
    process.stdin.write(packets[: len(packets) // 2])  # a pipe holds 64 KiB: the rest has been taken
    process.stdin.flush()
    process.kill()
    process.communicate()
    assert not out.exists()
    assert tables(out, packets) == whole
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
