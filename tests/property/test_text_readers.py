"""Any bytes: a reader returns what it could read or gives the reason in a sentence. It never crashes."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tailrace import readers
from tailrace.errors import InputError
from tailrace.readers import READERS, Reader, Source
from tailrace.readers.source import Found

GOLDEN = sorted(
    path
    for path in (Path(__file__).parents[1] / "golden" / "readers").glob("*/*")
    if not path.name.endswith(".expected.json")
)
WHOLE = [gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in GOLDEN]
# Fragments of the text that readers look for, so that damage reaches their depths.
SHARDS = [
    *(b"[2026-11-20T16:52:55.693+0000]", b"[33.7s]", b"[gc]", b" GC(5) Pause Young ", b"4.859ms", b"-9ms", b"GC("),
    *(
        b"2026-11-20T16:52:55.688+0000: 33.703: [GC",
        b", 0.01 secs]",
        b'Safepoint "',
        b" Total: 99999999999999999999 ns",
    ),
    *(
        b"time,place,metric,value\n",
        b"1795193376.2704,",
        b"web,cpu_busy,",
        b"1e308",
        b"nan",
        b"\n",
        b"\r\n",
        b'"',
        b",",
    ),
    *(b"#Date Time [CPU]User% [MEM]Dirty\n", b"#UTC [CPU:0]User%\n", b"20261120 18:00:38.503 ", b"# Collectl: "),
    *(
        b"Interval: 0",
        b"Interval: .1",
        b"TZ: +9999",
        b"PAR1",
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"\xef\xbb\xbf",
        b"\x00",
    ),
    *(b"9" * 40, b";", b"\t"),
]
SETTINGS = settings(suppress_health_check=list(HealthCheck))


def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(WHOLE)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["flip", "cut", "insert", "delete", "repeat"])):
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at:]
            case "insert":
                data[at:at] = draw(st.sampled_from(SHARDS))
            case "delete":
                del data[at : at + draw(st.integers(1, 200))]
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 200))]
    return bytes(data)


damaged = st.composite(mutated)()
rubble = st.lists(st.one_of(st.sampled_from(SHARDS), st.binary(max_size=8)), max_size=60).map(b"".join)


def try_reading(reader: Reader, data: bytes) -> Found | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file-host-20261120.tab"
        path.write_bytes(data)
        source = Source(path)
        try:
            reader.sniff(path.name, source.head())
            found = reader.read([source])
        except InputError as error:
            if path.name not in str(error):
                raise AssertionError("an error names its file") from error
            return None
        for frame in found.samples:
            assert frame.select("time", "interval_ns", "metric", "value").null_count().sum_horizontal().item() == 0
            assert frame.get_column("value").is_finite().all()
            assert (frame.get_column("interval_ns") >= 0).all()
        assert all((frame["begin"] <= frame["end"]).all() for frame in found.events)
        assert all((frame["sent"] <= frame["end"]).all() for frame in found.requests)
        for frame in found.visits:
            assert ((frame["sent"] <= frame["arrival"]) & (frame["arrival"] <= frame["departure"])).all()
            assert (frame["parent"].is_null() | (frame["parent"] < frame["visit"])).all()
        return found


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
@SETTINGS
@given(data=st.one_of(damaged, rubble, st.binary(max_size=2000)))
@example(data=b"\x00\r\x00")
@example(data=b'time,metric,value\n"1795193376,a,1\n')
def test_no_bytes_crash_a_reader(reader: Reader, data: bytes) -> None:
    try_reading(reader, data)


@SETTINGS
@given(data=damaged, cut=st.floats(0, 1))
def test_broken_compression_gives_what_came_before_or_a_sentence(data: bytes, cut: float) -> None:
    packed = gzip.compress(data)
    broken = packed[: int(len(packed) * cut)]
    for reader in READERS:
        try_reading(reader, broken)


@SETTINGS
@given(data=st.one_of(damaged, rubble))
def test_reading_a_file_of_any_kind_gives_a_whole_run_or_nothing(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.log"
        path.write_bytes(data)
        target = Path(folder) / "run"
        if data.startswith((b"\xd4\xc3\xb2\xa1", b"\x0a\x0d\x0d\x0a")):
            return
        try:
            readers.read(path, out=target).validate()
        except InputError:
            assert not target.exists()
        assert {entry.name for entry in Path(folder).iterdir()} <= {"file.log", "run"}
