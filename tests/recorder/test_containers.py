"""A server in a real container, recorded from outside and named after it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from recorders import MISSING, Hosts, end, recording, started, two_hosts
from tailrace import read

NAME = f"tailrace-{os.getpid()}"
PYTHON = Path("/usr/bin/python3")
ASKING = """
import http.client, sys, time
deadline = time.monotonic() + 60
while True:
    try:
        asked = http.client.HTTPConnection(sys.argv[1], 8000, timeout=5)
        asked.request("GET", "/"); asked.getresponse().read()
        break
    except OSError:
        if time.monotonic() > deadline: raise
        time.sleep(0.1)
"""

pytestmark = [
    pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)"),
    pytest.mark.skipif(not shutil.which("podman"), reason="needs podman, and runc or crun"),
    pytest.mark.skipif(not PYTHON.exists(), reason="the container runs the Python of this host"),
]


def started_in(hosts: Hosts, folder: Path) -> str:
    """Starts a server in a container that sees this host's programs; returns why it cannot be started."""
    rootfs = folder / "rootfs"
    for name in ("usr", "proc", "sys", "dev", "tmp", "etc", "run"):
        (rootfs / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (rootfs / name).symlink_to(f"usr/{name}")
    runtime = shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin") or shutil.which("crun") or "runc"
    command = ("podman", "--runtime", runtime, "--cgroup-manager", "cgroupfs", "run", "--detach", "--rm")
    limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000")
    place = ("--network", f"ns:/run/netns/{hosts.server}", "--volume", "/usr:/usr:ro", "--rootfs", str(rootfs))
    words = (*command, *limits, "--name", NAME, *place, str(PYTHON), "-m", "http.server", "8000")
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    return done.stderr if done.returncode else ""


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Hosts]:
    """Two hosts; on one of them, a container serves."""
    with two_hosts() as hosts:
        try:
            if why_not := started_in(hosts, tmp_path):
                pytest.skip(f"podman cannot run a container here: {why_not.strip().splitlines()[-1]}")
            subprocess.run(hosts.on(hosts.client, sys.executable, "-c", ASKING, hosts.address), check=True)
            yield hosts
        finally:
            subprocess.run(("podman", "rm", "--force", NAME), capture_output=True)


def test_a_server_in_a_container_is_named_and_sampled(asked: Hosts, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with recording(out, "--containers", "--interface", f"{NAME}:eth0", "--interval", "10ms") as recorder:
        with started(*asked.on(asked.client, sys.executable, "-c", ASKING, asked.address)) as client:
            assert client.wait(60) == 0
        end(recorder)
    run = read(out)
    assert [server.name for server in run.topology.servers] == [NAME]
    assert run.topology.servers[0].node == NAME
    own = run.samples().filter(pl.col("place").cast(pl.String) == NAME)
    metrics = own.select(pl.col("metric").cast(pl.String).unique()).collect()["metric"]
    assert {"cpu_busy", "listen_drops"} <= set(metrics)
