"""Another policy of the load balancer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from tailrace.advise.remedies.remedy import Option, Remedy, calls
from tailrace.experiment import Experiment
from tailrace.experiment.tiers import Policy

CUMULATIVE = ("total_request", "total_traffic", "sessions")
"""Policies that count what a candidate has received: they send requests to a stalled one (`balancers` III)."""


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, callee, call in calls(experiment):
        if experiment.tiers[callee].count > 1:
            tried = (policy for policy in get_args(Policy) if policy not in (*CUMULATIVE, call.policy))
            yield from (_of(name, callee, str(call.policy), policy) for policy in tried)


def _of(name: str, callee: str, now: str, policy: str) -> Option:
    return Option(
        f"{name} to {callee}",
        (policy,),
        lambda size: {("tiers", name, "calls", callee, "policy"): size},
        lambda size: f"balance calls from {name} to {callee} by {size} instead of {now}",
    )


REMEDY = Remedy(
    "policy",
    _options,
    "setting",
    "A candidate that answers fast because it fails attracts calls under policies that follow the load.",
    "balancers IV (current_load); power of two choices, peak EWMA, least connections and Prequal's are today's "
    "practice",
)
