"""What the recorder, and the processes that decode and explain, may still do once everything is open."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from recorders import MISSING, TAILRACE, children, end, recording, served, started, two_hosts
from tailrace.dataset import Dataset

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")

DAC_OVERRIDE, DAC_READ_SEARCH, NET_RAW, SYS_PTRACE, SYS_ADMIN, SYS_NICE = (
    1 << number for number in (1, 2, 13, 19, 21, 23)
)
NOBODY = 65534


def status(task: Path) -> dict[str, str]:
    lines = (task / "status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def threads(pid: int) -> list[dict[str, str]]:
    return [status(task) for task in Path(f"/proc/{pid}/task").iterdir()]


def rights(pid: int, which: str) -> dict[str, int]:
    """Of every thread that records, by its name; a thread names itself, and sampling begins with a right more."""
    recording = {"tailrace-sample", "tailrace-proces", "tailrace-packet", "tailrace-write"}
    deadline = time.monotonic() + 60
    while True:
        found = {task["Name"]: int(task[which], 16) for task in threads(pid)}
        if (recording <= found.keys() and not found["tailrace-sample"] & SYS_NICE) or time.monotonic() > deadline:
            return found


def assert_powerless(pid: int) -> None:
    for found in threads(pid):
        assert [found[which] for which in ("CapPrm", "CapEff", "CapInh", "CapAmb")] == ["0" * 16] * 4, found["Name"]
        assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2"), found["Name"]


@pytest.mark.parametrize("existing", [False, True])
def test_the_recorder_keeps_what_sampling_needs_and_its_decoder_nothing(tmp_path: Path, existing: bool) -> None:
    out = tmp_path / "run"
    words = ("--interface", "lo", "--port", "9", *(("--overwrite",) if existing else ()))
    if existing:
        with recording(out) as process:
            end(process)
    with recording(out, *words) as process:
        [decoder] = children(process.pid)
        assert_powerless(decoder)
        assert status(Path(f"/proc/{decoder}"))["Uid"].split() == [str(NOBODY)] * 4
        held = rights(process.pid, "CapPrm")
        assert held == rights(process.pid, "CapEff")
        sampling = DAC_READ_SEARCH | SYS_PTRACE
        named = {name: right for name, right in held.items() if right}
        assert named == {"tailrace-sample": sampling, "tailrace-proces": sampling}
        assert status(Path(f"/proc/{process.pid}"))["NoNewPrivs"] == "1"
        end(process)


def test_what_enters_namespaces_again_has_its_rights_at_those_times_alone(tmp_path: Path) -> None:
    with two_hosts() as hosts:
        words = ("--node", hosts.node, "--interface", "box:eth0")
        with recording(tmp_path / "run", *words) as process:
            effective, held = (rights(process.pid, which) for which in ("CapEff", "CapPrm"))
            end(process)
    assert not any(right & (SYS_ADMIN | NET_RAW) for right in effective.values())
    enter = SYS_ADMIN | NET_RAW
    assert {name for name, right in held.items() if right & enter} == {
        "tailrace-sample",
        "tailrace-proces",
        "tailrace-packet",
    }


def test_a_decoder_that_dies_is_started_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ask = "import sys, urllib.request\nfor _ in range(20): urllib.request.urlopen(sys.argv[1]).read()"
    with (
        two_hosts() as hosts,
        served(hosts, tmp_path),
        # Otherwise the names of the first requests depend on how fast they came.
        recording(out, "--node", hosts.node, "--interface", "box:eth0", "--keep-queries") as process,
    ):
        asking = hosts.on(hosts.client, sys.executable, "-c", ask, f"http://{hosts.address}/page1")
        subprocess.run(asking, check=True)
        time.sleep(1.5)  # what it has said by then is kept
        [decoder] = children(process.pid)
        os.kill(decoder, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while children(process.pid) in ([], [decoder]) and time.monotonic() < deadline:
            time.sleep(0.05)
        [again] = children(process.pid)
        while status(Path(f"/proc/{again}"))["Seccomp"] != "2" and time.monotonic() < deadline:
            time.sleep(0.05)
        assert_powerless(again)
        subprocess.run(asking, check=True)
        _, err = end(process)
    assert "what decodes packets has died (signal: 9 (SIGKILL))" in err
    run = Dataset.open(out)
    assert any("decoding died" in what for what in run.manifest.lost)
    asked = run.visits().filter(pl.col("interaction").cast(pl.String).str.contains("page1")).collect()
    assert asked.height == 40
    visits, requests = run.visits().collect(), run.requests().collect()
    assert visits["visit"].n_unique() == visits.height
    # Each of the 40 is a connection of its own, before and after.
    assert requests.filter(pl.col("request").is_in(asked["request"].implode()))["client"].n_unique() == 40
    assert sum(server.attempts for server in run.connections.servers.values()) >= 40


@pytest.mark.parametrize("command", [("read", "--out=run"), ("diagnose",)])
def test_what_reads_files_is_powerless_before_it_reads_them(tmp_path: Path, command: tuple[str, ...]) -> None:
    words = (*TAILRACE, *command, "-")
    with subprocess.Popen(words, stdin=subprocess.PIPE, cwd=tmp_path, stderr=subprocess.DEVNULL) as waiting:
        deadline = time.monotonic() + 60
        while not (reading := children(waiting.pid)) and time.monotonic() < deadline:
            time.sleep(0.01)
        [reader] = reading
        while status(Path(f"/proc/{reader}"))["Seccomp"] != "2" and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(1)  # libraries are loaded, and their threads have begun
        assert_powerless(reader)
        assert {task["CapPrm"] for task in threads(waiting.pid)} == {"0" * 16}
        waiting.terminate()


TRY = """
import os, signal, socket, subprocess, sys
from pathlib import Path
from tailrace import _core
inside, outside = map(Path, sys.argv[1:])
_core.confine([str(inside)], [])
def refused(work):
    try:
        work()
    except OSError as error:
        return error.errno in (1, 13)
