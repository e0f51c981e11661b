"""Whether a twin repeats its recording: what it does is compared with what was recorded."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.words import count
from tailrace.endings import crew
from tailrace.experiment import Experiment, places
from tailrace.study.intervals import of_one_more
from tailrace.twin.equals import equals, interchanged
from tailrace.twin.model import Twin
from tailrace.twin.origins import OF_PLACES
from tailrace.twin.outcome import Outcome, alike, matched, outcome
from tailrace.twin.spread import REPLICATIONS, needed
from tailrace.units import SECOND, format_duration, format_share

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
CRITICAL = 2.0
"""A system in which one percent of demand changes the very slow requests more than twofold is near-critical: no twin
tells how many there will be."""
ACCOUNTED = "CPU time of"
COMPLETER = "record all requests: sampled traces hold a part of them"
NO_DATUM = "no datum that Tailrace knows would help: the twin lacks what made the difference"

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Compared:
    what: str
    recorded: str
    reproduced: str
    passed: bool
    datum: str = ""
    """What would mend it; empty if no datum does that Tailrace knows."""
    why: str = ""
    """What the difference means, where it is not a matter of data."""
    said: str = ""
    """The sentence, where the row is not a comparison of two values."""

    @property
    def sentence(self) -> str:
        if self.said:
            return self.said
        mends = self.why or (f"this would help: {self.datum}" if self.datum else NO_DATUM)
        return f"{self.what}: {self.recorded} recorded, {self.reproduced} reproduced; {mends}"


@dataclass(frozen=True)
class Gate:
    rows: tuple[Compared, ...]
    recorded: Outcome
    reproduced: tuple[Outcome, ...]
    """The twin itself, and its further replications."""

    @property
    def nudged(self) -> tuple[int, int]:
        """Very slow requests with one percent less and one percent more demand."""
        return len(self.reproduced[1].vlrt), len(self.reproduced[2].vlrt)

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


def gate(twin: Twin, run: Dataset | str | PathLike[str], progress: Progress | None = None) -> Gate:
    """Simulate the replications of the twin (`spread`), and compare them with the recording."""
    dataset = run if isinstance(run, Dataset) else Dataset.open(run)
    recorded = outcome(dataset, twin.entries, twin.begin, twin.kept)
    names = tuple(twin.servers[name] for name in twin.entries)
    variants = [_nudged(twin.experiment, *replication) for replication in REPLICATIONS]
    found = []
    # threads are enough: the engine releases the interpreter's lock
    with crew(os.cpu_count() or 1) as pool:
        for number, one in enumerate(pool.map(lambda variant: _simulated(variant, names), variants)):
            found.append(one)
            if progress:
                progress(number + 1, len(variants))
    sets = equals(twin)
    found = [interchanged(recorded, one, sets) for one in found]
    return Gate(tuple(_rows(twin, recorded, found)), recorded, tuple(found))


def _simulated(experiment: Experiment, entries: tuple[str, ...]) -> Outcome:
    with TemporaryDirectory(prefix="tailrace-twin-") as folder:
        sim.simulate(experiment, Path(folder) / "run")
        return outcome(Dataset.open(Path(folder) / "run"), entries, sim.EPOCH)


def _nudged(experiment: Experiment, more: int, nudge: float) -> Experiment:
    tiers = {
        name: tier.model_copy(update={"demand_factor": tier.demand_factor * (1.0 + nudge)})
        for name, tier in experiment.tiers.items()
    }
    return experiment.model_copy(update={"tiers": tiers, "seed": experiment.seed + more})


def _rows(twin: Twin, recorded: Outcome, found: Sequence[Outcome]) -> Iterator[Compared]:
    vlrt, counts = len(recorded.vlrt), [len(one.vlrt) for one in found]
    finer = _limits(twin, recorded)
    datum = finer if vlrt else "a recording of a time with very slow requests"
    yield _counted("very slow requests", vlrt, counts, datum, vlrt > 0)
    if vlrt:
        yield from _rows_of_vlrt(twin, recorded, found, finer)
    most = max(recorded.longest.values(), default=0)
    for server, name in twin.servers.items():
        longest, seen = recorded.longest.get(server, 0), [one.longest.get(name, 0) for one in found]
        short = max(longest, seen[0]) < SHORT * most
        row = _counted(f"longest queue of {server}", longest, seen, _datum(twin, server) or _inferred(twin, server))
        yield replace(row, passed=row.passed or short)
    yield from _completeness(twin)
    answered, also = recorded.answered, found[0].answered
    passed = abs(also - answered) <= max(RATE * answered, FEW)
    yield Compared("answered requests", f"{answered:,}", f"{also:,}", passed, "a recording that begins when it is calm")
    least, most_of_all = min(counts), max(counts)
    steady = max(most_of_all, FEW) <= CRITICAL * max(least, FEW)
    why = "it is near-critical: so small a difference of demand is within what any recording leaves open"
    what = "very slow requests with other seeds, and 1 % less to 1 % more demand"
    yield Compared(what, f"{vlrt:,}", f"{least:,} to {most_of_all:,}", steady, why=why)


def _counted(what: str, recorded: int, counts: Sequence[int], datum: str, possible: bool = True) -> Compared:
    """The recorded count beside that of the twin, and the range of its replications where these differ by more than may
    be."""
    low, high = of_one_more(counts)
    near = max(COUNTS * recorded, FEW)
    passed = possible and low - near <= recorded <= high + near
    between = f" ({low:,.0f} to {high:,.0f})" if high - low > near else ""
    return Compared(what, f"{recorded:,}", f"{counts[0]:,}{between}", passed, datum)


def _completeness(twin: Twin) -> Iterator[Compared]:
    for server, share in twin.accounted.items():
        if share < COMPLETE:
            what = f"{ACCOUNTED} {server} that its visits account for"
            said = f"the recorded visits account for {format_share(share)} of the CPU time of {server}; {COMPLETER}"
            yield Compared(what, "100 %", format_share(share), False, said=said)


def _rows_of_vlrt(twin: Twin, recorded: Outcome, found: Sequence[Outcome], finer: str) -> Iterator[Compared]:
    times = [one.vlrt for one in found]
    share, least = _together(recorded.vlrt, times[0]), needed(times, _together, MATCHED)
    what = f"of these, sent within {format_duration(NEAR_NS)} of a recorded one"
    yield Compared(what, "100 %", format_share(share), share >= least, finer)
    yield _distribution("their response times, s", recorded.modes, [one.modes for one in found], finer)
    recorded_as = {name: server for server, name in twin.servers.items()}
    drops = [{recorded_as.get(name, name): count for name, count in one.drops.items()} for one in found]
    yield _distribution("lost connection attempts", recorded.drops, drops, finer)


def _together(some: Times, others: Times) -> float:
    """The share of these very slow requests with a partner."""
    return matched(some, others, NEAR_NS) / len(some) if len(some) else 1.0


def _distribution(what: str, some: Mapping[Any, int], found: Sequence[Mapping[Any, int]], datum: str) -> Compared:
    told, again = (
        ", ".join(f"{key}: {count:,}" for key, count in sorted(counts.items())) or "none" for counts in (some, found[0])
    )
    passed = alike(some, found[0]) >= needed(found, alike, MATCHED)
    return Compared(what, told, again, passed, datum)


def _limits(twin: Twin, recorded: Outcome) -> str:
    """The data for unknown workers or backlogs of the server that lost most attempts, or else of that with the longest
    queue: samples do not show how many requests such a server holds. Where these are known, missing samples."""
    counts = recorded.drops or recorded.longest
    server = max(counts, key=lambda name: counts[name], default="")
    holds = _datum(twin, server, ("workers", "backlog")) or _inferred(twin, server)
    return holds or "; ".join(one.datum for one in twin.unknowns if one.key == "cpu")


def _datum(twin: Twin, server: str, keys: Collection[str] = ()) -> str:
    """The data for what is unknown of the tier of a server."""
    of_tier = (one for one in twin.unknowns if one.name.startswith(f"tiers.{_tier(twin, server)}."))
    return "; ".join(one.datum for one in of_tier if not keys or one.key in keys)


def _inferred(twin: Twin, server: str) -> str:
    """The datum for workers that the twin infers. A server that keeps requests waiting inside holds more than it has
    workers, and its accept queue begins when all of these places are taken."""
    tier = _tier(twin, server)
    if twin.origins.get(f"tiers.{tier}.workers") != OF_PLACES:
        return ""
    workers = count(twin.experiment.tiers[tier].workers or 0, "worker")
    return f"workers and queue_max of {server} in topology.toml, because the twin infers its {workers}"


def _tier(twin: Twin, server: str) -> str:
    return {one.name: one.tier for one in places.servers(twin.experiment)}.get(twin.servers.get(server, ""), "")
