"""A reading that is killed goes on when it is run again, and its run folder has the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from tailrace import dataset, locks
from tailrace.dataset import unfinished
from tailrace.dataset.writing import leftovers
from tailrace.errors import OutputError, UsageError
from tailrace.readers import segments
from tailrace.readers.decoding import Decoding

DEMO = Path(__file__).parents[2] / "demo" / "packets.pcap.zst"
SEGMENT = 10_007
READ = f"""
import sys
from tailrace.cli import main
from tailrace.readers import segments
segments.PACKETS = {SEGMENT}
main()
"""
GENEROUS_S = 120


def packets() -> bytes:
    return bytes(pa.input_stream(str(DEMO), compression="zstd").read())


@contextmanager
def reading(out: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A `tailrace read` with short segments."""
    command = (sys.executable, "-c", READ, "read", *(words or ("-",)), "-o", str(out))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def read(out: Path, given: bytes = b"", *words: str) -> tuple[int, str]:
    with reading(out, *words) as process:
        _, said = process.communicate(given, timeout=GENEROUS_S)
        return process.returncode, said.decode()


def kill(out: Path, given: bytes) -> None:
    """The packets come through a pipe that stays open, so the process is killed while it reads. It has then saved a
    segment of its own, and it has released its lock."""
    before = saved_states(out)
    with reading(out) as process:
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.flush()
        wait_until(lambda: bool(saved_states(out) - before))
        process.send_signal(signal.SIGKILL)
        process.wait(GENEROUS_S)
    wait_until(
        lambda: bool(unfinished.saved(leftovers(out)))
    )  # the worker process ends after the one that waits for it


def saved_states(out: Path) -> set[tuple[int, int]]:
    """The inode and the last change of each saved state; a later state has others."""
    found = set()
    for path in out.parent.glob(f"{out.name}.tmp-*/{unfinished.SAVED}"):
        with suppress(FileNotFoundError):  # the folder is being renamed
            state = path.stat()
            found.add((state.st_ino, state.st_mtime_ns))
    return found


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GENEROUS_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def content(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir()}


def test_a_reading_that_is_killed_goes_on(tmp_path: Path) -> None:
    whole = packets()
    assert read(tmp_path / "alone", whole) == (0, "")
    for part in (0.2, 0.65):
        kill(tmp_path / "run", whole[: int(part * len(whole))])
    code, said = read(tmp_path / "run", whole)
    assert (code, said.count("goes on")) == (0, 1), said
    assert content(tmp_path / "run") == content(tmp_path / "alone")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "run"]


@pytest.mark.parametrize("kilobytes", [700, 900, 1200, 1450, 1600])
def test_a_full_disk_keeps_the_finished_segments(full_disk: Path, tmp_path: Path, kilobytes: int) -> None:
    whole = packets()
    assert read(tmp_path / "alone", whole) == (0, "")
    resize(full_disk, f"{kilobytes}k")
    code, said = read(full_disk / "run", whole)
    assert (code, "the disk is full" in said, "the same command goes on" in said) == (2, True, True), said
    resize(full_disk, "16m")
    code, said = read(full_disk / "run", whole)
    assert (code, said.count("goes on")) == (0, 1), said
    assert content(full_disk / "run") == content(tmp_path / "alone")


def resize(disk: Path, size: str) -> None:
    subprocess.run(("mount", "-o", f"remount,size={size}", str(disk)), check=True)


