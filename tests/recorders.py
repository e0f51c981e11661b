"""Runs the recorder as a user does, between two hosts (network namespaces) with a cable."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

SECOND = 1_000_000_000
TAILRACE = (sys.executable, "-m", "tailrace")
MISSING = os.geteuid() != 0 or not shutil.which("ip")
"""Namespaces and packets need root."""

# Clients that send and wait, with a connection for each request.
_CROWD = """
import sys, threading, time, urllib.request
def ask():
    until = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(f"http://{sys.argv[1]}/page1", timeout=20).read()
        except OSError:
            pass
        time.sleep(0.1)
for _ in range(30):
    threading.Thread(target=ask).start()
"""


@contextmanager
def recording(out: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A running recorder; killed if the test did not end it."""
    with started(*TAILRACE, "record", "-o", str(out), *words) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "recording\n", process.communicate()[1]
        yield process


@contextmanager
def started(*command: str, said: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """`said` is its output file; a pipe that nothing reads would block it when full."""
    with subprocess.Popen(command, stdout=said, stderr=said, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Its standard output and standard error."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out, err


def refused(*words: str) -> str:
    done = subprocess.run([*TAILRACE, "record", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stdout
    return done.stderr


def children(pid: int) -> list[int]:
    """Of all of its threads."""
    listed = [(task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for child in " ".join(listed).split()]


_NUMBERS = count()


@dataclass(frozen=True)
class Hosts:
    """Two namespaces; `eth0` of each is an end of the cable."""

    client: str
    server: str
    address: str
    """Of the server."""

    def on(self, name: str, *command: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", name, *command)

    @property
    def node(self) -> str:
        """The recorder's name of the server's namespace."""
        return f"box=netns:/run/netns/{self.server}"

    @property
    def switch(self) -> str:
        """The namespace with the bridge between them, if there is one."""
        return f"{self.server}-switch"


def hosts_of(mine: str) -> Hosts:
    return Hosts(f"{mine}-c", f"{mine}-s", "10.78.0.2")


@contextmanager
def two_hosts(mine: str | None = None, bridged: bool = False) -> Iterator[Hosts]:
    """Their names begin with `mine`, by default with a unique prefix. `bridged`: the cable goes through `br0` of a
    third namespace."""
    hosts = hosts_of(mine or f"tailrace-{os.getpid()}-{next(_NUMBERS)}")
    try:
        for name in (hosts.client, hosts.server, hosts.switch):
            _run("ip", "netns", "add", name)
        if bridged:
            on_switch = ("ip", "-n", hosts.switch, "link")
            _run(*on_switch, "add", "br0", "up", "type", "bridge")
            for port, name in enumerate((hosts.client, hosts.server)):
                _run(*on_switch, "add", f"v{port}", "type", "veth", "peer", "eth0", "netns", name)
                _run(*on_switch, "set", f"v{port}", "master", "br0", "up")
            set_up(hosts)
        else:
            cable(hosts)
        yield hosts
    finally:
        for name in (hosts.client, hosts.server, hosts.switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def cable(hosts: Hosts) -> None:
    """Replaces the cable between the two by a new one."""
    _run(*("ip", "-n", hosts.client, "link", "add", "eth0", "type", "veth", "peer", "eth0", "netns", hosts.server))
    set_up(hosts)


def set_up(hosts: Hosts) -> None:
    for name, address in ((hosts.client, "10.78.0.1"), (hosts.server, hosts.address)):
        _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            _run("ip", "-n", name, "link", "set", link, "up")


@contextmanager
def served(hosts: Hosts, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Pages of several sizes on the server's port 80, over HTTP/1.1; its accept queue holds five."""
    for page in range(3):
        (folder / f"page{page}").write_bytes(bytes(1000 * page))
    words = ("-m", "http.server", "80", "--protocol", "HTTP/1.1", "--directory", str(folder))
    with started(*hosts.on(hosts.server, sys.executable, *words), said=subprocess.DEVNULL) as server:
        connect = f"import socket; socket.create_connection(('{hosts.address}', 80), 1)"
        for _ in range(100):
            if (
                subprocess.run(hosts.on(hosts.client, sys.executable, "-c", connect), capture_output=True).returncode
                == 0
            ):
                break
            time.sleep(0.1)
        yield server


@contextmanager
def frozen(hosts: Hosts, server: subprocess.Popen[str], calm_s: int, asked_s: int) -> Iterator[None]:
    """A crowd asks for `asked_s`; when it has asked for `calm_s`, the server is frozen for a second."""
    with started(*hosts.on(hosts.client, sys.executable, "-c", _CROWD, hosts.address, str(asked_s))):
        time.sleep(calm_s)
        server.send_signal(signal.SIGSTOP)
        time.sleep(1)
        server.send_signal(signal.SIGCONT)
        yield


def ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
