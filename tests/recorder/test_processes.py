"""Servers without any configuration: they get the names of their processes, whose CPU time shows what stalled them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from recorders import MISSING, TAILRACE, end, recording, served, started, two_hosts
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.testbed.cgroup import Group, mounted
from tailrace.units import MILLISECOND, SECOND

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")

BURN = "import time; until = time.monotonic() + 4\nwhile time.monotonic() < until: pass"


def test_a_stopped_server_has_its_process_name_and_is_reported_as_frozen(tmp_path: Path) -> None:
    def stop(server: subprocess.Popen[str], _group: Group) -> None:
        server.send_signal(signal.SIGSTOP)
        time.sleep(0.6)
        server.send_signal(signal.SIGCONT)

    assert told_of(stop, tmp_path) == "freeze"


@pytest.mark.parametrize("periods", [1, 4])
def test_the_quota_of_a_control_group_that_was_not_named_is_reported(tmp_path: Path, periods: int) -> None:
    """Four periods at once look like one that was overdrawn and is paid back: the kernel counts the wait late."""

    def hold_back(_server: subprocess.Popen[str], group: Group) -> None:
        # Eight pages come in 100 ms, and each takes a quarter of a millisecond and more.
        group.limit(periods * MILLISECOND, periods * 100 * MILLISECOND)
        time.sleep(0.8)
        group.limit(None)

    assert told_of(hold_back, tmp_path) == "cpu-quota"


ATTEMPTS = 3
RATE = 80
"""Requests per second."""


def told_of(stall: Callable[[subprocess.Popen[str], Group], None], folder: Path) -> str:
    """The cause that is attributed to the stall of a server without configuration. Its control group has a weight that
    gives it a CPU whatever else the machine does.

    On a busy machine, clients may not send and samples may come too late to show a stall (`_shows`). Then nothing is
    judged, and the stall is recorded again, as it is where the answer is `unknown`. Any other answer counts at once.
    """
    group = Group(mounted(), f"tailrace-test-{os.getpid()}").make("0", weight=200)
    try:
        judged = False
        for attempt in range(ATTEMPTS):
            again = folder / str(attempt)
            again.mkdir()
            cause = _told(stall, again, group)
            if cause is not None and cause != "unknown":
                return cause
            judged |= cause is not None
        if judged:
            return "unknown"
        pytest.skip(f"the machine was too busy to record a stall in {ATTEMPTS} attempts: load {os.getloadavg()}")
    finally:
        group.remove()


def _told(stall: Callable[[subprocess.Popen[str], Group], None], folder: Path, group: Group) -> str | None:
    """None if the recording cannot show the stall."""
    out = folder / "run"
    with two_hosts() as hosts, served(hosts, folder) as server:
        for entry in group.entries():
            entry.write_text(str(server.pid))
        name = Path(f"/proc/{server.pid}/comm").read_text().strip()
        with recording(out, "--node", hosts.node, "--interface", "box:eth0") as process:
            words = ("--i-own-this-target", f"--rate={RATE}", "--duration=9s", "-o", str(folder / "load"))
            load = (*TAILRACE, "load", f"http://{hosts.address}/page1", *words)
            with started(*hosts.on(hosts.client, *load)) as asking:
                time.sleep(5)
                begin = time.time_ns()
                stall(server, group)
                until = time.time_ns()
                asking.communicate(timeout=60)
            end(process)
    run = Dataset.open(out)
    [server_name] = [server.name for server in run.topology.servers]
    # The name has the node and the port if another process of that name listens on this machine.
    assert server_name in (name, f"box/{name}:80")
    if not _shows(run, begin, until):
        return None
    # The machine may make others: a moment without CPU fills a queue of five.
    of_stall = [episode for episode in diagnose(run).episodes if episode.begin < until and episode.end > begin]
    episode = max(of_stall, key=lambda episode: episode.vlrt)
    assert (episode.dropper, episode.origin) == (server_name, server_name)
    return episode.cause


def _shows(run: Dataset, begin: int, until: int) -> bool:
    """Whether clients sent most of their requests during the stall, and no two samples of it are far apart."""
    sent = run.requests().filter(pl.col("sent").is_between(begin, until)).select(pl.len()).collect().item()
    of_stall = pl.col("time").is_between(begin, until), pl.col("metric").cast(pl.String) == "cpu_busy"
    samples = run.samples().filter(*of_stall)
    longest = samples.select(pl.col("interval_ns").max()).collect().item()
    due = RATE * (until - begin) / SECOND
    return bool(sent > due / 2 and longest is not None and longest < 150 * MILLISECOND)


def test_a_process_that_takes_the_cpu_is_named(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with recording(out, "--interval", "20ms") as process:
        time.sleep(0.5)
        # A child of the test would count as part of it, if the test runner listens on a port.
        subprocess.run(["setsid", "--fork", sys.executable, "-c", BURN], check=True)
        time.sleep(5)
        end(process)
    rows = Dataset.open(out).samples().filter(pl.col("metric") == "cpu_busy").collect()
    burned = rows.filter(pl.col("place").cast(pl.String) == f"process {Path(sys.executable).name}")
    used = (burned["value"] * burned["interval_ns"]).sum() / 1e9
    # It shares the CPUs with whatever else runs, and one may be seen late, but from its begin.
    assert used > 0.3, os.getloadavg()


FRONT = """
import http.server, threading, urllib.request
class Back(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"x" * 100 if self.server.server_port == 81 else urllib.request.urlopen("http://127.0.0.1:81/row").read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
back, front = (http.server.ThreadingHTTPServer(to, Back) for to in (("127.0.0.1", 81), ("0.0.0.0", 80)))
threading.Thread(target=back.serve_forever).start()
print("serving", flush=True)
front.serve_forever()
"""


def test_a_server_with_outside_clients_calls_another_on_its_own_host(tmp_path: Path) -> None:
    with two_hosts() as hosts, started(*hosts.on(hosts.server, sys.executable, "-c", FRONT)) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline() == "serving\n"
        name = Path(f"/proc/{serving.pid}/comm").read_text().strip()
        for kind in ((), ("--capture",)):
            out = tmp_path / f"run{len(kind)}"
            interfaces = ("--interface", "box:eth0", "--interface", "box:lo")
            with recording(out, "--node", hosts.node, *interfaces, *kind) as process:
                ask = (
                    *TAILRACE,
                    "load",
                    f"http://{hosts.address}/",
                    "--i-own-this-target",
                    "--rate=100",
                    "--duration=2s",
                )
                load = subprocess.run(
                    hosts.on(hosts.client, *ask, "-o", str(tmp_path / "load"), "--overwrite"), capture_output=True
                )
                assert load.returncode == 0, load.stderr
                end(process)
            run = Dataset.open(out)
            [call] = run.topology.calls
            assert (call.caller.removeprefix("box/"), call.callee.removeprefix("box/")) == (f"{name}:80", f"{name}:81")
            visits = run.visits().collect()
            assert run.requests().collect().height * 2 == visits.height
