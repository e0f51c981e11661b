"""The papers' own systems with drawn parameters: a seed and a file of `experiments/*/base` give one experiment."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tailrace.errors import UsageError
from tailrace.experiment import read
from tailrace.experiment.reading import to_table
from tailrace.score.removing import Table
from tailrace.score.troubles import POLICIES

BASES = (
    "rpc-vs-async/base/steady.toml",
    "rpc-vs-async/base/experiment.toml",
    "lightning/base/collected.toml",
    "lightning/base/governed.toml",
    "lightning/base/consolidated.toml",
    "average/base/experiment.toml",
    "average/base/medium.toml",
    "average/base/three.toml",
    "balancers/base/figure.toml",
)
CLIENTS = {"lightning/base/governed.toml": 12_000}
"""The number of clients at which the paper reports very slow requests, where the file has fewer."""
HEAPS = ("jvm15", "jvm16")
CLIENTS_OF_PROCESS = 1_000
"""The published generator of bursty clients has an index of dispersion of 100 or 400 for this number of clients."""
DISPERSIONS = (1.0, 1.0, 100.0, 400.0)


def find(experiments: Path) -> tuple[Path, ...]:
    """The files; raises UsageError where one is missing."""
    found = tuple(experiments / base for base in BASES)
    absent = next((file for file in found if not file.is_file()), None)
    if absent is not None:
        raise UsageError(f"there is no file {absent}", advice="run this in the project's folder")
    return found


def draw(seed: int, experiments: Path) -> Table:
    """Equal seeds give equal experiments."""
    random = Random(seed)
    base = random.choice(BASES)
    table = to_table(read(experiments / base))
    table |= {"seed": seed, "duration": f"{random.randint(30, 45)} s", "ramp": "10 s"}
    for load in table["workloads"].values():
        _draw_load(random, load, CLIENTS.get(base))
    for name, tier in table["tiers"].items():
        for callee, call in tier["calls"].items():
            if table["tiers"][callee]["count"] > 1 and random.random() < 0.5:
                call["policy"] = random.choice(POLICIES)
        if "heap" in tier and name != "middleware":
            tier["heap"] = random.choice(HEAPS)
    if random.random() < 0.3 and not table["tiers"]["app"]["node"]:  # collectl's flush (`rpc-vs-async` IV-B)
        table["nodes"].setdefault("app", {}).setdefault("disk", {}).setdefault("flush", {})
    return table


def _draw_load(random: Random, load: Table, clients: int | None) -> None:
    """The load is between 80 % and 105 % of the paper's."""
    factor = random.uniform(0.8, 1.05)
    if load["kind"] == "batch":
        first, every = random.uniform(3, 9), random.uniform(8, 15)
        load |= {"size": int(load["size"] * factor), "first": f"{first:.2f} s", "every": f"{every:.2f} s"}
    if load["kind"] == "closed":
        load["clients"] = int((clients or load["clients"]) * factor)
        load["client_processes"] = -(-load["clients"] // CLIENTS_OF_PROCESS)
        load["index_of_dispersion"] = random.choice(DISPERSIONS)
