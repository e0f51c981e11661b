"""Two hosts (network namespaces) with a cable, nginx on one, load from the other, and a recorder of both to measure."""

# ruff: noqa: E402 (the path comes first: this runs from a checkout)

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / part) for part in ("tests", "python")]

from recorders import TAILRACE, Hosts, hosts_of, two_hosts
from tailrace.dataset import Dataset
from tailrace.recorder import Node
from tailrace.testbed.cgroup import Group, entered, mounted
from tailrace.testbed.nodes import SHIELD

NAME = "tailrace-bench"
HOSTS = hosts_of(NAME)
RATE = 2000
"""Requests a second; each has nine packets."""
NODES = 4
"""Of a system of the papers: web, application, database, and a neighbour."""


def cable() -> AbstractContextManager[Hosts]:
    return two_hosts(NAME)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def nginx(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    config = folder / "nginx.conf"
    text = (HERE.parent / "load" / "nginx.conf").read_text()
    config.write_text(text.replace("FOLDER", str(folder)).replace("127.0.0.1:PORT", f"{HOSTS.address}:80"))
    command = HOSTS.on(HOSTS.server, "nginx", "-e", str(folder / "error.log"), "-c", str(config))
    with subprocess.Popen(command) as server:
        try:
            while not run(*HOSTS.on(HOSTS.server, "ss", "-Hltn", "sport = :80")):
                if server.poll() is not None:
                    sys.exit("nginx did not start")
                time.sleep(0.05)
            yield server
        finally:
            server.terminate()


@contextmanager
def shielded() -> Iterator[list[Node]]:
    """This process and all that it starts, before whatever else the machine does, as the testbed is; beside it in the
    same shield nodes with a control group and a network namespace each."""
    groups = [Group(mounted(), f"{NAME}/{name}") for name in ("all", *map(str, range(NODES)))]
    shield = Group(mounted(), NAME)
    every = f"0-{(os.cpu_count() or 1) - 1}"
    for group in (shield, *groups):
        group.make(every)
    shield.weigh(SHIELD)
    groups[0].be_prompt()
    hosts = (HOSTS.server, HOSTS.client)
    try:
        with entered(groups[0]):
            yield [
                Node(f"n{number}", f"/run/netns/{hosts[number % 2]}", group.path)
                for number, group in enumerate(groups[1:])
            ]
    finally:
        for group in (*groups, shield):
            group.remove()


def words(nodes: list[Node]) -> list[str]:
    """Options of the recorder."""
    return [word for node in nodes for word in ("--node", f"{node.name}=netns:{node.netns},cgroup:{node.cgroup}")]


def load(out: Path, seconds: int, *words: str) -> subprocess.Popen[str]:
    """Somebody who asks the server, from the other host; `answer` waits for what became of it."""
    command = (*TAILRACE, "load", f"http://{HOSTS.address}/", "--i-own-this-target", "--json", "--quiet", "--overwrite")
    words = ("--duration", f"{seconds}s", "-o", str(out), *words)
    return subprocess.Popen(HOSTS.on(HOSTS.client, *command, *words), stdout=subprocess.PIPE, text=True)


def answer(asking: subprocess.Popen[str]) -> dict[str, float]:
    said: dict[str, float] = json.loads(asking.communicate()[0])
    if asking.returncode or said["requests"] == 0:
        sys.exit(f"the load failed: {said}")
    return said


@contextmanager
def recorder(out: Path, *words: str, by: tuple[str, ...] = ()) -> Iterator[int]:
    """A recorder that records; its process."""
    command = (*by, *TAILRACE, "record", "-o", str(out), "--overwrite", *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        if process.stdout.readline() != "recording\n":
            sys.exit("the recorder did not start")
        try:
            yield process.pid
        finally:
            # strace hands the signal on to nobody: the recorder is its child
            subprocess.run(["pkill", "-TERM", "-P", str(process.pid)] if by else ["kill", str(process.pid)])
            process.wait(60)


def cpu_s(process: int) -> float:
    """CPU time that a process has used: its CPU clock, see clock_getcpuclockid(3)."""
    return time.clock_gettime((~process) << 3 | 2)


def threads(process: int) -> dict[int, str]:
    """Of a process, with their names."""
    return {int(task.name): (task / "comm").read_text().strip() for task in Path(f"/proc/{process}/task").iterdir()}


def beside(process: int) -> set[int]:
    """Threads of the server and of the load: all in the shield but this process and another."""
    others = set(Group(mounted(), f"{NAME}/all").pids()) - {process, os.getpid()}
    return {thread for other in others for thread in threads(other)}


def machine_s() -> float:
    """CPU time that everything on this machine has used, in the kernel's exact account of the root control group."""
    return Group(mounted(), "").used_ns() / 1e9


def stolen_s() -> float:
    """CPU time that the host of this virtual machine gave to others, of all CPUs, in ticks of 10 ms."""
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")


def packets() -> int:
    """That passed the server's end of the cable so far."""
    [link] = json.loads(run("ip", "-n", HOSTS.server, "-s", "-j", "link", "show", "eth0"))
    return int(link["stats64"]["rx"]["packets"]) + int(link["stats64"]["tx"]["packets"])


@dataclass(frozen=True)
class Jitter:
    """By how much the true intervals of samples differ from the nominal one.

    Without processes that do not listen: the first sample of one is about all the time since the begin.
    """

    p50_ms: float
    p99_ms: float
    most_ms: float
    samples: int


def jitter(folder: Path, interval_ms: float) -> Jitter:
    off = (pl.col("interval_ns") / 1e6 - interval_ms).abs()
    place = pl.col("place").cast(pl.String)
    told = Dataset.open(folder).samples().filter(~place.str.contains("^process |^kernel threads$")).select(
        off.quantile(0.5).alias("p50"), off.quantile(0.99).alias("p99"), off.max().alias("most"), off.len().alias("n")
    ).collect()  # fmt: skip
    return Jitter(*told.row(0))
