"""What root writes is for root alone; what another user writes is as their umask has it."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorders import MISSING, TAILRACE, end, recording, started
from tailrace import read

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "golden" / "recordings" / "sync-gc"
FILES = (str(SAMPLES / "packets.pcap.zst"), str(SAMPLES / "samples.csv"))

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Written to under a umask that lets everybody read and write."""
    before = os.umask(0)
    tmp_path.chmod(0o755)
    yield tmp_path
    os.umask(before)


def modes(folder: Path) -> set[tuple[str, int]]:
    """Of everything in a folder, by kind."""
    found = set()
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        found.add(("folder" if stat.S_ISDIR(mode) else "file", stat.S_IMODE(mode)))
    return found


PRIVATE = {("folder", 0o700), ("file", 0o600)}


def run(folder: Path, *words: str) -> None:
    subprocess.run([*TAILRACE, *words], cwd=folder, check=True, capture_output=True, timeout=300)


def test_runs_reports_and_captures(folder: Path) -> None:
    run(folder, "diagnose", *FILES, "-o", "run", "--report", "report.html", "--perfetto", "trace", "--quiet")
    run(folder, "export", "run", "--pcap", "run.pcap", "--quiet")
    run(folder, "run", str(ROOT / "experiments/rpc-vs-async/base"), "--set", "duration=1s", "-o", "simulated")
    assert modes(folder) == PRIVATE


def test_recordings_and_incidents(folder: Path) -> None:
    with recording(folder / "run", "--interface", "lo", "--capture") as process:
        assert modes(folder) == PRIVATE
        end(process)
    with started(*TAILRACE, "watch", "-o", str(folder / "incidents"), "--interface", "lo") as watch:
        assert watch.stdout is not None
        assert "watching" in watch.stdout.readline()
        assert modes(folder) == PRIVATE
        watch.send_signal(signal.SIGTERM)
        watch.wait(60)
    assert modes(folder) == PRIVATE


def test_run_folders_of_other_programs_of_root(folder: Path) -> None:
    run_folder = read(*FILES, out=folder / "run").path
    assert stat.S_IMODE(run_folder.stat().st_mode) == 0o700
    shutil.rmtree(run_folder)


def test_other_users_have_their_umask(folder: Path) -> None:
    program = "import os, sys; os.setuid(65534); os.umask(0o026); from tailrace import whole; whole.keep_private(); "
    program += "open('file', 'w').close(); os.mkdir('new', whole.folder_mode())"
    path = os.pathsep.join(sys.path)
    free = folder / "free"
    free.mkdir(0o777)
    done = subprocess.run(
        ["/usr/bin/env", f"PYTHONPATH={path}", sys.executable, "-c", "import tailrace.whole\n" + program],
        cwd=free,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert modes(free) == {("file", 0o640), ("folder", 0o751)}
