"""Where a prediction depends on what the recording does not show: how many requests a server can hold.

A twin takes such a server to hold any number. A change that lets more requests through to it may make it drop them. So
the change is simulated once more with servers that hold no more than was seen, and the interval holds both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tailrace.advise.advice import Ranked
from tailrace.advise.changing import changed
from tailrace.advise.prediction import reaching
from tailrace.advise.ranking import ranked
from tailrace.advise.trials import Trials, replicated
from tailrace.experiment import Experiment, places
from tailrace.report import words

LETTING_THROUGH = frozenset(("asynchronous", "workers", "pool", "replica"))
"""Remedies after which more requests reach the servers behind at once, as docs/reference/remedies.md says of them."""


def cautious(
    found: Sequence[Ranked], unlimited: Mapping[str, int], experiment: Experiment, trials: Trials
) -> list[Ranked]:
    """The same changes, each with its caution, ranked anew; `unlimited` are the tiers whose workers are not known, and
    how many requests were seen in one of their servers."""
    again = []
    for one in found:
        seen = {tier: max(unlimited[tier], 1) for tier in _open_ended(one, unlimited, experiment)}
        again.append(_with_caution(one, seen, trials) if seen else one)
    return ranked(again)


def _open_ended(one: Ranked, unlimited: Mapping[str, int], experiment: Experiment) -> list[str]:
    """The tiers that may overflow after the change."""
    if not LETTING_THROUGH.intersection(one.remedies):
        return []
    changed_tiers = dict.fromkeys(path[1] for path in one.changes if path[0] == "tiers")
    behind = places.behind(experiment, changed_tiers)
    return [
        tier
        for tier in behind
        if tier in unlimited and tier not in changed_tiers and not _pooled(one.experiment, tier, unlimited[tier])
    ]


def _pooled(experiment: Experiment, tier: str, seen: int) -> bool:
    """Whether the pools of its callers hold it to the requests that were seen in it."""
    called = [(caller.count, call) for caller in experiment.tiers.values() if (call := caller.calls.get(tier))]
    most = sum(count * (call.pool or 0) for count, call in called)
    return most <= seen and all(call.kept and call.pool and not call.pool_per for _, call in called)


def _narrow(experiment: Experiment, seen: Mapping[str, int]) -> Experiment:
    """With servers that hold no more than was seen, and new connections to them: those that were kept are no more than
    the requests that were seen."""
    narrow: dict[tuple[str, ...], Any] = {("tiers", tier, "workers"): workers for tier, workers in seen.items()}
    for caller, tier in experiment.tiers.items():
        kept = [callee for callee, call in tier.calls.items() if callee in seen and call.kept]
        narrow |= {("tiers", caller, "calls", callee, "kept"): False for callee in kept}
    return changed(experiment, narrow)


def _with_caution(one: Ranked, seen: Mapping[str, int], trials: Trials) -> Ranked:
    first = next(iter(seen))
    name = words.name(first)
    caution = f"The recording does not show how many requests {name} can hold, and it gets more at once."
    [outcome] = trials.outcomes([replicated(_narrow(one.experiment, seen), 0)])
    if outcome is None:
        trials.leave("find what is left if servers hold no more than was seen, for {}", [one.words])
        return replace(one, caution=caution)
    left = (
        f" If it can hold only the {seen[first]} that were seen, {words.count(outcome.vlrt)} requests take 1 s or more."
    )
    effect = replace(one.effect, vlrt=reaching(one.effect.vlrt, outcome.vlrt, trials.spread))
    return replace(one, caution=caution + left, effect=effect)
