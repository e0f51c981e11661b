"""Whole runs on real servers, as root: Apache drops while Tomcat is frozen, and everything is gone afterwards."""

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

from tailrace import experiment, readers, testbed
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.errors import TailraceError
from tailrace.experiment import truth
from tailrace.testbed import cgroup, doctor, load, net, nodes, undoing
from tailrace.testbed.ledger import Ledger, held
from tailrace.testbed.servers import board, data
from tailrace.testbed.site import Site
from tailrace.testbed.system import System
from tailrace.units import MILLISECOND, SECOND

SITE = Site("tailrace-test")
SYNC = Path(__file__).parents[2] / "experiments/testbed/sync"
SMALL = ["workloads.steady.rate=500", "duration=5s", "ramp=2s", "tiers.web.workers=60", "tiers.web.calls.app.pool=60"]
DOWN_S = 60.0
"""So long a busy machine may take to end a testbed."""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    lacking = doctor.missing(doctor.examine(SITE))
    if lacking:
        pytest.skip(lacking)
    if not board.jar().exists():
        pytest.skip("the bulletin board is not built; `make testbed-setup` builds it")
    monkeypatch.setattr(load, "STEP_NS", 2 * SECOND)
    undoing.clean(SITE)
    yield
    left = [root for root in cgroup.mounted().roots if (root / SITE.group).exists()]
    assert (net.named(SITE), left, (SITE.files / "run").exists()) == ([], [], False)
    shutil.rmtree(SITE.state)


def test_apache_drops_while_tomcat_is_frozen(machine: None, tmp_path: Path) -> None:
    found = experiment.read(SYNC, [*SMALL, "stalls=[{kind='freeze', place='app', at='2 s', for='800 ms'}]"])
    outcome = testbed.run(found, tmp_path / "run", readers.fill, site=SITE)
    [stall] = outcome.stalls
    assert 0 <= stall.end - stall.begin - 800 * MILLISECOND < 50 * MILLISECOND
    # 400 requests come, 60 threads and a backlog of 129 hold 189 of them; the rest is luck
    assert 140 <= outcome.drops["web"] <= 280
    run = Dataset.open(tmp_path / "run")
    run.validate(checksums=True)
    told = diagnose(run)
    # Where the host is busy, the last of the queue wait as long as those whose packets were lost.
    slow = run.requests().filter(pl.col("end") - pl.col("sent") >= told.threshold_ns).collect()
    dropped = slow.filter(pl.col("drops") > 0).height
    waited = [(None, "app", "freeze", slow.height - dropped)] if slow.height > dropped else []
    found_rows = [(row.dropper, row.origin, row.cause, row.vlrt) for row in told.summary]
    assert found_rows == [("web", "app", "freeze", dropped), *waited]
    assert truth.read(tmp_path / "run").engine == "testbed"
    assert {file.name for file in (tmp_path / "run/raw").iterdir()} >= {"web", "app", "db", "packets.pcap.zst"}


def test_a_server_that_dies_ends_the_run_and_leaves_nothing(machine: None, tmp_path: Path) -> None:
    found = experiment.read(SYNC, [*SMALL, "stalls=[]"])

    def deadly(system: System, asked: experiment.Experiment, out: Path) -> list[str]:
        os.kill(system.programs["db"].process.pid, signal.SIGKILL)
        return ["sleep", "60"]

    with pytest.raises(TailraceError, match="db ended with -9 during the run"):
        testbed.run(found, tmp_path / "run", readers.fill, site=SITE, loading=deadly)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_start_says_why(machine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "fill", lambda setting, room, folder: folder.mkdir())
    with pytest.raises(TailraceError, match=r"(db|app) ended with \d+ before it was ready: .*(mysql|database server)"):
        testbed.run(experiment.read(SYNC, SMALL), tmp_path / "run", readers.fill, site=SITE)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_the_run_and_is_reported(machine: None, tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tailrace-test", str(tmp_path)], check=True)
    try:
        batches = "workloads={batches={kind='batch',size=200,every='500 ms',interaction='Browse'}}"
        found = experiment.read(SYNC, [*SMALL[1:], "stalls=[]", batches])
        with pytest.raises(TailraceError, match="the disk is full"):
            testbed.run(found, tmp_path / "run", readers.fill, site=SITE)
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.fixture
def serving() -> Iterator[subprocess.Popen[bytes]]:
    """Another process that runs a testbed."""
    program = (
        "import sys; from pathlib import Path; from tailrace import experiment, testbed\n"
        "import signal; from tailrace import endings; endings.handle(signal.default_int_handler)\n"
        "with testbed.serving(experiment.read(Path(sys.argv[1])), testbed.Site('tailrace-test')):\n"
        "    print('up', flush=True); import time; time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(SYNC)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_run_that_a_signal_ends_leaves_no_server(
    machine: None, serving: subprocess.Popen[bytes], how: signal.Signals
) -> None:
    for _ in range(2):  # the second comes while the run ends in order
        serving.send_signal(how)
    serving.wait(DOWN_S)
    assert (Ledger(SITE.state).steps(), undoing.strangers(SITE)) == ([], [])


def test_a_run_that_is_killed_leaves_no_server(machine: None, serving: subprocess.Popen[bytes]) -> None:
    serving.kill()
    serving.wait()
    deadline = time.monotonic() + DOWN_S
    while Ledger(SITE.state).steps() and time.monotonic() < deadline:  # the ledger is empty after all is undone
        time.sleep(0.1)
    assert (Ledger(SITE.state).steps(), undoing.strangers(SITE)) == ([], [])


def test_what_is_left_of_a_run_and_of_its_guardian_is_undone_by_clean(machine: None) -> None:
    with held(SITE) as ledger:
        nodes.top(SITE, ledger, sorted(os.sched_getaffinity(0)))
    assert ("group", "tailrace-test") in undoing.clean(SITE)
