"""gob: what vegeta wrote, whole, cut and damaged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tailrace import readers
from tailrace.readers import gob

FILE = Path(__file__).parents[1] / "golden" / "readers" / "loadtest" / "vegeta.gob"


def results(data: bytes, size: int = 1 << 20) -> list[dict[str, object]]:
    return list(gob.structs(data[at : at + size] for at in range(0, len(data), size)))


def test_results_are_read_in_blocks_of_any_size() -> None:
    data = FILE.read_bytes()
    found = results(data)
    assert len(found) == 10
    assert [result.get("Code", 0) for result in found[:3]] == [200, 404, 0]
    assert "refused" in str(found[2]["Error"])
    assert dict(found[0]["Headers"])["Server"][0].startswith("SimpleHTTP")  # type: ignore[call-overload]
    assert results(data, 1) == results(data, 7) == found


def test_a_file_that_ends_within_a_message_gives_what_came_before(tmp_path: Path) -> None:
    (tmp_path / "cut.gob").write_bytes(FILE.read_bytes()[:-5])
    run = readers.read(tmp_path / "cut.gob")
    assert run.requests().collect().height == 9
    assert any("it ends within a message" in note for note in run.manifest.notes)


def test_a_name_with_control_characters_is_damaged_and_names_no_server(tmp_path: Path) -> None:
    data = FILE.read_bytes()
    at = data.index(b"http://")
    (tmp_path / "holes.gob").write_bytes(data[: at + 8] + bytes(4) + data[at + 12 :])
    run = readers.read(tmp_path / "holes.gob")
    assert run.requests().collect().height == 9
    assert all(server.name.isprintable() for server in run.topology.servers)
    assert sum(run.lost().values()) == 1


@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes_end_the_reading(seed: int) -> None:
    draw, data = random.Random(seed), bytearray(FILE.read_bytes())
    for _ in range(draw.randint(1, 8)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    try:
        found = results(bytes(data))
    except gob.DamagedError:
        return
    assert len(found) <= 10


def test_types_that_contain_themselves_and_huge_counts_end_the_reading() -> None:
    def message(*numbers: int) -> bytes:
        return bytes([len(numbers), *numbers])

    # Type 65 is a struct whose only field, x, is of type 65; a value of 40 such fields inside each other.
    itself = message(0xFF, 0x81, 3, 1, 2, 0xFF, 0x82, 0, 1, 1, 1, 1, 120, 1, 0xFF, 0x82, 0, 0, 0)
    with pytest.raises(gob.DamagedError, match="too deep"):
        results(itself + message(0xFF, 0x82, *[1] * 40))
    with pytest.raises(gob.DamagedError, match="beyond its end"):
        results(itself + message(0xFF, 0x82, 1))
    with pytest.raises(gob.DamagedError, match="a message has"):
        results(bytes([0xF8, *[0xFF] * 8]))
