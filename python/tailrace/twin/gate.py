"""Whether a twin repeats its recording: what it does is compared with what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis.vlrt import THRESHOLD_NS
from tailrace.experiment import Experiment
from tailrace.sim.lowering import EPOCH
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

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Compared:
    what: str
    recorded: str
    reproduced: str
    passed: bool
    datum: str = ""
    """What would mend it."""


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
        return tuple(
            f"{row.what}: {row.recorded} recorded, {row.reproduced} reproduced{f'; {row.datum}' if row.datum else ''}"
            for row in self.rows
            if not row.passed
        )


def gate(
    twin: Twin, run: Dataset | str | PathLike[str], seeds: Sequence[int] = (1,), progress: Progress | None = None
) -> Gate:
    """Simulate the twin with each seed, and with slightly less and more demand, and compare it with the recording."""
    dataset = run if isinstance(run, Dataset) else Dataset.open(run)
    recorded = outcome(dataset, twin.entries, twin.begin, THRESHOLD_NS)
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
        return outcome(Dataset.open(Path(folder) / "run"), entries, EPOCH, THRESHOLD_NS)


def _nudged(experiment: Experiment, factor: float) -> Experiment:
    tiers = {
        name: tier.model_copy(update={"demand_factor": tier.demand_factor * factor})
        for name, tier in experiment.tiers.items()
    }
    return experiment.model_copy(update={"tiers": tiers})


def _rows(twin: Twin, recorded: Outcome, found: Outcome, nudged: tuple[int, int]) -> Iterator[Compared]:
    vlrt, again = len(recorded.vlrt), len(found.vlrt)
    yield Compared("very slow requests", f"{vlrt:,}", f"{again:,}", vlrt > 0 and _near(vlrt, again), _why_count(vlrt))
    yield from _rows_of_vlrt(twin, recorded, found)
    for server, name in twin.servers.items():
        longest, seen = recorded.longest.get(server, 0), found.longest.get(name, 0)
        passed = _near(longest, seen) or max(longest, seen) < SHORT * max(recorded.longest.values())
        datum = _datum(twin, f"tiers.{name}.")
        yield Compared(f"longest queue of {server}", f"{longest:,}", f"{seen:,}", passed, datum)
    for server, share in twin.accounted.items():
        if share < COMPLETE:
            what = f"CPU time of {server} that its visits account for"
            yield Compared(
                what, "100 %", f"{share:.0%}", False, "a recording of all requests: sampled traces hold a part"
            )
    answered, also = recorded.answered, found.answered
    passed = abs(also - answered) <= max(RATE * answered, FEW)
    yield Compared("answered requests", f"{answered:,}", f"{also:,}", passed, "a recording that begins when it is calm")
    low, high = sorted(max(count, FEW) for count in (again, *nudged))[::2]
    between = f"{nudged[0]:,} to {nudged[1]:,}"
    steady = high <= CRITICAL * low
    yield Compared("very slow requests with 1 % less and more demand", f"{vlrt:,}", between, steady, _CRITICAL)


_CRITICAL = "it is near-critical: so small a difference is within what any recording leaves open"


def _rows_of_vlrt(twin: Twin, recorded: Outcome, found: Outcome) -> Iterator[Compared]:
    vlrt = len(recorded.vlrt)
    if not vlrt:
        return
    share = matched(recorded.vlrt, found.vlrt, NEAR_NS) / vlrt
    datum = "samples of cpu_busy at most 50 ms apart"
    near = format_duration(NEAR_NS)
    yield Compared(f"of these, sent within {near} of a recorded one", "100 %", f"{share:.0%}", share >= MATCHED, datum)
    for what, some, others in (
        ("their response times, s", recorded.modes, found.modes),
        ("lost connection attempts", recorded.drops, _named(twin, found.drops)),
    ):
        passed = alike(some, others) >= MATCHED
        yield Compared(what, _told(some), _told(others), passed, "backlog and workers of each server in topology.toml")


def _named(twin: Twin, drops: object) -> dict[str, int]:
    """By the names of the recording."""
    back = {name: server for server, name in twin.servers.items()}
    return {back.get(str(name), str(name)): int(count) for name, count in dict(drops).items()}  # type: ignore[call-overload]


def _told(counts: object) -> str:
    rows = sorted(dict(counts).items())  # type: ignore[call-overload]
    return ", ".join(f"{key}: {count:,}" for key, count in rows) or "none"


def _near(some: int, other: int) -> bool:
    return abs(other - some) <= max(COUNTS * some, FEW)


def _why_count(vlrt: int) -> str:
    return "samples of cpu_busy at most 50 ms apart" if vlrt else "a recording of a time with very slow requests"


def _datum(twin: Twin, prefix: str) -> str:
    return "; ".join(unknown.datum for unknown in twin.unknowns if unknown.name.startswith(prefix))
