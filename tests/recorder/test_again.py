"""Interfaces, namespaces and control groups that go away and come back under their name during a recording, as in a
container that restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import polars as pl
import pytest

from recorders import MISSING, Hosts, cable, end, ip, recording, served, two_hosts
from tailrace.dataset import Dataset
from tailrace.testbed.cgroup import Group, mounted

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")

ASK = """
import sys, urllib.request
for number in range(int(sys.argv[2])):
    urllib.request.urlopen(f"http://{sys.argv[1]}/page1?n={number}", timeout=5).read()
"""


def ask(hosts: Hosts, count: int) -> None:
    subprocess.run(hosts.on(hosts.client, sys.executable, "-c", ASK, hosts.address, str(count)), check=True)


def answered(out: Path) -> int:
    """Requests that got a page; the others only try whether the server is up."""
    visits = Dataset.open(out).visits().filter(pl.col("interaction").cast(pl.String).str.contains("page1"))
    return visits.collect().height


@contextmanager
def recorded(hosts: Hosts, out: Path, *interfaces: str) -> Iterator[list[str]]:
    """What the recorder has said so far; all of it, when it has ended."""
    said: list[str] = []
    named = [word for name in interfaces for word in ("--interface", f"box:{name}")]
    # Otherwise the names of the first requests depend on how fast they came.
    with recording(out, "--node", hosts.node, "--keep-queries", *named) as process:

        def listen() -> None:
            assert process.stderr is not None
            for line in process.stderr:
                said.append(line.rstrip("\n"))

        listener = Thread(target=listen)
        listener.start()
        yield said
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, said
        listener.join()


def wait_for(said: list[str], sentence: str) -> None:
    until = time.monotonic() + 60
    while not any(sentence in line for line in said) and time.monotonic() < until:
        time.sleep(0.05)


def test_an_interface_that_is_made_again_is_taken_up_at_once(tmp_path: Path) -> None:
    with (
        two_hosts() as hosts,
        served(hosts, tmp_path),
        recorded(hosts, tmp_path / "run", "eth0") as said,
    ):
        ask(hosts, 5)
        for _ in range(2):
            ip("-n", hosts.server, "link", "del", "eth0")
            cable(hosts)
            ask(hosts, 40)
    assert answered(tmp_path / "run") == 85
    notes = Dataset.open(tmp_path / "run").manifest.notes
    for told in (said, notes):
        assert any("eth0 is there" in line or "eth0 was removed and made again" in line for line in told)


def test_an_interface_that_goes_down_is_read_when_it_is_up_again(tmp_path: Path) -> None:
    with two_hosts() as hosts, served(hosts, tmp_path), recorded(hosts, tmp_path / "run", "eth0") as said:
        ask(hosts, 5)
        ip("-n", hosts.server, "link", "set", "eth0", "down")
        time.sleep(0.3)
        ip("-n", hosts.server, "link", "set", "eth0", "up")
        ask(hosts, 40)
    assert answered(tmp_path / "run") == 45
    assert sum("Network is down" in line for line in said) == 1


@pytest.mark.parametrize("names", [("eth0", "late0"), ("late0", "eth0")])
def test_an_interface_that_comes_later_is_read_then_and_the_other_loses_nothing(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    with two_hosts() as hosts, served(hosts, tmp_path), recorded(hosts, tmp_path / "run", *names) as said:
        ask(hosts, 5)
        ip("-n", hosts.client, "link", "add", "late0", "type", "veth", "peer", "late0", "netns", hosts.server)
        late = Hosts(hosts.client, hosts.server, "10.79.0.2")
        for name, address in ((hosts.client, "10.79.0.1"), (hosts.server, late.address)):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "late0")
            ip("-n", name, "link", "set", "late0", "up")
        ask(late, 40)
        ask(hosts, 5)
    assert answered(tmp_path / "run") == 50
    assert any("late0 is not there yet" in line for line in said)
    assert any("late0 is there: its packets are read from here on" in line for line in said)


def test_a_namespace_that_is_made_again_is_taken_up_with_its_servers(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with two_hosts() as hosts, recorded(hosts, out, "eth0") as said:
        with served(hosts, tmp_path):
            ask(hosts, 5)
        ip("-n", hosts.client, "link", "del", "eth0")
        ip("netns", "del", hosts.server)
        ip("netns", "add", hosts.server)
        cable(hosts)
        again = f"the network namespace /run/netns/{hosts.server} of box is there again"
        wait_for(said, again)
        with served(hosts, tmp_path):
            ask(hosts, 40)
            time.sleep(2.5)  # what is sampled looks around once a second
    run = Dataset.open(out)
    assert answered(out) == 45
    assert {server.node for server in run.topology.servers} == {"box"}
    assert any(again in line for line in said)
    place = pl.col("place").cast(pl.String) == "box:80"
    queues = run.samples().filter(place & (pl.col("metric").cast(pl.String) == "accept_queue")).collect()
    last = run.visits().select(pl.col("departure").max()).collect().item()
    assert queues.filter(pl.col("time") > last).height > 5


def test_a_control_group_that_is_made_again_is_sampled_again(tmp_path: Path) -> None:
    group = Group(mounted(), f"tailrace-test-{os.getpid()}").make("0")
    try:
        with recording(tmp_path / "run", "--node", f"box=cgroup:{group.path}") as process:
            time.sleep(0.5)
            group.remove()
            time.sleep(0.2)
            group.make("0")
            made = time.time_ns()
            time.sleep(4.5)
            err = end(process)[1]
    finally:
        group.remove()
    assert err.count(f"the control group {group.path} of box is gone") == 1
    assert err.count(f"the control group {group.path} of box is there again") == 1
    box = pl.col("place").cast(pl.String) == "box"
    samples = Dataset.open(tmp_path / "run").samples().filter(box).collect()
    before, after = (set(part["metric"].cast(pl.String)) for _, part in samples.group_by(pl.col("time") > made))
    assert before == after != set()
