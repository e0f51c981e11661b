"""The files that a killed watch leaves in its folder, and faults of a watch."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tailrace import locks
from tailrace.errors import OutputError
from tailrace.watch import RECORDING, Watch, incidents, leftovers
from tailrace.watch.incidents import Explaining
from tailrace.watch.noticing import Notice

MOMENT = 1_790_000_000_000_000_000
NAME = "incident-2026-09-21T141320Z"
STATE = {"end": MOMENT, "nodes": [], "servers": {}}


def recording(at: Path, *drops: int) -> Path:
    """One second of recording for each number of lost connection attempts."""
    at.mkdir(parents=True)
    (at / "recording.json").write_text(json.dumps(STATE))
    (at / locks.LOCK).touch()
    for number, count in enumerate(drops, 1):
        table = pl.DataFrame(
            {"place": ["web"] * count, "kind": ["drop"] * count}, {"place": pl.String, "kind": pl.String}
        )
        table.write_parquet(at / f"{number:08}.events.parquet")
    return at


def taken_up(ring: Path) -> list[Path]:
    leftovers.set_aside(ring)
    return leftovers.take_up(ring.parent)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_ring_with_an_unexplained_incident_becomes_an_incident(tmp_path: Path) -> None:
    ring = recording(tmp_path / RECORDING, 0, 7, 0)
    assert taken_up(ring) == [tmp_path / NAME]
    assert names(tmp_path) == [f"{NAME}.recording"]
    assert len(list((tmp_path / f"{NAME}.recording").glob("*.parquet"))) == 3


@pytest.mark.parametrize(("drops", "explained"), [((0, 1, 2), 0), ((0, 7, 0), 3), ((0, 7, 0), 2), ((), 0)])
def test_a_ring_without_news_is_removed(tmp_path: Path, drops: tuple[int, ...], explained: int) -> None:
    ring = recording(tmp_path / RECORDING, *drops)
    if explained:
        leftovers.mark_explained(ring, explained)
    assert taken_up(ring) == []
    assert names(tmp_path) == []


@pytest.mark.parametrize("state", [None, "", "{", "[]", "{}"])
def test_a_ring_without_a_state_is_removed(tmp_path: Path, state: str | None) -> None:
    ring = recording(tmp_path / RECORDING, 7)
    (ring / "recording.json").unlink()
    if state is not None:
        (ring / "recording.json").write_text(state)
    assert taken_up(ring) == []
    assert names(tmp_path) == []


def test_the_ring_of_a_watch_that_lives_is_its_own(tmp_path: Path) -> None:
    ring = recording(tmp_path / RECORDING, 7)
    lock = locks.hold(ring)
    assert taken_up(ring) == []
    assert names(tmp_path) == [RECORDING]
    os.close(lock)


def test_the_older_ring_is_looked_at_first(tmp_path: Path) -> None:
    """The watch after it was killed before it came to that."""
    recording(tmp_path / leftovers.ASIDE, 0, 7)
    assert taken_up(recording(tmp_path / RECORDING, 0)) == [tmp_path / NAME]
    assert names(tmp_path) == [f"{NAME}.recording"]


def explained(out: Path) -> None:
    out.mkdir()
    (out / "diagnosis.json").write_text(json.dumps({"answer": ["all is well."]}))
    (out / "report.html").touch()


def test_incidents_that_were_being_explained(tmp_path: Path) -> None:
    killed, running, failed, done = (tmp_path / f"incident-{number}" for number in range(4))
    for out in (killed, running, failed, done):
        recording(out.with_name(f"{out.name}.recording"))
    (tmp_path / f"{failed.name}.recording" / incidents.WHY_NOT).write_text("tailrace: it could not\n")
    (tmp_path / f"{done.name}.recording" / incidents.SAID).write_text("all is well")
    explained(done)
    with (tmp_path / f"{running.name}.recording" / incidents.WHY_NOT).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert taken_up(tmp_path / RECORDING) == [killed, running]
        assert not Explaining(running).done()
    assert Explaining(running).done()
    assert names(tmp_path) == [*(f"incident-{number}.recording" for number in range(3)), "incident-3"]
    assert (done / incidents.SAID).read_text() == "all is well"


@pytest.mark.parametrize("code", [0, 2])
def test_a_text_that_the_disk_had_no_room_for_is_not_kept_in_part(tmp_path: Path, code: int) -> None:
    out = tmp_path / NAME
    kept = recording(out.with_name(f"{NAME}.recording"))
    (kept / incidents.SAID).write_text("54 of 5,428 requests to")
    explained(out)
    process = subprocess.Popen((sys.executable, "-c", f"raise SystemExit({code})"))
    one = Explaining(out, process)
    assert one.finish() is None
    assert (out / incidents.SAID).exists() is (code == 0)
    assert ("diagnosis.txt could not be written" in one.said()) is (code != 0)


@pytest.fixture
def watch(tmp_path: Path) -> tuple[Watch, list[str]]:
    said: list[str] = []
    recording(tmp_path / RECORDING, 0)
    return Watch(tmp_path, (), 2, False, said.append, notice=Notice()), said


def broken(watch: Watch, raised: BaseException) -> Callable[[], None]:
    def read(_: Path) -> None:
        raise raised

    assert watch.notice is not None
    watch.notice.read = read  # type: ignore[assignment]

    def look() -> None:
        watch.looked = watch.seen = 0
        assert watch._look()

    return look


class PanicError(BaseException):
    pass


@pytest.mark.parametrize("raised", [KeyError("what"), PanicError("index out of bounds")])
def test_a_fault_is_reported_once_and_what_it_was_about_is_kept(
    watch: tuple[Watch, list[str]], tmp_path: Path, raised: BaseException
) -> None:
    look = broken(watch[0], raised)
    for _ in range(3):
        look()
    assert [line.partition(":")[0] for line in watch[1]] == [
        f"a fault of Tailrace itself ({type(raised).__name__}",
        f"the recording up to then is kept in {next(tmp_path.glob('fault-*'))}; please attach it to a report of "
        "the fault",
    ]
    [kept] = tmp_path.glob("fault-*.recording")
    assert (kept / "00000001.events.parquet").is_file()
    assert json.loads((kept / "recording.json").read_text())["closed"]


def test_what_the_system_refuses_is_reported_once(watch: tuple[Watch, list[str]]) -> None:
    look = broken(watch[0], OutputError("there", "the disk is full"))
    for _ in range(3):
        look()
    assert watch[1] == ["there: the disk is full; the watch goes on"]


def test_ctrl_c_ends_it_all_the_same(watch: tuple[Watch, list[str]]) -> None:
    with pytest.raises(KeyboardInterrupt):
        broken(watch[0], KeyboardInterrupt())()


def test_explanations_that_fail_alike_say_why_once_and_keep_the_recording(
    watch: tuple[Watch, list[str]], tmp_path: Path
) -> None:
    for number in range(2):
        kept = recording(tmp_path / f"incident-{number}.recording")
        (kept / incidents.WHY_NOT).write_text(f"some line\ntailrace: {kept}: it is damaged\n")
        watch[0].explaining = Explaining(tmp_path / f"incident-{number}")
        watch[0].looked = 0
        watch[0]._look()
        assert kept.is_dir()
    first, second = watch[1]
    assert first.endswith("incident-0.recording: it is damaged")
    assert second.endswith("it could not be explained, for the reason reported before")


def test_the_folder_is_bounded_over_restarts_and_faults(watch: tuple[Watch, list[str]], tmp_path: Path) -> None:
    for name in ("incident-1", "incident-1.recording", "fault-1.recording"):
        (tmp_path / name).mkdir()
    watch[0].began = 0
    watch[0]._explain()
    assert watch[1] == ["it is not written: the folder already holds 2 incidents (--most)"]
    (tmp_path / "fault-1.recording").rmdir()
    assert not watch[0]._is_full()
