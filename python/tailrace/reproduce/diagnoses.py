"""Whether `tailrace diagnose` finds what the authors found: the cause of each run's very slow requests (VLRT)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tailrace.errors import UsageError
from tailrace.experiment import Experiment, places
from tailrace.reproduce.expected import Expected, Run
from tailrace.score.figures import TIE
from tailrace.study.diagnosed import CODE
from tailrace.study.runs import Job, Question, fingerprint
from tailrace.toml import wrong_name
from tailrace.units import format_share

ENOUGH = 0.95
"""The share of the VLRT for which a diagnosis must be right, as in docs/reference/score.md."""
Verdict = Literal["holds", "fails"]


@dataclass(frozen=True)
class Diagnosed:
    """One run, over the replications that were diagnosed. All numbers but `replications` count VLRT."""

    run: str
    cause: tuple[str, ...]
    """What the paper names; empty if it names no cause."""
    origin: str | None
    """Where they began, by the paper; None if it names no place."""
    replications: int
    vlrt: int
    reported: dict[str, int]
    """By reported cause, the most frequent first."""
    as_paper: int
    """Those for which a cause was reported that the paper names."""
    at_origin: int
    """Those for which the paper's origin was reported."""
    right: int
    """Those whose reported cause is right by simulating without it."""
    removable: int
    """Those that are gone without some trouble that was recorded."""
    gone: int | None = None
    """Those that are gone without all that the paper names; None if it names no cause."""

    @property
    def verdict(self) -> Verdict | None:
        """None if the paper names no cause, or no request was very slow."""
        if not self.cause or not self.vlrt:
            return None
        counts = [self.as_paper, self.right, *([self.at_origin] if self.origin else [])]
        return "holds" if min(counts) >= ENOUGH * self.vlrt else "fails"

    @property
    def named(self) -> str:
        """What the paper names, and where they began; empty if it names no cause."""
        where = f" at {self.origin}" if self.origin else ""
        return " or ".join(self.cause) + where if self.cause else ""

    @property
    def shares(self) -> str:
        """Each reported cause with its share."""
        return ", ".join(f"{name} {format_share(self.share(count))}" for name, count in self.reported.items())

    @property
    def gone_share(self) -> str:
        """The share that is gone without what the paper names; empty if it names no cause."""
        return "" if self.gone is None or not self.vlrt else format_share(self.share(self.gone))

    def share(self, count: int) -> float:
        return count / self.vlrt if self.vlrt else 0.0


def question(cause: Sequence[str]) -> Question:
    """The diagnosis of a run for which the paper names this cause."""
    return Question.of("diagnosis", {"code": fingerprint(CODE), "named": sorted(cause)})


def check_origin(expected: Expected, run: Run, experiment: Experiment) -> None:
    """Raise UsageError if the experiment has no such tier or server."""
    origin = expected.origin_of(run)
    known = {*experiment.tiers, *(server.name for server in places.servers(experiment))}
    if origin and origin not in known:
        raise UsageError(wrong_name(f"origin of {run.name}", origin, known, "tier or server"))


def summed(expected: Expected, run: Run, jobs: Sequence[Job]) -> Diagnosed:
    """Over the replications that were diagnosed."""
    cause, origin = expected.cause_of(run), expected.origin_of(run)
    answers = [job.answers[question(cause).key] for job in jobs]
    rows = [row for answer in answers for row in answer["summary"]]
    reported: Counter[str] = Counter()
    for row in rows:
        reported[row["cause"]] += row["vlrt"]
    there = {server.name for server in places.servers(jobs[0].experiment) if origin in (server.tier, server.name)}
    return Diagnosed(
        run=run.name,
        cause=cause,
        origin=origin,
        replications=len(answers),
        vlrt=_sum(answers, "vlrt"),
        reported=dict(reported.most_common()),
        as_paper=sum(count for name, count in reported.items() if set(name.split(TIE)) <= set(cause)),
        at_origin=sum(row["vlrt"] for row in rows if row["origin"] in there),
        right=_sum(answers, "right"),
        removable=_sum(answers, "removable"),
        gone=sum(max(answer["vlrt"] - answer.get("without_named", 0), 0) for answer in answers) if cause else None,
    )


def _sum(answers: Sequence[dict[str, Any]], key: str) -> int:
    return sum(int(answer[key]) for answer in answers)
