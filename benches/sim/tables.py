#!/usr/bin/env python3
"""`tables.py SECONDS [EXPERIMENT] [--counting]`: 70,000 clients with every table written, or none; CPU time and memory.

Without an experiment the model `stalls` of models.py, ten times as large: 10,000 requests a second, three visits each,
lost SYNs, samples every 50 ms. `tables.py 180 experiments/balancers/base` is the papers' own: the walk of RUBBoS, whose
pages make some twelve visits each, and a ramp.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

from models import plan

from tailrace import _core, experiment, sim

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


counting = "--counting" in sys.argv
seconds, *own = (word for word in sys.argv[1:] if word != "--counting")
lowered = sim.lower(experiment.read(own[0], [f"duration={seconds}s"])) if own else large(int(seconds))
with tempfile.TemporaryDirectory() as folder:
    counts = json.loads(_core.simulate(json.dumps(lowered), None if counting else folder))["counts"]
    written = sum(file.stat().st_size for file in Path(folder).iterdir())
used = resource.getrusage(resource.RUSAGE_SELF)
print(
    f"{seconds} s: {counts['answered']:,} requests, {counts['visits']:,} visits, {written / 1e6:.0f} MB; "
    f"{used.ru_utime + used.ru_stime:.2f} CPU s, {used.ru_maxrss / 1024:.0f} MiB at most"
)
