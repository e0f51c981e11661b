"""Tables are written during a run: its memory does not grow with its length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from plans import MS, Plan, S, poisson, station

PEAK = """
import sys
from tailrace import _core
_core.simulate(sys.stdin.read(), sys.argv[1])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def rows_of_all_tables(seconds: int) -> Plan:
    """10,000 requests a second to a server that takes 1,000 and loses the others twice; six samples every 2 ms."""
    syn = {"repeats": [S], "give_up": 2 * S}
    plan = station({"constant": 1e6}, poisson(10_000, syn=syn), workers=1, backlog=0, duration=seconds * S)
    return {**plan, "sample": 2 * MS}


def peak_mib(seconds: int, folder: Path) -> float:
    """Of a process of its own, its tables in `folder`."""
    folder.mkdir()
    plan = json.dumps(rows_of_all_tables(seconds))
    done = subprocess.run([sys.executable, "-c", PEAK, folder], input=plan, capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def test_a_long_run_takes_little_more_memory_than_a_short_one(tmp_path: Path) -> None:
    """Eight times as long: half a million more requests, a million more events. What is written grows up to a million
    rows of each table, compressed, which took 12 MiB more; rows that wait to be sorted (2^18 of each table) took 53."""
    assert peak_mib(64, tmp_path / "long") - peak_mib(8, tmp_path / "short") < 25
