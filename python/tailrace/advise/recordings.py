"""The twin of a recording, if it repeats the recording well enough for changes to be tried on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from tailrace import experiment as experiments
from tailrace.advise import facts, sampling, software
from tailrace.advise.facts import Facts
from tailrace.advise.outcomes import EDGES, NOTHING, Rest
from tailrace.advise.sampling import Sample
from tailrace.dataset import Dataset
from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.ledger.losses import clock
from tailrace.diagnosis.ledger.losses import quota as quota_loss
from tailrace.diagnosis.spans import inside, length
from tailrace.diagnosis.unanswered import HOW
from tailrace.errors import TailraceError
from tailrace.experiment import Experiment, places
from tailrace.twin import Gate, Twin, Unknown, gate, learn
from tailrace.twin.gate import Compared
from tailrace.units import format_count, format_duration, parse_duration

CALLING = frozenset(("http", "http2", "grpc", "ajp", "fastcgi"))
"""Protocols of servers that may call others."""


class RefusedError(TailraceError):
    """The twin does not repeat the recording; `reasons` says in what, and which datum would mend it."""

    def __init__(self, found: str, *, where: str, reasons: tuple[str, ...]) -> None:
        super().__init__(found, where=where)
        self.reasons = reasons


@dataclass(frozen=True)
class Planned:
    """An experiment to advise on, and, if it is the twin of a recording, what is known of it as a twin."""

    experiment: Experiment
    facts: Facts = field(default_factory=Facts)


def twin_of(run: Dataset, folder: Path) -> Planned:
    """The twin, written into the folder, unless the folder has it already. Raises RefusedError if it does not repeat
    the recording."""
    if known := facts.read(folder, run):
        return Planned(experiments.read(folder), known)
    twin, checked = _simplest(learn(run, part=True), run)
    _refuse(run, checked)
    path = twin.write(folder, overwrite=True)
    repeated = experiments.read(path)
    rest = rest_of(twin, run)
    sample = sampling.drawn(twin, checked.recorded.vlrt, rest, folder)
    known = Facts(
        notes=(
            *_part(twin, sample),
            *_governed(twin),
            *_limited(twin),
            *(one.sentence for one in twin.unknowns),
            *_last(twin, run, repeated),
        ),
        protocols=_protocols(twin, run, repeated),
        programs=_said(twin, run, repeated, "software"),
        origins=twin.origins,
        compared=checked.rows,
        unlimited={tier: int(one.low) for tier, one in _of(twin, "workers").items()},
        opening=tuple(_of(twin, "kept")),
        sharing=tuple(_of(twin, "shared")),
        governors={name: keys for name, keys in twin.governors.items() if "governor" not in twin.table["nodes"][name]},
        more=twin.more,
        spread=_spread(checked),
        rest=rest,
        sample=sample,
    )
    facts.keep(folder, run, (path.name, *twin.arrivals, *twin.losses, *sample.files.values()), known)
    return Planned(repeated, known)


def _simplest(twin: Twin, run: Dataset) -> tuple[Twin, Gate]:
    """The twin with as few recorded losses as repeat the recording: it would take them from its servers whatever is
    changed. Clock rates that follow the load need no recorded ones, and losses that no cause accounts for hold what the
    twin does not know."""
    for way in _ways(twin):
        simpler = way.without(UNKNOWN)
        for one in (simpler, way) if len(simpler.losses) < len(way.losses) else (way,):
            checked = gate(one, run)
            if checked.passed:
                return one, checked
    return twin, checked


def _ways(twin: Twin) -> Iterator[Twin]:
    """The twin with the mechanisms of its losses instead of the recorded ones: with all, with one sort, with none."""
    if twin.quotas and twin.governors:
        yield twin.limited().governed()
    if twin.quotas:
        yield twin.limited()
    if twin.governors:
        yield twin.governed()
    yield twin


def _protocols(twin: Twin, run: Dataset, repeated: Experiment) -> dict[str, str]:
    """By tier of the twin."""
    return _said(twin, run, repeated, "protocol")


def _said(twin: Twin, run: Dataset, repeated: Experiment, key: Literal["protocol", "software"]) -> dict[str, str]:
    """What the recording's topology says of servers, by tier of the twin."""
    known: dict[str, str | None] = {server.name: getattr(server, key) for server in run.topology.servers}
    tier = {server.name: server.tier for server in places.servers(repeated)}
    return {tier[own]: said for server, own in twin.servers.items() if (said := known.get(server))}


