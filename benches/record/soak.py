#!/usr/bin/env python3
"""`tailrace watch` for an hour: does its memory grow?

    soak.py [--minutes M] [--rate R] [--freeze-every S] [--save NAME]

A watch sees the packets of a web server (nginx, a new connection for each request, nine packets each). Now and then
the server is frozen for 1.2 s, so that the watch has an incident to keep and to explain. Every 10 s this program
writes down the resident memory of the watch and of its decoder, their open files, the size of the folder, and the
packets so far.

Two network namespaces with a cable. Needs root, nginx, iproute2.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import hosts

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

RESULTS = hosts.HERE.parent / "results"
EVERY_S = 10
FROZEN_S = 1.2
"""Longer than 0.95 s, from which a request is very slow."""
LOAD_S = 300
"""One load after the other: the memory of the load generator itself grows with its requests."""
MIB = 1 << 20


@dataclass
class Soak:
    seconds: list[int] = field(default_factory=list)
    watch_mib: list[float] = field(default_factory=list)
    decoder_mib: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    folder_mib: list[float] = field(default_factory=list)
    packets: list[int] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


def decoder_of(watch: int) -> int:
    """The child that decodes packets."""
    for task in Path(f"/proc/{watch}/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"decode_packets" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    sys.exit("the watch has no decoder")


def size_mib(folder: Path) -> float:
    found = subprocess.run(["du", "-s", "-B1", str(folder)], capture_output=True, text=True)  # files come and go
    return int(found.stdout.split()[0]) / MIB


def sample(soak: Soak, watch: int, folder: Path, begin: float) -> None:
    decoder = decoder_of(watch)
    soak.seconds.append(round(time.monotonic() - begin))
    soak.watch_mib.append(round(machine.memory_mib(watch), 1))
    soak.decoder_mib.append(round(machine.memory_mib(decoder), 1))
    soak.files.append(sum(len(list(Path(f"/proc/{process}/fd").iterdir())) for process in (watch, decoder)))
    soak.folder_mib.append(round(size_mib(folder), 1))
    soak.packets.append(hosts.packets())
    soak.cpu_s.append(round(hosts.cpu_s(watch) + hosts.cpu_s(decoder), 2))


@contextmanager
def asked(folder: Path, rate: int) -> Iterator[None]:
    """Requests come during the block."""
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            load = hosts.load(folder / "load", LOAD_S, "--rate", str(rate))
            while load.poll() is None and not over.wait(1):
                pass
            load.kill()
            load.communicate()

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()


def freeze(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGSTOP)
    time.sleep(FROZEN_S)
    server.send_signal(signal.SIGCONT)


def slope(xs: list[int], ys: list[float]) -> float:
    """MiB an hour, by least squares."""
    return statistics.linear_regression(xs, ys).slope * 3600


def tell(soak: Soak, incidents: int) -> None:
    half = len(soak.seconds) // 2
    hours = (soak.seconds[-1] - soak.seconds[0]) / 3600
    rate = (soak.packets[-1] - soak.packets[0]) / (soak.seconds[-1] - soak.seconds[0])
    print(f"{hours * 60:.0f} min, {rate:,.0f} packets/s, {incidents} incidents")
    for name, values in (("watch", soak.watch_mib), ("decoder", soak.decoder_mib)):
        late = values[half:]
        print(
            f"{name}: {min(late):.1f} to {max(late):.1f} MiB in the second half, "
            f"{slope(soak.seconds[half:], late):+.1f} MiB an hour"
        )
    print(f"open files: {min(soak.files[half:])} to {max(soak.files[half:])}")
    print(
        f"folder: {soak.folder_mib[-1]:.0f} MiB; CPU: {(soak.cpu_s[-1] - soak.cpu_s[0]) / hours / 36:.1f} % of a core"
    )


def run(folder: Path, options: argparse.Namespace) -> tuple[Soak, int]:
    soak, incidents = Soak(), folder / "incidents"
    words = ("--interface", "eth0", "--server", f"web={hosts.HOSTS.address}:80", "-o", str(incidents))
    command = hosts.HOSTS.on(hosts.HOSTS.server, *hosts.TAILRACE, "watch", *words)
    with hosts.cable(), hosts.nginx(folder) as server, subprocess.Popen(command) as watch:
        try:
            while not list(incidents.glob("recording/*.parquet")):
                if watch.poll() is not None:
                    sys.exit("the watch did not start")
                time.sleep(0.1)
            begin = time.monotonic()
            with asked(folder, options.rate):
                for number in range(1, options.minutes * 60 // EVERY_S + 1):
                    if options.freeze_every and number * EVERY_S % options.freeze_every == 0:
                        freeze(server)
                    time.sleep(max(0.0, begin + number * EVERY_S - time.monotonic()))
                    sample(soak, watch.pid, incidents, begin)
                    options.rows.write_text(json.dumps(asdict(soak)))
            watch.send_signal(signal.SIGTERM)
            watch.wait(120)
        finally:
            watch.kill()
    return soak, len(list(incidents.glob("*/diagnosis.json")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=int, default=2250, help="requests a second, of nine packets each")
    parser.add_argument("--freeze-every", type=int, default=600, metavar="S", help="0: never")
    parser.add_argument("--save", metavar="NAME", default="soak", help="writes benches/results/NAME.json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # namespaces go
    options.rows = RESULTS / f"{options.save}.json"
    with tempfile.TemporaryDirectory() as temporary:
        soak, incidents = run(Path(temporary), options)
    tell(soak, incidents)


if __name__ == "__main__":
    main()
