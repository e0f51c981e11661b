"""What the simulator cannot do is refused by name before anything is created."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.errors import UsageError
from tailrace.experiment import Experiment
from tailrace.experiment.catalogue import interactions
from tailrace.sim.bounds import exceeded

CANDIDATES_MAX = 32


def refuse(experiment: Experiment) -> None:
    for key, why in _refusals(experiment):
        raise UsageError(f"the simulator cannot do {key}: {why}")


def _refusals(experiment: Experiment) -> Iterator[tuple[str, str]]:
    yield from exceeded(experiment)
    holding: set[str] = set()
    for name, tier in experiment.tiers.items():
        held = [callee for callee, call in tier.calls.items() if call.for_visit]
        holding |= {name, tier.role or name} if held else set()
        if len(held) > 1:
            yield f"tiers.{name}.calls.{held[1]}.for_visit", f"a visit keeps one connection, here to {held[0]}"
        for callee, call in tier.calls.items():
            key = f"tiers.{name}.calls.{callee}"
            if call.for_visit and not call.kept:
                yield f"{key}.for_visit", "it connects for each call unless kept = true"
            if call.for_visit and call.hedge:
                yield f"{key}.hedge", "its visit keeps one connection, over which a second call cannot go"
            if experiment.tiers[callee].count > CANDIDATES_MAX:
                yield key, f"a balancer has at most {CANDIDATES_MAX} candidates"
    for name, interaction in interactions(experiment).items():
        for place, work in interaction.at.items():
            if place in holding and any(visits.all for visits in work.calls.values()):
                yield f"interactions.{name}.at.{place}", "calls to all need more connections than for_visit keeps"
