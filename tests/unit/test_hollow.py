"""A text log with NUL bytes, which a truncation leaves, is read without them, and the loss is reported."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace
from tailrace.errors import InputError
from tailrace.readers import hollow
from tailrace.readers.source import Found, Source

LINE = (
    '10.0.0.9 - - [20/Nov/2026:16:49:{second:02} +0000] "GET /{i} HTTP/1.1" 200 5 msec=1795193340.{i:03} rt=0.0{i:02} '
    'uct="0.000" urt="0.001" ua="10.0.0.3:80"\n'
)
LINES = [LINE.format(i=i, second=i % 60).encode() for i in range(10, 90)]
WHOLE = b"".join(LINES)


@pytest.mark.parametrize("size", [16, 1000, 100_000, 3_000_001])
@pytest.mark.parametrize("packed", [False, True])
def test_a_truncated_log_is_read_after_its_nul_bytes(tmp_path: Path, size: int, packed: bool) -> None:
    file, usual = tmp_path / "access.log", tmp_path / "usual.log"
    content = bytes(size) + WHOLE
    file.write_bytes(gzip.compress(content) if packed else content)
    usual.write_bytes(WHOLE)
    run, expected = tailrace.read(f"web={file}"), tailrace.read(f"web={usual}")
    assert run.visits().collect().equals(expected.visits().collect())
    assert run.lost() == {"access.log: NUL bytes in texts": size}
    assert expected.lost() == {}
    assert any(f"access.log: {size:,} NUL bytes from byte 0 on were left out" in note for note in run.manifest.notes)


def test_nul_bytes_amid_a_log_cost_the_line_that_they_cut(tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    cut = LINES[41][:60]
    file.write_bytes(b"".join(LINES[:41]) + cut + bytes(5000) + b"".join(LINES[42:]))
    run, losses = tailrace.read(f"web={file}"), {"NUL bytes in texts": 5000, "damaged lines": 1}
    assert run.lost() == {f"access.log: {what}": count for what, count in losses.items()}
    assert run.requests().collect().height == len(LINES) - 1
    begin = len(b"".join(LINES[:41]) + cut)
    assert any(f"5,000 NUL bytes from byte {begin:,} on" in note for note in run.manifest.notes)


def test_a_file_of_nul_bytes_alone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    file.write_bytes(bytes(200_000))
    with pytest.raises(InputError):
        tailrace.read(file)


def test_a_binary_file_keeps_its_nul_bytes(tmp_path: Path) -> None:
    file, content = tmp_path / "spans", b"\x0a" + bytes(100) + b"\x01" * 10
    file.write_bytes(content)
    source, found = Source(file), Found()
    assert source.head() == content
    assert b"".join(source.blocks(found)) == content
    assert found.lost == {}


@given(
    st.lists(
        st.one_of(st.sampled_from([b"a", b"b\n", b"\x00", bytes(15), bytes(16), bytes(17)]), st.binary(max_size=3))
    ),
    st.integers(1, 40),
)
def test_blocks_of_any_size_give_the_same(parts: list[bytes], size: int) -> None:
    content, runs = b"".join(parts), list[tuple[int, int]]()
    blocks = [(content[at : at + size], None) for at in range(0, len(content), size)]
    given = b"".join(data for data, _ in hollow.skipped(iter(blocks), lambda begin, count: runs.append((begin, count))))
    assert runs == [(run.start(), run.end() - run.start()) for run in re.finditer(rb"\x00{16,}", content)]
    # A run at the end ends no line, because none follows; one at the end of a line adds no empty line.
    kept = re.sub(rb"\x00{16,}\Z", b"", content)
    kept = re.sub(rb"\x00{16,}", b"\xff\xff", kept) if b"\xff\xff" not in content else None
    if kept is not None:
        assert given == re.sub(rb"(\A|\n)\xff\xff", rb"\1", kept).replace(b"\xff\xff", b"\n")
