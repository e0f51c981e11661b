"""The outcome of one simulated run in numbers, and the questions to the run that give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from tailrace.experiment import Experiment, places
from tailrace.study.runs import Question
from tailrace.units import SECOND

VLRT_NS = SECOND
"""A request is very long from here: the shortest time after which a sender repeats a lost connection attempt today."""
EDGES = [0, *(round(10 ** (6 + step / 10)) for step in range(51))]
"""Bins of response times, ten a decade from 1 ms to 100 s."""
VLRT_BIN = EDGES.index(VLRT_NS)
PARTS = 6
"""Parts of the run in which VLRT are counted one by one."""


@dataclass(frozen=True)
class Rest:
    """Requests of a long recording that its twin does not send, because none near them is very slow. They count as
    recorded."""

    requests: int = 0
    simulated: int = 0
    """The requests that it does send, or that those stand for."""
    histogram: tuple[int, ...] = (0,) * len(EDGES)
    """Answered ones of the rest in the bins of `EDGES`."""
    weight: float = 1.0
    """How many requests of the recording each simulated one stands for."""
    episodes: tuple[tuple[int, int], ...] = ()
    """Where only a part of the episodes is simulated: their begins and ends, ns after the ramp."""

    def percentile(self, whole: float) -> float:
        """The percentile of the simulated requests that is this one of all, if the rest is faster."""
        slower = (100 - whole) * (self.requests + self.simulated)
        return 100 - slower / self.simulated if self.simulated and slower < 100 * self.simulated else whole


NOTHING = Rest()


@dataclass(frozen=True)
class Outcome:
    """Requests are those of all workloads together; times are those at the first tier that clients call."""

    vlrt: int
    """Requests that were answered after 1 s or more."""
    failed: int
    """Requests that were refused, given up or answered with an error."""
    requests: int
    median_ns: float
    p999_ns: float
    drops: dict[str, int]
    """Lost connection attempts by tier."""
    parts: list[int]
    """Requests of 1 s or more by the part of the run in which they were sent."""
    histogram: list[int]
    """Answered requests in the bins of `EDGES`, the last above all."""
    weight: float = 1.0
    """How many requests each simulated one counts as."""
    episodes: tuple[int, ...] = ()
    """Requests of 1 s or more by simulated episode, where these are a part of all; each request is counted once."""

    @property
    def harmed(self) -> int:
        """Very long or without an answer. A remedy must not exchange one for the other."""
        return self.vlrt + self.failed


def entries(experiment: Experiment) -> tuple[str, ...]:
    """The tiers that clients call."""
    [first, *_] = places.entries(experiment)
    return tuple(dict.fromkeys(load.entry or first for load in experiment.workloads.values()))


def questions(experiment: Experiment, rest: Rest = NOTHING) -> dict[str, Question]:
    part = max(experiment.duration // PARTS, 1)
    [first, *_] = entries(experiment)
    asked = {
        "median": Question.of("response_percentile", {"percentile": 50, "place": first}),
        "p999": Question.of("response_percentile", {"percentile": rest.percentile(99.9), "place": first}),
    }
    for entry in entries(experiment):
        spot = {"series": "vlrt", "place": entry, "begin": 0, "end": part * PARTS, "window": part}
        asked |= {
            f"requests {entry}": Question.of("requests", {"place": entry}),
            f"failures {entry}": Question.of("failures", {"place": entry}),
            f"histogram {entry}": Question.of("histogram", {"edges": EDGES, "place": entry}),
            f"parts {entry}": Question.of("series", spot),
        }
        if rest.episodes:
            seconds = spot | {"end": experiment.duration, "window": SECOND}
            asked[f"seconds {entry}"] = Question.of("series", seconds)
    return asked | {f"drops {tier}": Question.of("drops", {"place": tier}) for tier in experiment.tiers}


def outcome(experiment: Experiment, answers: Mapping[str, Any], rest: Rest = NOTHING) -> Outcome:
    """From the answers of a run by `Question.key`, together with the rest."""
    said = {name: answers[question.key] for name, question in questions(experiment, rest).items()}
    entered = entries(experiment)
    parts = [0.0] * PARTS
    counts, seconds = [0] * len(EDGES), [0.0] * (-(-experiment.duration // SECOND) if rest.episodes else 0)
    for entry in entered:
        parts = _added(parts, said[f"parts {entry}"])
        counts = [count + more for count, more in zip(counts, said[f"histogram {entry}"], strict=True)]
        if rest.episodes:
            seconds = _added(seconds, said[f"seconds {entry}"])
    histogram = [more + round(rest.weight * count) for count, more in zip(counts, rest.histogram, strict=True)]
    failed, requests = (sum(int(said[f"{what} {entry}"]) for entry in entered) for what in ("failures", "requests"))
    return Outcome(
        vlrt=sum(rest.histogram[VLRT_BIN:]) + round(rest.weight * sum(counts[VLRT_BIN:])),
        failed=round(rest.weight * failed),
        requests=rest.requests + round(rest.weight * requests),
        median_ns=said["median"],
        p999_ns=said["p999"],
        drops={tier: round(rest.weight * int(said[f"drops {tier}"])) for tier in experiment.tiers},
        parts=[round(rest.weight * part) for part in parts],
        histogram=histogram,
        weight=rest.weight,
        episodes=tuple(_between(seconds, *episode) for episode in rest.episodes),
    )


def _added(counts: Sequence[float], lines: Iterable[Mapping[str, Any]]) -> list[float]:
    for line in lines:
        counts = [count + (value or 0.0) for count, value in zip(counts, line["values"], strict=True)]
    return list(counts)


def _between(seconds: Sequence[float], begin: int, end: int) -> int:
    """The counts of the seconds from the one of `begin` to the one before `end`: episodes are further apart."""
    return round(fsum(seconds[begin // SECOND : -(-end // SECOND)]))
