#!/usr/bin/env python3
"""A hub and a fleet of hosts: what it costs, and what a killed hub, a dead host and a slow one change.

    bench.py [--hosts N] [--idle S] [--incidents N] [--only PART ...] [--save NAME]

The hosts are the reporting side of `tailrace watch`. One calls all others. Their rings are the recordings of two real
hosts (tests/golden/hub), with addresses of their own: that of the caller has the visits of every server. All run on
this machine, in one process; the hub is a process of its own.

`idle`: all hosts ask the hub; nothing happens.
`together`: all hosts notice an incident in the same second.
`faults`: the same, while one host is dead and one never answers, and the hub is killed when half of the recordings have
come, and started again.
`many`: notices of so many incidents, sent as fast as the hub takes them. It may write 20 of them.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.hub.reporting import Address, Reporter
from tailrace.units import SECOND

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine
import running

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parents[1] / "tests" / "golden" / "hub"
ROLES = ("client", "server")
NUMBERS = 100_000
"""More than visits of a recording."""
TOKEN = "0123456789abcdef0123"
WAIT_S = 60
"""For a host that does not answer; the hub's default."""
WRITTEN = 20
GENEROUS_S = 1_800


def placed(server: int, text: str) -> str:
    """A name or an address of the recordings; each server has its own, and the caller keeps its address."""
    return f"web-{server}" if text == "web" else text.replace("10.78.0.2", f"10.78.{server}.2")


def stays(segment: Path, server: int) -> pa.Table:
    """The visits to one of the servers; visits and connections of different servers have different numbers."""
    table = pq.read_table(segment)
    for number, field in enumerate(table.schema):
        column = table.column(number)
        if pa.types.is_dictionary(field.type):
            words = [placed(server, word) for word in column.combine_chunks().dictionary.to_pylist()]
            column = pa.DictionaryArray.from_arrays(column.combine_chunks().indices, pa.array(words))
        elif field.name in ("visit", "connection"):
            column = pc.add(column, pa.scalar(server * NUMBERS, field.type))
        table = table.set_column(number, field, column)
    return table


def ring(folder: Path, host: int, hosts: int) -> Path:
    """The recording of a host; host 0 calls the others."""
    out = folder / "recording"
    shutil.copytree(GOLDEN / ROLES[min(host, 1)], out)
    servers = range(1, hosts) if host == 0 else (host,)
    state = json.loads((out / "recording.json").read_text())
    for node in state["nodes"]:
        node["addresses"] = [placed(host, address) for address in node["addresses"]]
    [web] = state["packets"]["servers"]
    state["packets"]["servers"] = [
        {**web, **{key: placed(server, web[key]) for key in ("name", "address", "host")}} for server in servers
    ]
    (out / "recording.json").write_text(json.dumps(state))
    for segment in list(out.glob("*.stays.parquet")):
        written = int(segment.name.partition(".")[0])
        for server in servers:
            pq.write_table(stays(segment, server), out / f"{written + 100 * server:08}.stays.parquet")
        segment.unlink()
    return out


def until(holds: Callable[[], object], what: str) -> None:
    running.until(holds, what, GENEROUS_S)


@dataclass
class Hub:
    folder: Path
    port: int
    said: Path
    process: subprocess.Popen[bytes]

    def cpu_s(self) -> float:
        """With the processes that explained an incident and have ended; those that still run do not count."""
        return running.cpu_s(self.process.pid)

    def memory_mib(self, what: str = "VmRSS") -> float:
        return round(machine.memory_mib(self.process.pid, what), 1)

    def has(self, hosts: int) -> None:
        until(lambda: self.said.read_text().count("is there") == hosts, "all hosts are there")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def started(folder: Path, port: int, most: int = 200) -> Iterator[Hub]:
    said = folder.with_suffix(".txt")
    secret = folder.with_name("token")
    secret.write_text(TOKEN)
    words = ("hub", "-o", str(folder), "--listen", f"127.0.0.1:{port}", "--token-file", str(secret))
    with said.open("wb") as out:
        command = (sys.executable, "-m", "tailrace", *words, "--wait", f"{WAIT_S}s", "--most", str(most))
        process = subprocess.Popen(command, stdout=out, stderr=out)
    hub = Hub(folder, port, said, process)
    try:
        until(lambda: b"hub at" in said.read_bytes() or process.poll() is not None, "the hub starts")
        yield hub
    finally:
        hub.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def fleet(folder: Path, count: int, port: int) -> Iterator[list[Reporter]]:
    hosts = []
    for number in range(count):
        name = f"{ROLES[min(number, 1)]}-{number}"
        reporter = Reporter(Address("127.0.0.1", port, None), TOKEN, name)
        reporter.begin(ring(folder / name, number, count))
        hosts.append(reporter)
    try:
        yield hosts
    finally:
        for host in hosts:
            host._stop.set()
        for host in hosts:
            host.close()


