"""The work of a server for each class of requests, as steps: compute, wait, call."""

from __future__ import annotations

from math import log2
from typing import Any

from tailrace.errors import UsageError
from tailrace.experiment import Experiment
from tailrace.experiment.arrivals import law
from tailrace.experiment.catalogue import interactions
from tailrace.experiment.interactions import Interaction, Visits, Work

Json = dict[str, Any]


class Programs:
    """Classes and programs, numbered in the order in which the workloads need them."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.interactions = interactions(experiment)
        self.programs: list[list[Json]] = []
        self._classes: dict[str, int] = {}
        self._known: dict[tuple[str, str], int] = {}

    def asked(self, tier: str, interaction: str) -> int:
        """The class of an interaction at a tier; builds its program and those of all its calls."""
        number = self._classes.setdefault(interaction, len(self._classes))
        if (tier, interaction) in self._known:
            return number
        work = self._work(tier, interaction)
        if work is None:
            role = self.experiment.tiers[tier].role
            lacks = f"no {tier}" if role in (None, tier) else f"neither {tier} nor its role {role}"
            what = f"{interaction} comes to {tier}, and interactions.{interaction}.at has {lacks}"
            raise UsageError(what, advice=self._advice(interaction))
        self._known[tier, interaction] = place = len(self.programs)
        self.programs.append([])
        self.programs[place] = self._steps(tier, interaction, work)
        return number

    def number_of(self, interaction: str) -> int | None:
        """The class of an interaction, if any workload needs it."""
        return self._classes.get(interaction)

    def by_tier(self) -> dict[str, list[int | None]]:
        """For each tier, its program for each class; None if that class never reaches it."""
        numbers = {interaction: number for number, interaction in enumerate(self._classes)}
        found: dict[str, list[int | None]] = {tier: [None] * len(numbers) for tier in self.experiment.tiers}
        for (tier, interaction), program in self._known.items():
            if interaction in numbers:
                found[tier][numbers[interaction]] = program
        return found

    def classes(self) -> list[Json]:
        found = [(name, self.interactions[name]) for name in self._classes]
        servlets: dict[str, int] = {}
        return [
            {
                "name": name,
                "bytes_in": one.request,
                "bytes_out": one.response,
                "light": one.light,
                "rank": _rank(one),
                "servlet": servlets.setdefault(one.servlet or name, number),
                **({"silent": True} if one.silent else {}),
            }
            for number, (name, one) in enumerate(found)
        ]

    def _advice(self, interaction: str) -> str:
        """A hint for an experiment of the user's own whose workload does not name its requests."""
        own = interaction in self.experiment.interactions
        return "" if own else "unless it sends pages of RUBBoS, a workload needs `interaction` or `mix`"

    def _work(self, tier: str, interaction: str) -> Work | None:
        at = self.interactions[interaction].at
        return at.get(tier) or at.get(self.experiment.tiers[tier].role or tier)

    def _steps(self, tier: str, interaction: str, work: Work) -> list[Json]:
        compute = work.compute * self.experiment.tiers[tier].demand_factor
        rows = [row for joined in work.steps() for row in self._rows(tier, interaction, work, joined)]
        wait = [{"wait": {"constant": float(work.wait)}}] if work.wait else []
        # calls that are only sometimes made have no part of their own
        after = [row for row in rows if any(call["count"] >= 1 for call in row)] if work.interleaved else rows[-1:]
        if not after and work.before is not None:
            after = rows[-1:]
        before = 1 / (1 + len(after)) if work.before is None or not after else work.before
        steps = [*_compute(compute * before, work.scv), *wait]
        for row in rows:
            steps.append({"join": row} if len(row) > 1 else {"call": row[0]})
            if any(row is one for one in after):
                steps += _compute(compute * (1 - before) / len(after), work.scv)
        return steps

    def _rows(self, tier: str, interaction: str, work: Work, names: list[str]) -> list[list[Json]]:
        """The calls that begin at each moment: several kinds together, or those of one kind one by one."""
        calls = [self._call(tier, interaction, name, work.calls[name]) for name in names]
        return [calls] if len(calls) > 1 else [[call] for call in _one_by_one(calls[0])]

    def _call(self, tier: str, caller: str, interaction: str, visits: Visits) -> Json:
        callees = list(self.experiment.tiers[tier].calls)
        able = [visits.to] if visits.to else [name for name in callees if self._work(name, interaction)]
        if len(able) != 1 or able[0] not in callees:
            where = f"interactions.{caller}.at.{self.experiment.tiers[tier].role}.calls.{interaction}"
            if visits.to or not able:
                what = f"{where} goes to no tier that {tier} calls ({', '.join(callees) or 'none'})"
                raise UsageError(what, advice=self._advice(caller))
            raise UsageError(f"{where} could go to {' and '.join(able)}", advice="say which with `to`")
        return {
            "connector": callees.index(able[0]),
            "class": self.asked(able[0], interaction),
            "count": visits.count,
            "parallel": visits.parallel,
            "all": visits.all,
        }


def _rank(interaction: Interaction) -> int:
    """The power of two up to the calls of the tier that makes most for it; 0 with fewer than two."""
    most = max((sum(visits.count for visits in work.calls.values()) for work in interaction.at.values()), default=0)
    return int(log2(max(most, 1)))


def _one_by_one(call: Json) -> list[Json]:
    """3.5 calls one after another are three and, half the time, one more."""
    if call["parallel"] or call["all"]:
        return [call]
    whole, fraction = divmod(call["count"], 1)
    rows = [{**call, "count": 1.0} for _ in range(int(whole))]
    return [*rows, {**call, "count": fraction}] if fraction else rows


def _compute(mean: float, scv: float) -> list[Json]:
    return [{"compute": law(mean, scv)}] if mean > 0 else []
