"""Fixtures of several tests."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run, however slow the machine; `make explore` draws others.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=10 * settings.default.max_examples, deadline=None)
settings.load_profile("fixed")

# A shell starts background jobs with SIGINT ignored, and `nohup` does so with SIGHUP; child processes inherit that.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


# Tests of one of these folders run in one process, one after the other: they share interfaces, control groups, ports.
TOGETHER = ("recorder", "testbed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.parent.name
        if folder in TOGETHER:
            item.add_marker(pytest.mark.xdist_group("machine"))


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 1 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk is made by mounting a tmpfs, which takes root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)