def test_other_packets_on_standard_input_are_refused_once(tmp_path: Path) -> None:
    whole = packets()
    kill(tmp_path / "run", whole[: len(whole) // 2])
    other = bytearray(whole)
    other[len(whole) // 20] ^= 1
    code, said = read(tmp_path / "run", bytes(other))
    assert (code, "these are other packets than before" in said) == (2, True), said
    assert list(tmp_path.iterdir()) == []
    assert read(tmp_path / "run", bytes(other))[0] == 0


def test_what_was_read_with_other_options_is_not_used(tmp_path: Path) -> None:
    whole = packets()
    kill(tmp_path / "run", whole[: len(whole) // 2])
    code, said = read(tmp_path / "run", whole, "-", "--keep-queries")
    assert (code, "begins at the start" in said) == (0, True), said
    assert read(tmp_path / "alone", whole, "-", "--keep-queries") == (0, "")
    assert content(tmp_path / "run") == content(tmp_path / "alone")


def killed(run: Path, what: str, saved: bool = True) -> Path:
    """The folder of a reading that was killed."""
    child = os.fork()
    if child == 0:
        with dataset.create(run, reading=what) as writer:
            (writer.folder / unfinished.SAVED).write_text("state" if saved else "")
            if not saved:
                (writer.folder / unfinished.SAVED).unlink()
            os._exit(0)
    os.waitpid(child, 0)
    [left] = leftovers(run)
    return left


def test_only_a_finished_segment_of_the_same_reading_is_adopted(tmp_path: Path) -> None:
    for what, saved, goes_on in (("same", True, True), ("other", True, False), ("same", False, False)):
        left = killed(tmp_path / "run", what, saved)
        with pytest.raises(ValueError, match="ended"), dataset.create(tmp_path / "run", reading="same") as writer:
            assert (writer.folder / unfinished.SAVED).exists() == goes_on
            assert ("goes on" in writer.earlier, "others" in writer.earlier) == (goes_on, what == "other")
            assert not left.exists()
            (writer.folder / unfinished.SAVED).unlink(missing_ok=True)  # so that nothing can go on
            raise ValueError("ended")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, UsageError, partial(OutputError, "run"), OSError, ValueError])
def test_any_error_keeps_the_finished_segments(
    tmp_path: Path, saved: bool, kind: Callable[[str], BaseException]
) -> None:
    said: list[str] = []
    created = dataset.create(tmp_path / "run", reading="same")
    with pytest.raises(BaseException) as raised, segments.told(said.append), created as writer:  # noqa: PT011
        if saved:
            (writer.folder / unfinished.SAVED).write_text("state")
        raise kind("why")
    assert isinstance(raised.value, OutputError if kind is OSError else type(kind("why")))
    assert len(list(tmp_path.iterdir())) == saved
    kept = unfinished.saved(leftovers(tmp_path / "run"))
    assert [str(folder) in sentence for folder, sentence in zip(kept, said, strict=True)] == [True] * saved


def test_a_log_without_a_date_does_not_cost_the_finished_segments(tmp_path: Path) -> None:
    whole = packets()
    kill(tmp_path / "run", whole[: len(whole) // 2])
    (tmp_path / "gc.log").write_text("[0.500s][info][gc] GC(0) Pause Young (Normal) 25M->2M(256M) 3.100ms\n")
    code, said = read(tmp_path / "run", whole, "-", str(tmp_path / "gc.log"))
    assert (code, "the same command goes on" in said) == (2, True), said
    code, said = read(tmp_path / "run", whole)
    assert (code, "goes on after the last segment" in said) == (0, True), said


def test_a_folder_that_another_process_took_first_is_left_alone(tmp_path: Path) -> None:
    left = killed(tmp_path / "run", "same")
    lock = locks.take(left)
    assert lock is not None
    assert unfinished.adopt([left], "same", tmp_path / "mine") is None
    with dataset.create(tmp_path / "run", reading="same") as writer:
        assert "another reading" in writer.earlier
    assert left.exists()
    os.close(lock)


def test_an_adopted_folder_is_never_without_its_lock(tmp_path: Path) -> None:
    lock = unfinished.adopt([killed(tmp_path / "run", "same")], "same", tmp_path / "mine")
    assert lock is not None
    assert locks.is_held(tmp_path / "mine")
    os.close(lock)
    assert not locks.is_held(tmp_path / "mine")


def test_a_reading_is_the_same_under_another_path_but_not_with_other_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.pcap").write_bytes(b"packets")
    Path("keys").write_text("")
    decoding = Decoding({}, keys="keys", segment=1)
    before = segments.reading(["a.pcap"], decoding)
    assert segments.reading(["../" + tmp_path.name + "/a.pcap"], decoding) == before
    Path("keys").write_text("CLIENT_RANDOM")
    assert segments.reading(["a.pcap"], decoding) != before


def test_a_link_in_place_of_what_was_read_is_not_followed(tmp_path: Path) -> None:
    left = killed(tmp_path / "run", "same")
    (tmp_path / "theirs").write_text("same")
    (left / unfinished.WHAT).unlink()
    (left / unfinished.WHAT).symlink_to(tmp_path / "theirs")
    with dataset.create(tmp_path / "run", reading="same") as writer:
        assert not (writer.folder / unfinished.SAVED).exists()
    assert (tmp_path / "theirs").read_text() == "same"
