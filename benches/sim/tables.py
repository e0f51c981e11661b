#!/usr/bin/env python3
"""`tables.py SECONDS`: 70,000 clients at 10,000 requests a second with every table written; CPU time and memory.

The model `stalls` of models.py, ten times as large: three visits a request, lost SYNs, samples every 50 ms.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

from models import plan

from tailrace import _core

SCALE = 10


def large(seconds: int) -> dict[str, Any]:
    """The plan of `stalls` with ten times the clients, cores, threads and backlogs."""
    large: dict[str, Any] = plan("stalls", seconds)
    large["workloads"][0]["arrivals"]["closed"]["clients"] *= SCALE
    for part in [*large["groups"], *large["nodes"]]:
        part["cores"] *= SCALE
    for server in large["servers"]:
        server["workers"] *= SCALE
        server["backlog"] *= SCALE
    return large


seconds = int(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    counts = json.loads(_core.simulate(json.dumps(large(seconds)), folder))["counts"]
    written = sum(file.stat().st_size for file in Path(folder).iterdir())
used = resource.getrusage(resource.RUSAGE_SELF)
print(
    f"{seconds} s: {counts['answered']:,} requests, {counts['visits']:,} visits, {written / 1e6:.0f} MB; "
    f"{used.ru_utime + used.ru_stime:.2f} CPU s, {used.ru_maxrss / 1024:.0f} MiB at most"
)