def of_tiers(twin: Twin, run: Dataset, given: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """The software of each tier of the twin: as `given`, else as the recording tells it. Raises UsageError for unknown
    names."""
    repeated = twin.experiment
    return software.chosen(repeated, given, _protocols(twin, run, repeated), _said(twin, run, repeated, "software"))


def _last(twin: Twin, run: Dataset, repeated: Experiment) -> Iterator[str]:
    """What changes of the last recorded tiers may do to others. Databases and caches call nobody."""
    protocols = _protocols(twin, run, repeated)
    for name, tier in repeated.tiers.items():
        if not tier.calls and protocols.get(name) in CALLING:
            yield (
                f"the recording shows no calls of {name}: if it calls other servers, more workers or an asynchronous "
                f"{name} let more requests through to them, which may drop them"
            )


def _governed(twin: Twin) -> Iterator[str]:
    """How clock rates that changed come about in the twin."""
    for name, node in twin.table["nodes"].items():
        if governor := node.get("governor"):
            period = format_duration(parse_duration(governor["period"]))
            yield f"the clock rate of {name} follows its load in the twin, as in the recording: it looks every {period}"
    stepped = dict.fromkeys(line["place"] for line in twin.table["losses"] if line["cause"] == clock.CAUSE)
    for place in stepped:
        yield (
            f"the clock rate of {place} is as recorded, whatever is changed; a governor would set another one for "
            "another load"
        )


def _limited(twin: Twin) -> Iterator[str]:
    """How servers come to be throttled in the twin."""
    for name, tier in twin.table["tiers"].items():
        if quota := tier.get("quota"):
            time, period = (format_duration(parse_duration(quota[key])) for key in ("time", "period"))
            yield f"{name} is throttled in the twin when it has used {time} of CPU time in {period}, as it was recorded"
    for place in dict.fromkeys(line["place"] for line in twin.table["losses"] if line["cause"] == quota_loss.CAUSE):
        yield f"{place} is throttled when it was in the recording, whatever is changed"


def _part(twin: Twin, sample: Sample) -> Iterator[str]:
    """What of a long recording is simulated."""
    if twin.kept is not None:
        sent = sum(map(len, twin.arrivals.values()))
        yield (
            f"of {format_count(sent + twin.rest)} requests, {format_count(sent)} are simulated: those of "
            f"{format_duration(length(twin.kept))} around the very long ones, and of the busiest calm seconds; the "
            "others count as recorded"
        )
    if sample:
        yield sample.note


def rest_of(twin: Twin, run: Dataset) -> Rest:
    if twin.kept is None:
        return NOTHING
    answered = (
        run.requests()
        .with_columns(pl.col("server", "status").cast(pl.String))
        .filter(pl.col("server").is_in(list(twin.entries)), ~pl.col("status").is_in(list(HOW)))
        .select("sent", response=pl.col("end") - pl.col("sent"))
        .collect()
    )
    left_out = inside(twin.kept, answered["sent"].to_numpy() - twin.begin) < 0
    histogram, _ = np.histogram(answered["response"].to_numpy()[left_out], [*EDGES, np.inf])
    return Rest(twin.rest, sum(map(len, twin.arrivals.values())), tuple(histogram.tolist()))


def _refuse(run: Dataset, checked: Gate) -> None:
    quiet = not len(checked.recorded.vlrt)
    found = "it holds a part of the requests, so what a change would do for all is not known"
    differs = checked.missing
    if not differs:
        found = "its twin does not repeat it, so what a change would do is not known"
        differs = tuple(
            row for row in checked.rows if not row.passed and not (quiet and row.recorded == row.reproduced)
        )
    if differs:
        raise RefusedError(found, where=str(run.path), reasons=tuple(row.sentence for row in _said_once(differs)))


def _said_once(rows: Iterable[Compared]) -> Iterator[Compared]:
    """The rows; where an earlier one names the same datum, a row names that one instead."""
    said: dict[str, str] = {}
    for row in rows:
        first = said.get(row.datum)
        yield replace(row, why=f"the same would help as for: {first}") if first and not row.why else row
        if row.datum:
            said.setdefault(row.datum, row.what)


def _spread(checked: Gate) -> float:
    """The largest difference of any replication of the twin from the recorded count."""
    recorded = len(checked.recorded.vlrt)
    counts = [len(one.vlrt) for one in checked.reproduced]
    return max(abs(count - recorded) / recorded for count in counts) if recorded else 0.0


def _of(twin: Twin, key: str) -> dict[str, Unknown]:
    """By tier, what the recording does not show of it."""
    return {one.tier: one for one in twin.unknowns if one.key == key}
