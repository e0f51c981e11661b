"""This module finds the policies by which a replay chooses again. A policy that looks at its candidates makes other
choices if none of them is stalled. The replay chooses by a policy only if the recorded choices agree with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tailrace._core import agreement
from tailrace.diagnosis.constants import HARDLY_ANY, MANY
from tailrace.diagnosis.ledger import choices, limits, waits
from tailrace.diagnosis.ledger.choices import Choices
from tailrace.diagnosis.ledger.limits import Pools
from tailrace.diagnosis.ledger.recorded import NONE, Recorded
from tailrace.diagnosis.ledger.steps import NEVER
from tailrace.diagnosis.ledger.waits import Waits, way_ns
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View

BLIND = ("random", "round_robin")
"""With these policies, a balancer chooses without looking at its candidates. The recorded choices are right in each
replay."""
LOOKING = ("total_request", "sessions", "total_traffic", "current_load", "least_connections", "power_of_two")
"""The replay counts what these policies look at."""
USUAL = ("least_connections", "total_request", "total_traffic")
"""If the policy is not recorded, these are tried. The others of `LOOKING` make the same choices, or leave most of them
open."""
RECORDED = "recorded"
"""The replay keeps the recorded choices."""
UNSTATED = "the policy by which {by} chose among servers (the replay keeps these choices)"
UNLIKE = "what {by} really chose servers by: these choices disagree with {policy}, which the topology states"
UNSEEN = (
    "when {by} chose servers: most calls waited for a connection, so it is not clear whether {policy} made the choices"
)
UNREPEATABLE = "how {by} chose servers by {policy}, which the replay cannot repeat (it keeps these choices)"
"""A finding says with one of these which datum is missing where the replay keeps choices. `{policy}` is the policy that
the topology states."""


@dataclass(frozen=True)
class Routes:
    """These are the ways that calls took. `policy` is, for each choice, the policy by which a replay makes it again, or
    `RECORDED`."""

    pools: Pools
    choices: Choices
    policy: tuple[str, ...]
    waited: Waits
    start: Times
    """For each visit, this is the start at which `waited` was found."""
    kept: Mapping[str, str]
    """These balancers look at their candidates, or their policy is unknown, and the replay keeps their choices. The
    value says which datum is missing: a sentence about `{by}`."""

    def waits(self, recorded: Recorded) -> Waits:
        """Return which visits waited for a connection, for other starts of the visits."""
        if recorded.start is self.start or np.array_equal(recorded.start, self.start):
            return self.waited
        return waits.find(recorded, self.pools, self.choices)


def routes(view: View, recorded: Recorded) -> Routes:
    named = {one.name: one.policy for one in recorded.balancers(view.topology)}
    blind = {name for name, policy in named.items() if policy in BLIND}
    apart = _ways(view, recorded, blind)
    # A call that waits for a common pool was chosen before its wait. So a policy is tried with either kind of pools.
    every = set(named)
    common = apart if every == blind else _ways(view, recorded, every)
    tried = [apart] if common[0].of == apart[0].of else [apart, common]
    each = list(zip(*(_policies(named, recorded, made, waited) for _, made, waited in tried), strict=True))
    policy = tuple(next((name for name, _ in found if name != RECORDED), RECORDED) for found in each)
    again = {name for name, its in zip(apart[1].balancer, policy, strict=True) if its != RECORDED}
    pools, made, waited = _ways(view, recorded, blind | again) if again else apart
    clear = {name: any(it for _, it in found) for name, found in zip(apart[1].balancer, each, strict=True)}
    kept = {name: _missing(named[name], clear[name]) for name in made.balancer if name not in blind | again}
    return Routes(pools, made, policy, waited, recorded.start, kept)


def _missing(stated: str | None, is_clear: bool) -> str:
    """Return which datum is missing where the recorded choices are kept although the policy may look at candidates."""
    if stated is None:
        return UNSTATED
    why = UNREPEATABLE if stated not in LOOKING else UNLIKE if is_clear else UNSEEN
    return why.replace("{policy}", stated)


def _ways(view: View, recorded: Recorded, balancers: Collection[str]) -> tuple[Pools, Choices, Waits]:
    """Return the ways of calls if the candidates of these balancers may share a pool."""
    pools = limits.pools(view, recorded, balancers)
    made = choices.find(view, recorded, pools)
    return pools, made, waits.find(recorded, pools, made)


def _policies(
    named: Mapping[str, str | None], recorded: Recorded, made: Choices, waited: Waits
) -> Iterator[tuple[str, bool]]:
    """Return the policy of each choice, and whether enough choices are known to recognise one. `named` has those of the
    balancers."""
    for number, (name, candidates) in enumerate(zip(made.balancer, made.candidates, strict=True)):
        known = named[name]
        tried = () if known in BLIND else (known,) if known in LOOKING else USUAL
        calls = np.flatnonzero(made.choice == number)
        servers = [server for server, _ in candidates]
        found = {policy: _agrees(policy, servers, calls, recorded, waited) for policy in tried if policy}
        yield (
            next((policy for policy in found if found[policy]), RECORDED),
            any(it is not None for it in found.values()),
        )


def _agrees(policy: str, servers: list[int], calls: Times, recorded: Recorded, waited: Waits) -> bool | None:
    """Return whether these calls to one of these servers agree with a policy. None: too few of the choices are
    known."""
    at = np.full(len(recorded.servers), NONE, dtype=np.uint32)
    at[servers] = np.arange(len(servers))
    sent, chosen = recorded.sent[calls], at[recorded.server[calls]]
    # A call that was held by another candidate chose that one first. When a call chose that waited for a connection is
    # not known exactly.
    known = (waited.held[calls] == NONE) & (waited.ready[calls] >= sent)
    ready = np.where(known, waited.ready[calls], NEVER)
    # A balancer counts a call until the answer is back.
    back = recorded.back[calls] + way_ns(recorded, calls)
    count, agreed, by_chance = agreement(policy, len(servers), chosen, ready, sent, back, recorded.bytes[calls])
    # Two calls within a microsecond are recorded in any order, and the values with which a policy began are unknown.
    return bool(count - agreed <= HARDLY_ANY * (count - by_chance)) if count >= MANY else None