def all_notice(hosts: list[Reporter]) -> float:
    end = time.time_ns()
    for host in hosts:
        host.noticed(end - 10 * SECOND, end, ["5 requests to web took 950 ms or longer"])
    return time.monotonic()


def explained(hub: Hub) -> list[Path]:
    return [path.parent for path in hub.folder.glob("incident-*/report.html")]


def delivered(hub: Hub) -> int:
    return len(list(hub.folder.glob("*.collecting/*/recording.json")))


def outcome(hub: Hub, begin: float) -> dict[str, Any]:
    until(lambda: explained(hub) and not list(hub.folder.glob("*.collecting")), "the incident is explained")
    took = time.monotonic() - begin
    incidents = explained(hub)
    manifest = json.loads((incidents[0] / "manifest.json").read_text())
    joined = len(tomllib.loads((incidents[0] / "topology.toml").read_text()).get("clocks", []))
    return {
        "incidents": len(incidents),
        "hosts": joined,
        "visits": manifest["rows"]["visits"],
        "wall_s": round(took, 1),
    }


def idle(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with started(folder / "incidents", free_port()) as hub, fleet(folder, options.hosts, hub.port):
        hub.has(options.hosts)
        before = hub.cpu_s()
        time.sleep(options.idle)
        used = hub.cpu_s() - before
        return {"hub_cores": round(used / options.idle, 4), "hub_rss_mib": hub.memory_mib()}


def together(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with started(folder / "incidents", free_port()) as hub, fleet(folder, options.hosts, hub.port) as hosts:
        hub.has(options.hosts)
        before, begin = hub.cpu_s(), all_notice(hosts)
        until(lambda: delivered(hub) == options.hosts, "all hosts have sent")
        sent = time.monotonic() - begin
        found = {"sent_s": round(sent, 1), **outcome(hub, begin)}
        return found | {"cpu_s": round(hub.cpu_s() - before, 1), "hub_rss_mib_max": hub.memory_mib("VmHWM")}


def faults(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with started(folder / "incidents", free_port()) as hub, fleet(folder, options.hosts, hub.port) as hosts:
        hub.has(options.hosts)
        dead, slow = hosts[-1], hosts[-2]
        dead._stop.set()
        slow._answer = lambda one: None  # type: ignore[method-assign]
        begin = all_notice(hosts[:-2])
        until(lambda: delivered(hub) >= options.hosts // 2, "half of the hosts have sent")
        hub.kill()
        before = delivered(hub)
        with started(hub.folder, hub.port) as again:
            found = {"delivered_before_the_kill": before, **outcome(again, begin)}
        said = hub.said.read_text()
        late = sorted(host._host for host in (dead, slow) if f"{host._host} did not answer in time" in said)
        return {**found, "without": late}


def posted(connection: http.client.HTTPConnection, path: str, message: dict[str, Any]) -> int:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    connection.request("POST", path, json.dumps(message), headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def many(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Each is a minute from the last; a host that is refused because four are open tries again."""
    begin, busy = time.monotonic(), 0
    with started(folder / "incidents", free_port(), WRITTEN) as hub, fleet(folder, 2, hub.port):
        connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=60)
        now = time.time_ns()
        for number in range(options.incidents):
            at = now - (options.incidents - number) * 60 * SECOND
            peers, reasons = ["10.78.0.1", "10.78.1.2"], ["slow"]
            heard = {"host": "other", "now": now, "begin": at - SECOND, "end": at, "peers": peers, "reasons": reasons}
            while posted(connection, "/v1/notice", heard) == 503:
                busy += 1
                time.sleep(0.5)
        until(lambda: not list(hub.folder.glob("*.collecting")), "all are explained")
        said = hub.said.read_text()
        return {
            "written": len(explained(hub)),
            "reported_only": said.count("(--most)"),
            "busy_answers": busy,
            "wall_s": round(time.monotonic() - begin, 1),
            "hub_rss_mib_max": hub.memory_mib("VmHWM"),
            "cpu_s": round(hub.cpu_s(), 1),
        }


PARTS = {part.__name__: part for part in (idle, together, faults, many)}


def main() -> None:
    parser = running.arguments(__doc__, PARTS)
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": {**machine.about(), "load": machine.load()}}
    for name in options.only:
        with tempfile.TemporaryDirectory() as temporary:
            found[name] = PARTS[name](Path(temporary), options)
        print(name, json.dumps(found[name]), flush=True)
    running.save(found, options.save)


if __name__ == "__main__":
    main()
