"""Visits that readers of logs find come in the order of their ends, in memory or in files, added singly or together."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tailrace.bounds import EARLIEST_NS
from tailrace.readers import attempts
from tailrace.readers.accesslog_texts import Table, Texts
from tailrace.readers.source import Found
from tailrace.readers.spills import Scratch
from tailrace.readers.stays import Many, Stay, Stays
from tailrace.units import MILLISECOND, SECOND

T = EARLIEST_NS + SECOND


def many(count: int, apart: int) -> list[Stay]:
    """Requests, each with a call; their ends are out of order by up to `apart` ns."""
    random, found = Random(count), list[Stay]()
    for number in range(count):
        begin, took = T + number * MILLISECOND + random.randrange(apart + 1), random.randrange(1, 9) * MILLISECOND
        wait = random.choice((0, 0, 1, 1000, 3000, 700)) * MILLISECOND
        end = begin + took + wait
        found.append(Stay("web", begin, begin, end, "200", f"GET /{number % 7}", entry=True, bytes_out=number))
        found.append(
            Stay("app", begin, begin, begin + wait + 1, "ok", caller="web", wait_ns=wait, parent=2 * number)
        )  # fmt: skip
    return found


def tables(stays: Stays) -> tuple[pl.DataFrame, pl.DataFrame]:
    found = Found()
    stays.into(found, "log")
    visits, requests = (pl.concat(list(frames)) for frames in (found.visits, found.requests))
    assert_frame_equal(visits, pl.concat(list(found.visits)))  # they can be read again
    return visits, requests


@pytest.mark.parametrize("apart", [0, 5 * MILLISECOND, 10**13])
def test_visits_in_files_are_those_in_memory(tmp_path: Path, apart: int) -> None:
    stays, kept = many(40_000, apart), []
    for most in (1 << 30, 0):
        scratch = tmp_path / str(most)
        every = Stays(Scratch(scratch), most)
        assert [every.add(stay) for stay in stays] == list(range(len(stays)))
        kept.append(tables(every))
        assert scratch.exists() == (most == 0)
    for memory, files in zip(*kept, strict=True):
        assert_frame_equal(memory, files)
    visits, requests = kept[0]
    assert visits["departure"].is_sorted()
    assert visits["visit"].sort().to_list() == list(range(len(stays)))
    expected = {(number, stay.sent, stay.departure) for number, stay in enumerate(stays)}
    assert set(visits.select("visit", "sent", "departure").rows()) == expected
    assert_frame_equal(requests.sort("request").select(bytes=pl.col("bytes").cast(int)), _sent(stays))
    drops = {wait: set(attempts.lost_of_each(np.array([wait * MILLISECOND]), _schedule())) for wait in (1000, 3000)}
    assert drops == {1000: {1}, 3000: {2}}
    by_wait = {wait: set(visits.filter(pl.col("visit").is_in(_of(stays, wait)))["drops"]) for wait in drops}
    assert by_wait == drops


def _sent(stays: list[Stay]) -> pl.DataFrame:
    return pl.DataFrame({"bytes": [stay.bytes_out for stay in stays if stay.entry]})


def _schedule() -> attempts.Schedule:
    return attempts.Schedule(attempts.DOUBLING)


def _of(stays: list[Stay], wait: int) -> list[int]:
    return [number for number, stay in enumerate(stays) if stay.wait_ns == wait * MILLISECOND]


def test_visits_that_are_added_together_are_those_added_one_by_one() -> None:
    singly, together = Stays(), Stays()
    for number in range(100):
        begin = T + (100 - number % 10) * MILLISECOND
        singly.add(Stay("web", begin, begin, begin + 5, "200", "GET /", entry=True))
        singly.add(Stay("app", begin, begin, begin + 4, "ok", "GET /", caller="web", parent=2 * number))
    begin = T + (100 - np.arange(100) % 10) * MILLISECOND
    for first, end in ((0, 30), (30, 100)):
        assert together.add_all([_part(begin, first, end, call=False), _part(begin, first, end, call=True)])
    for one, other in zip(tables(singly), tables(together), strict=True):
        assert_frame_equal(one, other, categorical_as_str=True)
    assert [column.tolist() for column in singly.parts()[:2]] == [column.tolist() for column in together.parts()[:2]]


def _part(begin: np.ndarray[tuple[int], np.dtype[np.int64]], first: int, end: int, *, call: bool) -> Many:
    numbers, begin = 2 * np.arange(first, end), begin[first:end]
    nothing = np.full(len(numbers), -1)
    columns = {
        **{"number": numbers + call, "request": numbers, "parent": numbers if call else nothing},
        **{"sent": begin, "arrival": begin, "departure": begin + 5 - call},
        **{"wait": np.zeros(len(numbers), np.int64), "bytes_out": nothing, "downstream_ns": nothing},
        "entry": np.full(len(numbers), not call),
    }
    texts = ("app", "GET /", "web", "ok") if call else ("web", "GET /", None, "200")
    names = ("server", "interaction", "caller", "status")
    return Many(columns, {name: Texts(0 * numbers, Table([text])) for name, text in zip(names, texts, strict=True)})


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    class Refusing(Scratch):
        def new(self) -> Path:
            return tmp_path / "file" / "rows"

    stays = Stays(Refusing(), 0)
    with pytest.raises(OSError, match="rows"):
        for stay in many(40_000, 0):
            stays.add(stay)
        tables(stays)
