"""Lines of Envoy become the same visits in the engine as by columns, whatever their order, damage and packing."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import pytest
from polars.testing import assert_frame_equal

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.readers import accesslog
from tailrace.readers.accesslog_rows import Piece
from tailrace.readers.accesslog_taken import Taken, Taker
from tailrace.readers.stays import Stays

TAIL = '"-" "curl/8" "9f2a" "shop" "{host}"'
KINDS = {
    "envoy": '[{at}] "{method} {path} HTTP/2" {code} {flags} 0 226 {took} {inside} ' + TAIL,
    "istio": '[{at}] "{method} {path} HTTP/1.1" {code} {flags} via_upstream - "-" 0 51 {took} {inside} '
    + TAIL
    + " inbound|90|| 127.0.0.6:51033 10.244.0.14:9080 10.244.0.1:0 - default",
    "json": '{{"bytes_sent":226,"duration":{took},"method":"{method}","path":"{path}","response_code":{code},'
    '"response_flags":"{flags}","start_time":"{at}","upstream_host":"{host}","upstream_service_time":"{inside}"}}',
}
ENDS = ((200, "-"), (200, "-"), (404, "-"), (503, "UO"), (503, "UF,URX"), (0, "DC"), (0, "-"), (504, "UT"), (7, "LR"))


def lines(kind: str, random: Random, count: int = 700) -> list[str]:
    found = []
    for number in range(count):
        second, ms = divmod(number * 37, 1000)
        (code, flags), took = random.choice(ENDS), random.choice((0, 3, 40, 1003, 7000))
        values = {"at": f"2026-11-20T16:{49 + second // 60}:{second % 60:02}.{ms:03}Z", "code": code, "flags": flags}
        # A line of text without a method has no layout.
        methods = ("GET", "POST", "-" if kind == "json" else "PUT")
        target = {"method": random.choice(methods), "path": f"/items/{number % 50}"}
        host = random.choice(("10.0.0.3:80", "10.0.0.4:80", "tcp://10.0.0.5:80", "web", "-"))
        inside = random.choice((took // 2, took, took + 9, "-"))
        found.append(KINDS[kind].format(**values, **target, took=took, inside=inside, host=host))
    return found


def read(files: list[Path], monkeypatch: pytest.MonkeyPatch, *, engine: bool) -> tuple[Dataset, list[bool]]:
    """What the files give, and which pieces the engine took."""
    taken, take = list[bool](), Taker.take

    def seen(taker: Taker, piece: Piece, stays: Stays) -> Taken | None:
        found = take(taker, piece, stays)
        taken.append(found is not None)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Taker, "take", seen)
        if not engine:
            patch.setattr(accesslog, "_taker", lambda *_: None)
        return readers.read(*(f"web={file}" for file in files)), taken


def assert_same(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """By both ways; returns which pieces the engine took."""
    found, taken = read(files, monkeypatch, engine=True)
    expected, none = read(files, monkeypatch, engine=False)
    assert not none
    for table in ("visits", "requests"):
        assert_frame_equal(getattr(found, table)().collect(), getattr(expected, table)().collect())
    assert found.topology == expected.topology
    assert (found.manifest.notes, found.lost()) == (expected.manifest.notes, expected.lost())
    return taken


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_the_engine_makes_the_same_visits(
    kind: str, shuffled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, file = Random(f"{kind} {shuffled}"), tmp_path / "access.log"
    found = lines(kind, random)
    if shuffled:
        random.shuffle(found)
    file.write_text("\n".join(found))
    taken = assert_same([file], monkeypatch)
    assert taken
    assert all(taken)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_rotated_and_packed_lines(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"{kind} damaged")
    found = lines(kind, random)
    for number in range(350, 700, 90):
        at = random.randrange(len(found[number]))
        found[number] = found[number][:at] + random.choice(("\ufffd", "", "5" * 30, '"')) + found[number][at + 2 :]
    rotated, rest = tmp_path / "access.log.1.gz", tmp_path / "access.log"
    rotated.write_bytes(gzip.compress("\n".join(found[:400]).encode()))
    rest.write_bytes(bytes(5000) + "\n".join(found[400:]).encode())
    assert any(assert_same([rest, rotated], monkeypatch))