(inside / "new").mkdir()
(inside / "new" / "file").write_text("x")
(inside / "new").rename(inside / "renamed")
Path(os.devnull).write_text("x")
tries = {
    "write": lambda: (outside / "file").write_text("x"),
    "make": lambda: (outside / "other").touch(),
    "remove": lambda: (outside / "file").unlink(),
    "move": lambda: (inside / "renamed").rename(outside / "renamed"),
    "truncate": lambda: os.truncate(outside / "file", 0),
    "chmod": lambda: (outside / "file").chmod(0o777),
    "chown": lambda: os.chown(outside / "file", 1, 1),
    "socket": lambda: socket.socket(),
    "program": lambda: subprocess.run(["true"]),
    "kill": lambda: os.kill(os.getppid(), 0),
    "shadow": lambda: os.open("/etc/shadow", os.O_RDWR),
}
print(*(name for name, work in tries.items() if not refused(work)))
sys.stdout.flush()
signal.raise_signal(signal.SIGABRT)
"""


def test_a_confined_process_writes_to_its_folders_and_nothing_else(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "file").write_text("as it was")
    done = subprocess.run([sys.executable, "-c", TRY, inside, outside], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert (done.stdout, done.returncode) == ("\n", -signal.SIGABRT)
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "as it was"
    assert (inside / "renamed" / "file").exists()


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Path]:
    """A folder that only another user may read."""
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def test_root_still_works_in_folders_of_others(theirs: Path) -> None:
    out = theirs / "run"
    with recording(out, "--interface", "lo") as process:
        assert status(Path(f"/proc/{process.pid}"))["CapEff"] == f"{DAC_OVERRIDE:016x}"
        end(process)
    Dataset.open(out).validate(checksums=True)
    shutil.copy(out / "samples.parquet", theirs / "samples.parquet")
    os.chown(theirs / "samples.parquet", NOBODY, NOBODY)
    (theirs / "samples.parquet").chmod(0o600)
    words = (*TAILRACE, "diagnose", "samples.parquet", "-o", "other", "--quiet")
    done = subprocess.run(words, cwd=theirs, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (theirs / "other" / "report.html").exists()
    with started(*TAILRACE, "watch", "-o", str(theirs / "incidents"), "--interface", "lo", "--port", "9") as watch:
        assert watch.stdout is not None
        assert "watching" in watch.stdout.readline()
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(60) == 0
