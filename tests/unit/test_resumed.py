"""A reading that is killed goes on when it is run again, and its run folder has the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from tailrace import dataset
from tailrace.dataset import unfinished
from tailrace.dataset.writing import leftovers

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
    """The packets come through a pipe that stays open, so the process is killed while it reads."""
    with reading(out) as process:
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.flush()
        deadline = time.monotonic() + GENEROUS_S
        while not unfinished.saved([*out.parent.glob(f"{out.name}.tmp-*")]):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(GENEROUS_S)


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
            raise ValueError("ended")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("saved", [True, False])
def test_an_interrupted_reading_keeps_its_finished_segments(tmp_path: Path, saved: bool) -> None:
    with pytest.raises(KeyboardInterrupt), dataset.create(tmp_path / "run", reading="same") as writer:
        if saved:
            (writer.folder / unfinished.SAVED).write_text("state")
        raise KeyboardInterrupt
    assert len(unfinished.saved(leftovers(tmp_path / "run"))) == saved
    assert len(list(tmp_path.iterdir())) == saved


def test_a_link_in_place_of_what_was_read_is_not_followed(tmp_path: Path) -> None:
    left = killed(tmp_path / "run", "same")
    (tmp_path / "theirs").write_text("same")
    (left / unfinished.WHAT).unlink()
    (left / unfinished.WHAT).symlink_to(tmp_path / "theirs")
    with dataset.create(tmp_path / "run", reading="same") as writer:
        assert not (writer.folder / unfinished.SAVED).exists()
    assert (tmp_path / "theirs").read_text() == "same"
