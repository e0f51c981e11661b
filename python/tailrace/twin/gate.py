"""Whether a twin repeats its recording: what it does is compared with what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.experiment import Experiment
from tailrace.twin.model import Twin
from tailrace.twin.outcome import Outcome, alike, matched, outcome
from tailrace.units import SECOND, format_duration

COUNTS = 0.15
"""A count, and the longest queue of a server, may differ by this share …"""
FEW = 3
"""… or by so many, where they are few."""
SHORT = 0.25
"""A queue shorter than a quarter of the longest of all servers holds no request for long, and is shown only."""
RATE = 0.03
"""The throughput may differ by 3 %: more at the busiest tier is another load."""
COMPLETE = 0.67
"""Real servers spend up to a sixth of their CPU time outside of visits; a third is more than one request in three that
was not recorded."""
MATCHED = 0.8
"""So many of the very slow requests have a partner sent within `NEAR_NS`, and as much is alike in modes and drops."""
NEAR_NS = SECOND
NUDGE = 0.01
"""A system in which one percent of demand changes the very slow requests more than twofold is near-critical: no twin
tells how many there will be."""
CRITICAL = 2.0
ACCOUNTED = "CPU time of"
COMPLETER = "a recording of all requests: sampled traces hold a part"
FINER = "samples of cpu_busy at most 50 ms apart"

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Compared:
    what: str
    recorded: str
    reproduced: str
    passed: bool
    datum: str = ""
    """What would mend it."""

    @property
    def sentence(self) -> str:
        mends = f"; {self.datum}" if self.datum else ""
        return f"{self.what}: {self.recorded} recorded, {self.reproduced} reproduced{mends}"


@dataclass(frozen=True)
class Gate:
    rows: tuple[Compared, ...]
    recorded: Outcome
    reproduced: tuple[Outcome, ...]
    """By seed."""
    nudged: tuple[int, int]
    """Very slow requests with one percent less and one percent more demand."""

    @property
    def passed(self) -> bool:
        return all(row.passed for row in self.rows)

    @property
    def off(self) -> tuple[str, ...]:
        """What is off, and which datum would mend it."""
        return tuple(row.sentence for row in self.rows if not row.passed)

    @property
    def missing(self) -> tuple[Compared, ...]:
        """Rows which show that the recording lacks requests. A twin of a part of them cannot repeat the rest."""
        return tuple(row for row in self.rows if row.what.startswith(ACCOUNTED))


def gate(
    twin: Twin, run: Dataset | str | PathLike[str], seeds: Sequence[int] = (1,), progress: Progress | None = None
) -> Gate:
    """Simulate the twin with each seed, and with slightly less and more demand, and compare it with the recording."""
    dataset = run if isinstance(run, Dataset) else Dataset.open(run)
    recorded = outcome(dataset, twin.entries, twin.begin)
    names = tuple(twin.servers[name] for name in twin.entries)
    variants = [twin.experiment.model_copy(update={"seed": seed}) for seed in seeds]
    variants += [_nudged(twin.experiment, 1.0 - NUDGE), _nudged(twin.experiment, 1.0 + NUDGE)]
    found = []
    for number, variant in enumerate(variants):
        if progress:
            progress(number, len(variants))
        found.append(_simulated(variant, names))
    reproduced, nudged = tuple(found[: len(seeds)]), (len(found[-2].vlrt), len(found[-1].vlrt))
    first = reproduced[0]
    return Gate(tuple(_rows(twin, recorded, first, nudged)), recorded, reproduced, nudged)


def _simulated(experiment: Experiment, entries: tuple[str, ...]) -> Outcome:
    with TemporaryDirectory(prefix="tailrace-twin-") as folder:
        sim.simulate(experiment, Path(folder) / "run")
        return outcome(Dataset.open(Path(folder) / "run"), entries, sim.EPOCH)


def _nudged(experiment: Experiment, factor: float) -> Experiment:
    tiers = {
        name: tier.model_copy(update={"demand_factor": tier.demand_factor * factor})
        for name, tier in experiment.tiers.items()
    }
    return experiment.model_copy(update={"tiers": tiers})


def _rows(twin: Twin, recorded: Outcome, found: Outcome, nudged: tuple[int, int]) -> Iterator[Compared]:
    vlrt, again = len(recorded.vlrt), len(found.vlrt)
    finer = _limits(twin, recorded) or FINER
    datum = finer if vlrt else "a recording of a time with very slow requests"
    yield Compared("very slow requests", f"{vlrt:,}", f"{again:,}", vlrt > 0 and _near(vlrt, again), datum)
    if vlrt:
        yield from _rows_of_vlrt(twin, recorded, found, finer)
    most = max(recorded.longest.values(), default=0)
    for server, name in twin.servers.items():
        longest, seen = recorded.longest.get(server, 0), found.longest.get(name, 0)
        passed = _near(longest, seen) or max(longest, seen) < SHORT * most
        datum = _datum(twin, f"tiers.{name}.")
        yield Compared(f"longest queue of {server}", f"{longest:,}", f"{seen:,}", passed, datum)
    yield from _completeness(twin)
    answered, also = recorded.answered, found.answered
    passed = abs(also - answered) <= max(RATE * answered, FEW)
    yield Compared("answered requests", f"{answered:,}", f"{also:,}", passed, "a recording that begins when it is calm")
    counts = [max(count, FEW) for count in (again, *nudged)]
    between = f"{nudged[0]:,} to {nudged[1]:,}"
    steady = max(counts) <= CRITICAL * min(counts)
    datum = "it is near-critical: so small a difference is within what any recording leaves open"
    yield Compared("very slow requests with 1 % less and more demand", f"{vlrt:,}", between, steady, datum)


def _completeness(twin: Twin) -> Iterator[Compared]:
    for server, share in twin.accounted.items():
        if share < COMPLETE:
            what = f"{ACCOUNTED} {server} that its visits account for"
            yield Compared(what, "100 %", f"{share:.0%}", False, COMPLETER)


def _rows_of_vlrt(twin: Twin, recorded: Outcome, found: Outcome, finer: str) -> Iterator[Compared]:
    share = matched(recorded.vlrt, found.vlrt, NEAR_NS) / len(recorded.vlrt)
    near = format_duration(NEAR_NS)
    yield Compared(f"of these, sent within {near} of a recorded one", "100 %", f"{share:.0%}", share >= MATCHED, finer)
    yield _distribution("their response times, s", recorded.modes, found.modes)
    recorded_as = {name: server for server, name in twin.servers.items()}
    drops = {recorded_as.get(name, name): count for name, count in found.drops.items()}
    yield _distribution("lost connection attempts", recorded.drops, drops)


def _distribution(what: str, some: Mapping[Any, int], others: Mapping[Any, int]) -> Compared:
    told, again = (
        ", ".join(f"{key}: {count:,}" for key, count in sorted(counts.items())) or "none" for counts in (some, others)
    )
    passed = alike(some, others) >= MATCHED
    return Compared(what, told, again, passed, "backlog and workers of each server in topology.toml")


def _near(some: int, other: int) -> bool:
    return abs(other - some) <= max(COUNTS * some, FEW)


def _limits(twin: Twin, recorded: Outcome) -> str:
    """The data for unknown workers or backlogs of the server that lost most attempts, or else of that with the longest
    queue: finer samples do not show how many requests such a server holds."""
    counts = recorded.drops or recorded.longest
    server = max(counts, key=lambda name: counts[name], default="")
    prefix = f"tiers.{twin.servers.get(server, '')}."
    unknown = (one for one in twin.unknowns if one.name in (f"{prefix}workers", f"{prefix}backlog"))
    return "; ".join(one.datum for one in unknown)


def _datum(twin: Twin, prefix: str) -> str:
    return "; ".join(unknown.datum for unknown in twin.unknowns if unknown.name.startswith(prefix))
