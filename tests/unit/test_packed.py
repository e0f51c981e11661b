"""A packed file that was cut keeps what can be unpacked of it, and says where it ends."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from tailrace.readers.packed import unpacked


@pytest.mark.parametrize("size", [1000, 1 << 22])
def test_a_cut_gzip_is_read_up_to_its_end(tmp_path: Path, size: int) -> None:
    text = "".join(f"{random.Random(n).random()}\n" for n in range(100_000)).encode()
    packed = gzip.compress(text)
    file = tmp_path / "log.gz"
    file.write_bytes(packed[: len(packed) * 94 // 100])
    with unpacked(file) as content:
        blocks = list(content.blocks(size))
    whole = b"".join(data for data, _ in blocks)
    assert text.startswith(whole)
    assert len(whole) > len(text) * 0.9
    assert [why for _, why in blocks[:-1]] == [None] * (len(blocks) - 1)
    assert blocks[-1][1] is not None
    assert f"stopped at decompressed byte {len(whole)}" in blocks[-1][1]
    assert all(len(data) <= size for data, _ in blocks)


def test_plain_text_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"x" * 2500)
    with unpacked(file) as content:
        assert [(len(data), why) for data, why in content.blocks(1000)] == [(1000, None), (1000, None), (500, None)]
