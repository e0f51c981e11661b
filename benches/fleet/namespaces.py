#!/usr/bin/env python3
"""A hub and a fleet of hosts, each in a network namespace of its own, with real recorders and real requests.

    namespaces.py [--hosts N] [--only PART ...] [--incidents N] [--save NAME]

Each host is a namespace with one cable to the bridge of the hub's namespace. A `tailrace watch` in it records the
packets of that cable, and reports to the hub over TLS. Host 0 has clients. They ask the web servers of all other hosts.
When these servers freeze for some seconds, all watches notice it. It needs root. The namespaces and their addresses are
gone at the end. The watches notice and send, and explain nothing themselves.

`idle`: requests, and nothing to notice. `together`: all servers freeze at once.
`faults`: the same, but one watch is killed, one is stopped and never answers, and the cable of one is cut while it
sends, so that its connection stays half open; and the hub is killed when a quarter of the recordings have come, and
started again.
`many`: notices of so many incidents, from all hosts at once; only two hosts have a watch. The hub may write 20 of them.
`incidents`: so many incidents, from all hosts at once, with the recordings of real hosts. The hub writes all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine
import running

HERE = Path(__file__).resolve().parent
PREFIX = f"tailrace-fleet-{os.getpid()}"
HUB = f"{PREFIX}-hub"
AT_HUB = "10.79.0.1"
PORT = 9465
TOKEN = "0123456789abcdef0123"
WAIT_S = 60
WRITTEN = 20
CALM_S, FROZEN_S = 15, 4
LINE = re.compile(r"(\d\d):(\d\d):(\d\d) .*?(incident-[\dTZ-]+)")
GENEROUS_S, LONGEST_S = 1_800, 6 * 3_600


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def within(namespace: str, *words: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", namespace, *words)


def until(holds: Callable[[], object], what: str, most_s: float = GENEROUS_S) -> None:
    running.until(holds, what, most_s)


def cpu_s(process: int) -> float:
    """With its children that have ended, and with those that live."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return running.cpu_s(process) + sum(cpu_s(int(child)) for child in children)


