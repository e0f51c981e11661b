"""A twin: an experiment that repeats a recording, and the files that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import tomli_w

from tailrace import experiment, whole
from tailrace.dataset import tables
from tailrace.diagnosis.ledger.losses import clock, quota
from tailrace.diagnosis.spans import Spans
from tailrace.errors import UsageError, cannot_write
from tailrace.experiment import Experiment
from tailrace.experiment.reading import FILE
from tailrace.twin.demands import Demand
from tailrace.twin.limits import Unknown

DEMANDS_FILE = "demands.csv"
DEMANDS: dict[str, type[pl.DataType]] = {
    "tier": pl.String,
    "interaction": pl.String,
    "visits": pl.Int64,
    "compute_ns": pl.Float64,
    "error_ns": pl.Float64,
    "wait_ns": pl.Float64,
    "before": pl.Float64,
}
"""What visits of each kind need, with standard errors: nothing reads it but people."""
Steps = list[tuple[float, float]]
"""Seconds, and the share of a server's speed that is lost from then on."""


@dataclass
class Twin:
    table: dict[str, Any]
    """The experiment as plain values; the files that it names lie beside it."""
    arrivals: Mapping[str, pl.DataFrame]
    """File → requests."""
    losses: Mapping[str, Steps]
    """File → capacity that a server lacked."""
    servers: Mapping[str, str]
    """Server of the recording → its name in the twin."""
    entries: tuple[str, ...]
    """Servers of the recording that clients send requests to."""
    demands: tuple[Demand, ...]
    unknowns: tuple[Unknown, ...]
    accounted: Mapping[str, float]
    """Server of the recording → the share of its CPU time that its visits account for."""
    begin: int
    """The moment of the recording at which the twin begins, ns."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Key of the experiment → where its value comes from: seen, inferred or assumed."""
    governors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Node → the governor that set the recorded clock rates, where the recording shows it."""
    quotas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Tier → the CPU quota of each of its servers, where the recording shows it."""
    more: Mapping[str, float] = field(default_factory=dict)
    """Tier with one of these → what its visits need, over what they seem to need beside the recorded losses."""
    kept: Spans | None = None
    """The stretches whose requests it sends, ns since its begin; None: all."""
    rest: int = 0
    """Requests of the recording that it leaves out, because none near them is very slow."""

    def governed(self) -> Twin:
        """The same twin, whose clock rates follow its load. They are as recorded otherwise."""
        nodes = {name: {**node, **_governor(self.governors.get(name))} for name, node in self.table["nodes"].items()}
        return self._learnt(clock.CAUSE, {name: {} for name in self.governors}, nodes)

    def limited(self) -> Twin:
        """The same twin, whose servers are throttled when their work uses up their quota. Otherwise they are throttled
        when they were in the recording."""
        keys = {name: {"quota": dict(one)} for name, one in self.quotas.items()}
        return self._learnt(quota.CAUSE, keys, self.table["nodes"])

    def running(self, software: Mapping[str, Sequence[str]]) -> Twin:
        """The same twin, whose tiers say which programs they run."""
        tiers = {
            name: {**tier, "runs": list(software[name])} if software.get(name) else tier
            for name, tier in self.table["tiers"].items()
        }
        return replace(self, table={**self.table, "tiers": tiers})

    def _learnt(self, cause: str, keys: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, Any]) -> Twin:
        """The same twin with these nodes, whose tiers get these keys and what their visits need where nothing that was
        recorded slows them down. These tiers lose nothing to what was recorded of the cause."""
        tiers = {
            name: {**one, **keys[name], **self._needing(name)} if name in keys else one
            for name, one in self.table["tiers"].items()
        }
        tier = {own: name for name, one in self.table["tiers"].items() for own in _members(name, one)}
        return replace(self, table={**self.table, "nodes": nodes, "tiers": tiers})._keeping(
            lambda line: line["cause"] != cause or tier[line["place"]] not in keys
        )

    def _needing(self, tier: str) -> dict[str, float]:
        return {"demand_factor": round(self.more[tier], 4)} if tier in self.more else {}

    def without(self, cause: str) -> Twin:
        """The same twin, whose servers lose nothing by this cause."""
        return self._keeping(lambda line: bool(line["cause"] != cause))

    def _keeping(self, keep: Callable[[Mapping[str, Any]], bool]) -> Twin:
        """The same twin with these losses alone."""
        lines = [line for line in self.table["losses"] if keep(line)]
        files = {line["file"] for line in lines}
        losses = {file: steps for file, steps in self.losses.items() if file in files}
        return replace(self, table={**self.table, "losses": lines}, losses=losses)

    @cached_property
    def experiment(self) -> Experiment:
        """It names files that are removed with this twin: keep the twin as long as the experiment, or `write` it."""
        return experiment.read(self.write(self._folder.name))

    @cached_property
    def _folder(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="tailrace-twin-")

    def write(self, folder: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write experiment.toml and the files that it names into a folder; returns the path of the experiment."""
        place = Path(folder)
        if not overwrite and (place / FILE).exists():
            raise UsageError(f"{place / FILE} exists already", advice="choose another folder or pass --overwrite")
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(place, error) from error
        for name, rows in self.arrivals.items():
            tables.write(rows, place / name)
        for name, steps in self.losses.items():
            lines = (f"{time:.3f},{lost:.2f}\n" for time, lost in steps)
            whole.write(place / name, ("time,lost\n" + "".join(lines)).encode())
        demands = pl.DataFrame([vars(one) for one in self.demands], schema=DEMANDS, orient="row")
        whole.write(place / DEMANDS_FILE, demands.write_csv(float_precision=4).encode())
        whole.write(place / FILE, tomli_w.dumps(self.table).encode())
        return place / FILE


def _governor(keys: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if keys is None else {"governor": dict(keys)}


def _members(tier: str, keys: Mapping[str, Any]) -> list[str]:
    """The servers of a tier, by their names in the twin."""
    count = keys.get("count", 1)
    return [tier] if count == 1 else [f"{tier}{number}" for number in range(1, count + 1)]
