"""A disk of a node, as root: a synced write takes the time of its bandwidth, and nothing of it remains."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tailrace.testbed import disk, undoing
from tailrace.testbed.ledger import Ledger


def test_a_slow_disk_is_slow_until_it_is_removed(tmp_path: Path) -> None:
    lacking = "this is not root" if os.geteuid() != 0 else disk.problem()
    if lacking:
        pytest.skip(lacking)
    ledger, at = Ledger(tmp_path), tmp_path / "db-node"
    disk.up(ledger, at)
    try:
        disk.slow_down(at, 8_000_000)
        begun = time.monotonic()
        with (at / "log").open("wb") as log:
            log.write(bytes(4_000_000))
            log.flush()
            os.fsync(log.fileno())
        assert time.monotonic() - begun >= 0.4  # half a second, and what a bucket of tokens lets through at first
    finally:
        undoing.undo(ledger)
    assert ledger.steps() == []
    assert (at.is_mount(), list(at.iterdir()), at.with_suffix(".disk").exists()) == (False, [], False)
    assert str(tmp_path) not in subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True).stdout
