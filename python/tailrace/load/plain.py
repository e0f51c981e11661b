"""Plain options become an experiment: `--rate 1000 --duration 30s` is shorthand for a file with one workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tailrace.errors import UsageError
from tailrace.experiment import Experiment, from_table
from tailrace.load.targets import Target

SERVER = "server"


def experiment(options: dict[str, Any], targets: Sequence[Target]) -> tuple[Experiment, tuple[Target, ...]]:
    """The experiment and its targets: pages below the targets' paths, or these paths themselves.

    `options` holds the options that were given, by name: duration, ramp, seed, rate, clients and the keys of a
    workload. Raises UsageError, InputError.
    """
    top: dict[str, Any] = {key: options[key] for key in ("duration", "ramp", "seed") if key in options}
    load = {key: value for key, value in options.items() if key not in top}
    if "rate" in load and ("clients" in load or "think" in load):
        raise UsageError(
            "--rate is for open arrivals, --clients for clients that wait", advice="give either --rate or --clients"
        )
    if "rate" in load:
        load["kind"] = "poisson"
    elif "clients" not in load:
        raise UsageError("how much?", advice="give --rate 1000, or --clients 100 --think 7s, or --experiment FILE")
    else:
        load = {"think": "0", **load}
    table: dict[str, Any] = {"ramp": "0", "tiers": {SERVER: {}}, "workloads": {"load": load}, **top}
    if not ("walk" in load or "interaction" in load):
        own = {target.path for target in targets}
        if len(own) > 1:
            raise UsageError(
                f"the targets have different paths, {' and '.join(sorted(own))}", advice="give them the same"
            )
        load["interaction"] = own.pop()
        table["interactions"] = {load["interaction"]: {"at": {SERVER: {}}}}
        targets = [replace(target, path="/") for target in targets]
    return from_table(table, "options"), tuple(targets)
