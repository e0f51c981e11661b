"""Fixtures of several tests."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


# Their tests share interfaces, control groups and ports of the machine.
OF_THE_MACHINE = ("tests/recorder/", "tests/testbed/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that watches a real kernel at work may meet a machine that gives it no CPU for seconds. It is run up to
    twice more before its failure counts: a fault of Tailrace fails each time, and the summary counts the reruns."""
    for item in items:
        if item.nodeid.startswith(OF_THE_MACHINE):
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """In parallel runs, one process runs the tests of a file, which share fixtures, and another all of the machine."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "machine" if nodeid.startswith(OF_THE_MACHINE) else nodeid.partition("::")[0]

    return ByFile(config, log)


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
