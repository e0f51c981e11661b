"""Gatling's binary log: what its records say, and how reading ends where they are damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.readers.loadtests import gatling_binary
from tailrace.units import MILLISECOND, parse_moment

T = parse_moment("2026-11-20T16:49:00Z")
FOUND = "status.find.is(200), but actually found 503"
ROWS = [(0, 22, "Search", ""), (5, 1008, "Bücher ✓", ""), (7, 9, "Search", FOUND)]


class Written:
    """Records as Gatling's LogFileDataWriter writes them."""

    def __init__(self) -> None:
        self.content = b"\0" + self.text("3.13.5") + self.text("computers.Basic") + struct.pack(">q", T // MILLISECOND)
        self.content += self.text("") + self.number(1) + self.text("Users") + self.number(1) + self.number(3) + b"abc"
        self.known: dict[str, int] = {}

    @staticmethod
    def number(value: int) -> bytes:
        return struct.pack(">i", value)

    def text(self, value: str) -> bytes:
        try:
            content, coder = value.encode("latin-1"), b"\0"
        except UnicodeEncodeError:
            content, coder = value.encode("utf-16-le"), b"\1"
        return self.number(len(content)) + (content + coder if content else b"")

    def kept(self, value: str) -> bytes:
        if value in self.known:
            return self.number(-self.known[value])
        self.known[value] = len(self.known) + 1
        return self.number(self.known[value]) + self.text(value)

    def groups(self, *names: str) -> bytes:
        return self.number(len(names)) + b"".join(map(self.kept, names))

    def request(self, begin: int, end: int, name: str, why: str, *groups: str) -> None:
        times = self.number(begin) + self.number(end)
        self.content += b"\1" + self.groups(*groups) + self.kept(name) + times + bytes([not why]) + self.kept(why)

    def others(self) -> None:
        self.content += b"\2" + self.number(0) + b"\1" + self.number(3)
        self.content += b"\3" + self.groups("a group") + self.number(0) + self.number(9) + self.number(9) + b"\1"
        self.content += b"\4" + self.kept("a crash") + self.number(4)


def written() -> Written:
    log = Written()
    for row in ROWS:
        log.request(*row, "a group")
        log.others()
    return log


def read(path: Path, content: bytes) -> Dataset:
    path.write_bytes(content)
    return readers.read(path)


def requests(run: Dataset) -> list[tuple[int, int, str, str]]:
    found = run.requests().with_columns(pl.col("interaction", "status").cast(pl.String)).sort("sent").collect()
    ms = found.select((pl.col("sent", "end") - T) // MILLISECOND)
    return pl.concat([ms, found.select("interaction", "status")], how="horizontal").rows()


def test_each_request_has_its_times_name_and_status(tmp_path: Path) -> None:
    run = read(tmp_path / "simulation.log", written().content)
    assert [row[:2] for row in requests(run)] == [row[:2] for row in ROWS]
    assert [row[3] for row in requests(run)] == ["ok", "ok", "503"]
    assert len({row[2] for row in requests(run)}) == 2
    assert run.lost() == {}


def test_a_log_that_is_cut_anywhere_gives_what_came_before(tmp_path: Path) -> None:
    whole = written().content
    ends = set()
    for length in range(60, len(whole)):
        try:
            run = read(tmp_path / "simulation.log", whole[:length])
        except InputError:
            continue
        ends.add(run.requests().collect().height)
        assert requests(run) == requests(read(tmp_path / "whole.log", whole))[: run.requests().collect().height]
    assert ends == {1, 2, 3}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (b"\x09", "the unknown kind 9"),
        (b"\1" + Written.number(-1), "-1 groups"),
        (b"\1" + Written.number(2**31 - 1), "2,147,483,647 groups"),
        (b"\4" + Written.number(99) + Written.number(2**30), "1,073,741,824 bytes in a text"),
        (b"\4" + Written.number(-77), "the text 77 was not given before"),
        (b"\4" + Written.number(98) + Written.number(1) + b"x\7", "the coder 7"),
    ],
)
def test_a_damaged_record_ends_the_reading_with_its_reason(record: bytes, said: str, tmp_path: Path) -> None:
    run = read(tmp_path / "simulation.log", written().content + record)
    assert len(requests(run)) == len(ROWS)
    assert said in " ".join(run.manifest.notes)


def test_texts_that_never_come_again_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gatling_binary, "LOAD_TEXTS", 1_000)
    log = written()
    for number in range(100):
        log.request(10, 11, f"{number:020}", "")
    run = read(tmp_path / "simulation.log", log.content)
    assert len(ROWS) < len(requests(run)) < 60
    assert "its texts have more than" in " ".join(run.manifest.notes)


def test_a_request_that_ends_before_it_begins_is_counted(tmp_path: Path) -> None:
    log = written()
    log.request(9, 8, "Search", "")
    run = read(tmp_path / "simulation.log", log.content)
    assert len(requests(run)) == len(ROWS)
    assert run.lost() == {"simulation.log: damaged lines": 1}
