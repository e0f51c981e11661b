"""The load: `tailrace load` in the clients' namespace, with the experiment's workloads; before it, a gentle warm-up."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w

from tailrace.experiment import Experiment, places, to_table, traces
from tailrace.experiment.workloads import Closed, Poisson, Trace
from tailrace.testbed.system import System
from tailrace.units import SECOND

Command = Callable[[System, Experiment, Path], list[str]]
"""Builds the command in the clients' namespace: from the running servers, the experiment, and the run folder to
write."""
PATIENCE_NS = 20 * SECOND
"""How long to wait for answers after the end: until the fourth repetition of a lost SYN is answered."""
STEPS, STEP_NS = 5, 5 * SECOND
"""A cold JVM took more than a second for each answer at 300 requests a second; at the full rate of 1000 an asynchronous
one never recovered. A rise over 24 s prevents this."""


def command(system: System, experiment: Experiment, out: Path) -> list[str]:
    file = out.with_suffix(".toml")
    file.write_text(tomli_w.dumps(to_table(experiment)), encoding="utf-8")
    asked = dict.fromkeys(load.entry or places.entries(experiment)[0] for load in experiment.workloads.values())
    servers = [name for tier in asked for name in system.servers(tier)]
    return [
        *(sys.executable, "-P", "-m", "tailrace", "load", "--quiet", "--i-own-this-target"),
        *("--experiment", str(file), "--drain", f"{PATIENCE_NS // SECOND}s", "--out", str(out)),
        *("--epoch", str(system.epoch.offset)),
        *(f"{name}=http://{system.settings[name].at}/" for name in servers),
    ]


def rising(experiment: Experiment) -> Experiment | None:
    """The same pages, at a rising rate. None if the experiment has no steady workload."""
    workloads: dict[str, Any] = {}
    for name, load in experiment.workloads.items():
        part: dict[str, object]
        if isinstance(load, Closed):
            part = {"clients": -(-load.clients // STEPS), "index_of_dispersion": 1.0}
        elif isinstance(load, Poisson):
            part = {"rate": load.rate / STEPS}
        elif isinstance(load, Trace):
            load, part = _drawn(load)
        else:
            continue
        for step in range(STEPS):
            begun = {"begin": step * STEP_NS, "end": None}
            workloads[f"{name}-{step + 1}"] = load.model_copy(update=part | begun)
    if not workloads:
        return None
    return experiment.model_copy(update={"ramp": 0, "duration": STEPS * STEP_NS, "workloads": workloads, "stalls": ()})


def _drawn(load: Trace) -> tuple[Poisson, dict[str, object]]:
    """Requests of the same pages as recorded ones, at their mean rate, and what differs in each step."""
    requests = traces.read(load.file)
    lasted = max(requests.times[-1] - requests.times[0], SECOND) if requests.times else SECOND
    rate = max(len(requests.times), 1) * SECOND / lasted
    mix = {name: float(count) for name, count in Counter(requests.names).items()}
    drawn = Poisson(kind="poisson", rate=rate, mix=mix, entry=load.entry, kept=load.kept)  # of these pages
    return drawn, {"rate": rate / STEPS}
