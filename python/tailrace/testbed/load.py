"""The load: `tailrace load` in the clients' namespace, with the experiment's workloads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import tomli_w

from tailrace.experiment import places, to_table
from tailrace.testbed.system import System
from tailrace.units import SECOND, exact_duration

Command = Callable[[System, Path], list[str]]
"""What is run in the clients' namespace: of the servers that are up, and the folder for what it writes."""
PATIENCE_NS = 20 * SECOND
"""How long answers are waited for after the end: until the fourth repetition of a lost SYN is answered."""


def command(system: System, folder: Path) -> list[str]:
    experiment = system.experiment
    file = folder / "experiment.toml"
    file.write_text(tomli_w.dumps(to_table(experiment)), encoding="utf-8")
    asked = dict.fromkeys(load.entry or places.entries(experiment)[0] for load in experiment.workloads.values())
    servers = [name for tier in asked for name in system.servers(tier)]
    return [
        *(sys.executable, "-m", "tailrace", "load", "--quiet", "--i-own-this-target"),
        *("--experiment", str(file), "--drain", exact_duration(PATIENCE_NS).replace(" ", "")),
        *("--out", str(folder / "load")),
        *(f"{name}=http://{system.settings[name].at}/" for name in servers),
    ]
