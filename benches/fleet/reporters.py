"""The reporting sides of the watches of all hosts, each in the network namespace of its host, with the recordings of
real hosts as their rings. They notice incidents as fast as the hub takes them, and then wait until they are stopped.
Each prints one line when all have been sent. They are threads of one process, so that the hub has the machine.

reporters.py HUB:PORT FOLDER NAMESPACES HOSTS ALL NOW: the hosts notice ALL incidents. Each is a minute from the next,
and the last ends at NOW, in nanoseconds. The namespace of host N is NAMESPACES-N.
"""

import ctypes
import os
import sys
import threading
import time
from pathlib import Path

import bench

from tailrace.hub import reporting
from tailrace.hub.reporting import Reporter
from tailrace.units import SECOND

NETWORK = 0x40000000
"""CLONE_NEWNET of linux/sched.h."""


def enter(namespace: str) -> None:
    """This thread, and those that it begins from now on, are in that namespace."""
    with Path("/run/netns", namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), NETWORK):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)


def notice(reporter: Reporter, name: str, ends: list[int]) -> None:
    """Incidents that end at these times."""
    for at in ends:
        while len(reporter._notices) >= reporting.NOTICES_MAX:
            time.sleep(0.2)
        reporter.noticed(at - SECOND, at, ["5 requests to web took 950 ms or longer"])
    while reporter._notices:
        time.sleep(0.2)
    print(name, *reporter.failures(), flush=True)


def main() -> None:
    _, hub, folder, namespaces, *numbers = sys.argv
    hosts, everything, now = map(int, numbers)
    token = (Path(folder) / "token").read_text()
    for number in range(hosts):
        name = f"host-{number}"
        enter(f"{namespaces}-{number}")
        reporter = Reporter(reporting.address(f"https://{hub}", Path(folder) / "hub.pem"), token, name)
        # Host 0 of that bench has the visits of all hosts, and each other one has its own.
        reporter.begin(bench.ring(Path(folder) / name, number + 1, hosts + 1))
        ends = [now - (everything - incident) * 60 * SECOND for incident in range(number, everything, hosts)]
        threading.Thread(target=notice, args=(reporter, name, ends), daemon=True).start()
    time.sleep(24 * 3600)


if __name__ == "__main__":
    main()
