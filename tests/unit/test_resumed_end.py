"""A reading that is killed while its run folder gets its name, or whose disk is full then, keeps its segments."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tailrace import dataset
from tailrace.dataset import unfinished
from tailrace.dataset.manifest import MANIFEST
from tailrace.dataset.overwriting import TOPOLOGY
from tailrace.dataset.writing import leftovers
from tailrace.errors import OutputError
from tailrace.locks import LOCK
from tailrace.topology import Server, Topology

ROWS = "visits.parquet.0123456789abcdef.tmp"
STEPS = frozenset(("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"))
"""Python reports them to audit hooks before it does them: https://docs.python.org/3/library/audit_events.html"""


def finish(run: Path, at_the_end: Callable[[], None] = lambda: None) -> None:
    """Do what a reading does after its last packet."""
    with dataset.create(run, overwrite=False, reading="same") as writer:
        (writer.folder / unfinished.SAVED).write_text("state")
        (writer.folder / ROWS).write_text("rows")
        writer.topology = Topology(servers=(Server(name="web"),))
        (writer.folder / "scratch").mkdir()
        at_the_end()


def killed_after(steps: int, run: Path) -> bool:
    """Whether a process that is killed after so many steps of the end is killed before it has done them all."""
    child = os.fork()
    if child == 0:
        left = [steps]
        armed = [False]

        def step(event: str, _: tuple[Any, ...]) -> None:
            if armed[0] and event in STEPS:
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1

        sys.addaudithook(step)
        finish(run, lambda: armed.__setitem__(0, True))
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_kill_at_any_step_of_the_end_keeps_the_segments_or_the_run(tmp_path: Path) -> None:
    published = 0
    for steps in range(1000):
        (tmp_path / str(steps)).mkdir()
        run = tmp_path / str(steps) / "run"
        if not killed_after(steps, run):
            break
        if run.exists():
            published += 1
            dataset.Dataset.open(run).validate(checksums=True)
        else:
            goes_on(run)
    assert 0 < published < steps - 10


def goes_on(run: Path) -> None:
    [folder] = unfinished.saved(leftovers(run))
    assert (folder / ROWS).read_text() == "rows"
    with dataset.create(run, reading="same") as writer:
        assert "goes on" in writer.earlier
        assert {path.name for path in writer.folder.iterdir()} == {LOCK, unfinished.WHAT, unfinished.SAVED, ROWS}
    assert [path.name for path in run.parent.iterdir()] == ["run"]
    assert {path.name for path in run.iterdir()} == {MANIFEST, TOPOLOGY}


def test_a_disk_that_is_full_at_the_end_keeps_the_segments_only(full_disk: Path) -> None:
    run = full_disk / "run"

    def fill() -> None:
        [folder] = full_disk.iterdir()
        (folder / "events.parquet").write_bytes(bytes(2 << 20))

    with pytest.raises(OutputError) as raised:
        finish(run, fill)
    [folder] = full_disk.iterdir()
    assert raised.value.found == "the disk is full"
    assert raised.value.__notes__ == [f"The finished segments are in {folder}; the same command goes on after them"]
    assert {path.name for path in folder.iterdir()} == {LOCK, unfinished.WHAT, unfinished.SAVED, ROWS}
    goes_on(run)