def memory_mib(process: int, what: str = "VmRSS") -> float:
    """Of a process and those that it started: a watch records in a process of its own. One that has ended has none."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        own = machine.memory_mib(process, what)
    except (OSError, IndexError):
        return 0.0
    return own + sum(memory_mib(int(child), what) for child in children)


@dataclass(frozen=True)
class Host:
    number: int

    @property
    def namespace(self) -> str:
        return f"{PREFIX}-{self.number}"

    @property
    def name(self) -> str:
        return f"host-{self.number}"

    @property
    def address(self) -> str:
        return f"10.79.1.{self.number + 1}"

    def cable(self, state: str) -> None:
        run("ip", "-n", HUB, "link", "set", f"v{self.number}", state)


@contextmanager
def network(hosts: list[Host]) -> Iterator[None]:
    try:
        run("ip", "netns", "add", HUB)
        run("ip", "-n", HUB, "link", "add", "br0", "up", "type", "bridge")
        run("ip", "-n", HUB, "link", "set", "lo", "up")
        run("ip", "-n", HUB, "addr", "add", f"{AT_HUB}/16", "dev", "br0")
        for host in hosts:
            run("ip", "netns", "add", host.namespace)
            ends = (f"v{host.number}", "type", "veth", "peer", "eth0", "netns", host.namespace)
            run("ip", "-n", HUB, "link", "add", *ends)
            run("ip", "-n", HUB, "link", "set", f"v{host.number}", "master", "br0", "up")
            run("ip", "-n", host.namespace, "addr", "add", f"{host.address}/16", "dev", "eth0")
            for link in ("eth0", "lo"):
                run("ip", "-n", host.namespace, "link", "set", link, "up")
        yield
    finally:
        for namespace in (HUB, *(host.namespace for host in hosts)):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


@contextmanager
def process(said: Path, *words: str, session: bool = True) -> Iterator[subprocess.Popen[bytes]]:
    with said.open("ab") as out:
        child = subprocess.Popen(words, stdout=out, stderr=out, start_new_session=session)
    try:
        yield child
    finally:
        for number in (signal.SIGCONT, signal.SIGTERM):
            child.send_signal(number)
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@dataclass
class Fleet:
    folder: Path
    hosts: list[Host]
    stack: ExitStack
    watches: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    clients: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def incidents(self) -> Path:
        return self.folder / "hub"

    @property
    def hub_said(self) -> str:
        return (self.folder / "hub.txt").read_text()

    def hub(self, most: int = 200) -> subprocess.Popen[bytes]:
        """Starts it; it listens when this returns."""
        before = self.hub_said.count("hub at") if (self.folder / "hub.txt").exists() else 0
        files = ("--token-file", "token", "--certificate", "hub.pem", "--key", "key.pem")
        options = ("--listen", f"{AT_HUB}:{PORT}", "--wait", f"{WAIT_S}s", "--most", str(most))
        words = (sys.executable, "-m", "tailrace", "hub", "-o", str(self.incidents), *self._placed(files), *options)
        hub = self.stack.enter_context(process(self.folder / "hub.txt", *within(HUB, *words)))
        until(lambda: self.hub_said.count("hub at") > before or hub.poll() is not None, "the hub listens", 60)
        return hub

    def watch(self, host: Host) -> None:
        files = self._placed(("--token-file", "token", "--hub-ca", "hub.pem"))
        to = ("--report-to", f"https://{AT_HUB}:{PORT}", *files, "--host", host.name)
        recorded = ("--interface", "eth0", "--port", "80", "--interval", "200ms", "--ring", "1MiB", "--keep", "1min")
        out = self.folder / host.name
        # Its folder is full, so it explains nothing itself: two cores do not carry 50 diagnoses.
        (out / "incident-full").mkdir(parents=True)
        into = ("-o", str(out), "--most", "1")
        words = (sys.executable, "-m", "tailrace", "watch", *into, *recorded, *to)
        said = self.folder / f"{host.name}.txt"
        self.watches[host.name] = self.stack.enter_context(process(said, *within(host.namespace, *words)))

    def serve(self) -> None:
        for host in self.hosts[1:]:
            words = (
                sys.executable,
                "-m",
                "http.server",
                "80",
                "--protocol",
                "HTTP/1.1",
                "--directory",
                "/proc/self/net",
            )
            child = process(self.folder / "servers.txt", *within(host.namespace, *words))
            self.servers.append(self.stack.enter_context(child))
        words = (sys.executable, str(HERE / "clients.py"), *(host.address for host in self.hosts[1:]))
        child = process(self.folder / "clients.txt", *within(self.hosts[0].namespace, *words))
        self.clients.append(self.stack.enter_context(child))

    def freeze(self) -> float:
        """All servers stop for some seconds, and the clients end after that; returns when the servers stopped."""
        for server in self.servers:
            server.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        time.sleep(FROZEN_S)
        for server in self.servers:
            server.send_signal(signal.SIGCONT)
        time.sleep(FROZEN_S)
        group(self.clients[0], signal.SIGKILL)
        return stopped

    def delivered(self) -> int:
        return len(list(self.incidents.glob("*.collecting/*/recording.json")))

    def explained(self) -> list[Path]:
        return [path.parent for path in self.incidents.glob("incident-*/report.html")]

    def outcome(self, begin: float) -> dict[str, Any]:
        until(self._is_over, "the incident is explained")
        incidents = self.explained()
        rows = [json.loads((one / "manifest.json").read_text())["rows"] for one in incidents]
        joined = [tomllib.loads((one / "topology.toml").read_text()).get("clocks", []) for one in incidents]
        [*_, last] = [line for line in self.hub_said.splitlines() if "see " in line]
        return {
            "incidents": len(incidents),
            "hosts": [len(clocks) for clocks in joined],
            "visits": [one["visits"] for one in rows],
            "wall_s": round(time.monotonic() - begin, 1),
            "sentence": last[:160],
        }

    def _is_over(self) -> bool:
        return "report.html" in self.hub_said and not list(self.incidents.glob("*.collecting"))

    def _placed(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(word if word.startswith("--") else str(self.folder / word) for word in words)


@contextmanager
def fleet(
    folder: Path, count: int, most: int = 200, watched: int | None = None
) -> Iterator[tuple[Fleet, subprocess.Popen[bytes]]]:
    hosts = [Host(number) for number in range(count)]
    (folder / "token").write_text(TOKEN)
    names = f"subjectAltName=IP:{AT_HUB}"
    key = ("-newkey", "rsa:2048", "-nodes", "-keyout", str(folder / "key.pem"), "-out", str(folder / "hub.pem"))
    run("openssl", "req", "-x509", "-days", "2", "-subj", "/CN=hub", "-addext", names, *key)
    with network(hosts), ExitStack() as stack:
        one = Fleet(folder, hosts, stack)
        hub = one.hub(most)
        if watched is None:
            one.serve()
        for host in hosts[:watched]:
            one.watch(host)
        least = count if watched is None else watched
        until(lambda: one.hub_said.count("is there") >= least, "all hosts are there", 600)
        yield one, hub


def idle(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with fleet(folder, options.hosts) as (one, hub):
        watches = [watch.pid for watch in one.watches.values()]
        begin, before = time.monotonic(), [cpu_s(hub.pid), *map(cpu_s, watches)]
        time.sleep(options.idle)
        used = [now - then for now, then in zip((cpu_s(hub.pid), *map(cpu_s, watches)), before, strict=True)]
        took = time.monotonic() - begin
        return {
            "hub_cores": round(used[0] / took, 4),
            "watch_cores_mean": round(sum(used[1:]) / len(watches) / took, 4),
            "hub_rss_mib": round(memory_mib(hub.pid), 1),
            "watch_rss_mib_max": round(max(map(memory_mib, watches)), 1),
        }


def together(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with fleet(folder, options.hosts) as (one, hub):
        time.sleep(CALM_S)
        before, begin = cpu_s(hub.pid), one.freeze()
        until(lambda: one.delivered() >= options.hosts - 1, "all hosts but one have sent")
        sent = round(time.monotonic() - begin, 1)
        found = {"sent_s": sent, **one.outcome(begin)}
        return found | {
            "cpu_s": round(cpu_s(hub.pid) - before, 1),
            "hub_rss_mib_max": round(memory_mib(hub.pid, "VmHWM"), 1),
        }


def faults(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with fleet(folder, options.hosts) as (one, hub):
        time.sleep(CALM_S)
        dead, slow, cut = one.hosts[-1], one.hosts[-2], one.hosts[-3]
        group(one.watches[dead.name], signal.SIGKILL)
        begin = one.freeze()
        group(one.watches[slow.name], signal.SIGSTOP)
        until(one.delivered, "the first recording has come")
        cut.cable("down")
        until(lambda: one.delivered() >= options.hosts // 4, "a quarter of the hosts have sent")
        group(hub, signal.SIGKILL)
        hub.wait()
        before = one.delivered()
        one.hub()
        found = {"delivered_before_the_kill": before, **one.outcome(begin)}
        group(one.watches[slow.name], signal.SIGCONT)
        cut.cable("up")
        late = [host.name for host in one.hosts if f"{host.name} did not answer in time" in one.hub_said]
        ended = [name for name, watch in one.watches.items() if watch.poll() is not None]
        return {**found, "not_in_time": late, "watches_that_ended": ended}


def group(child: subprocess.Popen[bytes], number: int) -> None:
    """A signal for the process and those that it started."""
    os.killpg(child.pid, number)


def many(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with fleet(folder, options.hosts, WRITTEN, watched=2) as (one, hub):
        begin, now = time.monotonic(), time.time_ns()
        share = -(-options.incidents // options.hosts)
        with ExitStack() as senders:
            sending = []
            for host in one.hosts:
                numbers = range(host.number * share, min((host.number + 1) * share, options.incidents))
                words = (str(HERE / "notices.py"), f"{AT_HUB}:{PORT}", str(folder), str(options.incidents))
                span = map(str, (numbers.start, numbers.stop))
                of_host = (f"other-{host.number}", *span, one.hosts[0].address, str(now))
                command = within(host.namespace, sys.executable, *words, *of_host)
                sending.append(senders.enter_context(process(folder / "notices.txt", *command)))
            until(lambda: all(each.poll() is not None for each in sending), "all notices are sent")
        until(lambda: not list(one.incidents.glob("*.collecting")), "all are explained")
        return {
            "noticed": one.hub_said.count(" noticed"),
            "written": len(one.explained()),
            "reported_only": one.hub_said.count("(--most)"),
            "busy_answers": sum(map(int, (folder / "notices.txt").read_text().split())),
            "wall_s": round(time.monotonic() - begin, 1),
            "hub_rss_mib_max": round(memory_mib(hub.pid, "VmHWM"), 1),
            "cpu_s": round(cpu_s(hub.pid), 1),
        }


def incidents(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with fleet(folder, options.hosts, options.incidents, watched=0) as (one, hub):
        begin, now = time.monotonic(), time.time_ns()
        said = folder / "reporters.txt"
        of_all = (PREFIX, *map(str, (options.hosts, options.incidents, now)))
        words = (str(HERE / "reporters.py"), f"{AT_HUB}:{PORT}", str(folder), *of_all)
        one.stack.enter_context(process(said, sys.executable, *words))
        until(lambda: said.read_text().count("host-") >= options.hosts, "all notices are sent", LONGEST_S)
        sent = round(time.monotonic() - begin, 1)
        until(lambda: not list(one.incidents.glob("*.collecting")), "all are explained", LONGEST_S)
        pages = [path.stat().st_size for path in (one.incidents / "index.html",) if path.exists()]
        return {
            "noticed": one.hub_said.count(" noticed"),
            "written": len(one.explained()),
            "not_explained": one.hub_said.count("could not be explained"),
            "hosts_that_gave_up": lines_with(said, "not reported"),
            "slowest_s": slowest_s(one.hub_said),
            "sent_s": sent,
            "wall_s": round(time.monotonic() - begin, 1),
            "hub_rss_mib_max": round(machine.memory_mib(hub.pid, "VmHWM"), 1),
            "hub_with_its_commands_mib": round(memory_mib(hub.pid), 1),
            "cpu_s": round(cpu_s(hub.pid), 1),
            "page_mb": round(sum(pages) / 1e6, 2),
        }


def slowest_s(said: str) -> int:
    """The longest time from a notice to its report, by the hub's own lines, which begin with the time of day."""
    began, longest = dict[str, int](), 0
    for line in said.splitlines():
        if found := LINE.match(line):
            hours, minutes, seconds, name = found.groups()
            at = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
            longest = max(longest, (at - began.setdefault(name, at)) % 86_400)
    return longest


def lines_with(said: Path, word: str) -> int:
    return sum(word in line for line in said.read_text().splitlines())


PARTS = {part.__name__: part for part in (idle, together, faults, many, incidents)}


def main() -> None:
    parser = running.arguments(__doc__, PARTS)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="use this folder, and leave it")
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine.about()}
    for name in options.only:
        with tempfile.TemporaryDirectory() as temporary:
            folder = (options.keep or Path(temporary)) / name
            folder.mkdir(parents=True)
            found[name] = {"load": machine.load(), **PARTS[name](folder, options)}
        print(name, json.dumps(found[name]), flush=True)
    running.save(found, options.save)


if __name__ == "__main__":
    main()
