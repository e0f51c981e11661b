"""Where a prediction depends on what the recording does not show: how many requests a server can hold, whether
connections to it are kept, and how its callers wait for a free one.

A twin takes such a server to hold any number, and such connections to be kept. A change that lets more requests through
may make the server drop them. So the change is simulated once more with servers that hold no more than was seen, or
with a connection for each call, and the interval holds both. A twin's calls wait for a connection in line. Threads of
mod_jk look for one every 100 ms, and later requests overtake them; where a change makes calls over AJP wait that did
not wait before, the interval holds that, too. And a twin takes capacity that no cause accounts for from its servers
whatever is changed; the interval also holds what is left without that. Where the twin has the recorded clock rates, the
interval also holds what is left if they follow the load.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tailrace.advise.advice import Ranked
from tailrace.advise.changing import changed
from tailrace.advise.facts import Facts
from tailrace.advise.prediction import reaching
from tailrace.advise.ranking import ranked
from tailrace.advise.trials import Trials, replicated
from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.ledger.losses import clock
from tailrace.experiment import Experiment, places
from tailrace.report import words

LETTING_THROUGH = frozenset(("asynchronous", "workers", "pool", "replica"))
"""Remedies after which more requests reach the servers behind at once, as docs/reference/remedies.md says of them."""
PATIENCE = "300 s"
"""Longer than any request waits: mod_jk with `connection_acquire_timeout` unlimited."""


def cautious(found: Sequence[Ranked], facts: Facts, experiment: Experiment, trials: Trials) -> list[Ranked]:
    """The same changes, each with its caution, ranked anew. `facts` says what the recording does not show."""
    again = []
    for one in found:
        behind = _behind(one, experiment)
        seen = {tier: max(facts.unlimited[tier], 1) for tier in _open_ended(one, facts.unlimited, behind)}
        if seen:
            one = _if_no_more(one, seen, trials)
        elif opening := [tier for tier in behind if tier in facts.opening]:
            one = _if_opened(one, opening, trials)
        polling = [
            (caller, callee)
            for caller, callee in _waiting(one.experiment) - _waiting(experiment)
            if facts.protocols.get(callee) == "ajp"
        ]
        if polling:
            one = _if_polled(one, sorted(polling), trials)
        if sharing := [tier for tier in behind if tier in facts.sharing]:
            one = _if_shared(one, sharing, trials)
        again.append(_if_governed(_if_accounted_for(one, trials), facts, trials))
    return ranked(again)


def _behind(one: Ranked, experiment: Experiment) -> list[str]:
    """The tiers that get more requests at once after the change; those that it changes itself are left out."""
    if not LETTING_THROUGH.intersection(one.remedies):
        return []
    changed_tiers = dict.fromkeys(path[1] for path in one.changes if path[0] == "tiers")
    return [tier for tier in places.behind(experiment, changed_tiers) if tier not in changed_tiers]


def _open_ended(one: Ranked, unlimited: Mapping[str, int], behind: Sequence[str]) -> list[str]:
    """The tiers that may overflow after the change."""
    return [tier for tier in behind if tier in unlimited and not _pooled(one.experiment, tier, unlimited[tier])]


def _pooled(experiment: Experiment, tier: str, seen: int) -> bool:
    """Whether the pools of its callers hold it to the requests that were seen in it."""
    called = [(caller.count, call) for caller in experiment.tiers.values() if (call := caller.calls.get(tier))]
    most = sum(count * (call.pool or 0) for count, call in called)
    return most <= seen and all(call.kept and call.pool and not call.pool_per for _, call in called)


def _narrow(experiment: Experiment, workers: Mapping[str, int], opening: Collection[str]) -> Experiment:
    """With servers that hold no more than was seen, and new connections for calls to some tiers."""
    narrow: dict[tuple[str, ...], Any] = {("tiers", tier, "workers"): count for tier, count in workers.items()}
    for caller, tier in experiment.tiers.items():
        kept = [callee for callee, call in tier.calls.items() if callee in opening and call.kept]
        narrow |= {("tiers", caller, "calls", callee, "kept"): False for callee in kept}
    return changed(experiment, narrow)


def _waiting(experiment: Experiment) -> set[tuple[str, str]]:
    """Callers whose synchronous servers have more workers than connections, with what they call: calls may wait."""
    return {
        (name, callee)
        for name, tier in experiment.tiers.items()
        for callee, call in tier.calls.items()
        if tier.kind == "sync" and call.pool and call.endpoint in (None, "wait") and (tier.workers or 0) > call.pool
    }


def _if_no_more(one: Ranked, seen: Mapping[str, int], trials: Trials) -> Ranked:
    """Connections that were kept are no more than the requests that were seen, so further ones are new."""
    first = next(iter(seen))
    name = words.name(first)
    caution = f"The recording does not show how many requests {name} can hold, and it gets more at once."
    [outcome] = trials.outcomes([replicated(_narrow(one.experiment, seen, seen), 0)])
    if outcome is None:
        trials.leave("find what is left if servers hold no more than was seen, for {}", [one.words])
        return replace(one, caution=caution)
    left = (
        f" If it can hold only the {seen[first]} that were seen, {words.count(outcome.vlrt)} requests take 1 s or more."
    )
    return _reaching(one, outcome.vlrt, caution + left, trials)


def _if_opened(one: Ranked, opening: Sequence[str], trials: Trials) -> Ranked:
    experiment = _narrow(one.experiment, {}, opening)
    vlrt = _more(one, experiment, "find what is left if each call opens a connection, for {}", trials)
    if vlrt is None:
        return one
    name = words.name(opening[0])
    caution = f"The recording does not show whether calls to {name} open new connections."
    left = f" If each call opens one, {words.count(vlrt)} requests take 1 s or more."
    return _reaching(one, vlrt, caution + left, trials)


def _if_shared(one: Ranked, tiers: Sequence[str], trials: Trials) -> Ranked:
    """With one pool for all servers of each of these tiers."""
    shared: dict[tuple[str, ...], Any] = {
        ("tiers", caller, "calls", callee, "pool_per"): [scope for scope in call.pool_per if scope != "candidate"]
        for caller, tier in one.experiment.tiers.items()
        for callee, call in tier.calls.items()
        if callee in tiers and call.pool_per and "candidate" in call.pool_per
    }
    if not shared:
        return one
    question = "find what is left if all servers share a pool, for {}"
    vlrt = _outside(one, changed(one.experiment, shared), question, trials)
    if vlrt is None:
        return one
    caution = (
        f"The recording does not show whether callers have a pool for each server of {words.name(tiers[0])}. If all "
        f"share one, {words.count(vlrt)} requests take 1 s or more."
    )
    return _reaching(one, vlrt, caution, trials)


def _if_polled(one: Ranked, calls: Sequence[tuple[str, str]], trials: Trials) -> Ranked:
    polled: dict[tuple[str, ...], Any] = {}
    for caller, callee in calls:
        polled["tiers", caller, "calls", callee, "endpoint"] = "original"
        polled["tiers", caller, "calls", callee, "endpoint_timeout"] = PATIENCE
    question = "find what is left if callers look for a free connection now and then, for {}"
    vlrt = _more(one, changed(one.experiment, polled), question, trials)
    if vlrt is None:
        return one
    first, called = map(words.name, calls[0])
    caution = (
        f"If {first} is mod_jk, requests that find no free connection to {called} look again every 100 ms, and later "
        f"ones overtake them: then {words.count(vlrt)} requests take 1 s or more."
    )
    return _reaching(one, vlrt, caution, trials)


def _if_accounted_for(one: Ranked, trials: Trials) -> Ranked:
    """A loss that no cause accounts for may be the effect of what the change takes away, or last in spite of it."""
    unknown = [loss for loss in one.experiment.losses if loss.cause == UNKNOWN]
    if not unknown:
        return one
    left = tuple(loss for loss in one.experiment.losses if loss.cause != UNKNOWN)
    question = "find what is left without the losses that no cause accounts for, for {}"
    vlrt = _outside(one, one.experiment.model_copy(update={"losses": left}), question, trials)
    if vlrt is None:
        return one
    caution = (
        f"The recording does not show why {words.name(unknown[0].place)} lost capacity. If the change ends "
        f"that, too, {words.count(vlrt)} requests take 1 s or more."
    )
    return _reaching(one, vlrt, caution, trials)


def _if_governed(one: Ranked, facts: Facts, trials: Trials) -> Ranked:
    """A clock rate is as recorded where the twin with its governor does not repeat the recording. With the governor,
    visits need what they need in that twin."""
    tiers = {server.name: server.tier for server in places.servers(one.experiment)}
    slowed = dict.fromkeys(loss.place for loss in one.experiment.losses if loss.cause == clock.CAUSE)
    mine = {place: tiers[place] for place in slowed if place in tiers and tiers[place] in facts.governors}
    if not mine:
        return one
    following = changed(one.experiment, _governed(one.experiment, facts, set(mine.values())))
    left = tuple(loss for loss in following.losses if loss.cause != clock.CAUSE or loss.place not in mine)
    question = "find what is left if the clock rate follows the load, for {}"
    vlrt = _outside(one, following.model_copy(update={"losses": left}), question, trials)
    if vlrt is None:
        return one
    caution = (
        f"The clock rate of {words.name(next(iter(mine)))} is as recorded. If it follows the load as its governor did, "
        f"{words.count(vlrt)} requests take 1 s or more."
    )
    return _reaching(one, vlrt, caution, trials)


def _governed(experiment: Experiment, facts: Facts, tiers: Collection[str]) -> dict[tuple[str, ...], Any]:
    changes: dict[tuple[str, ...], Any] = {}
    for tier in sorted(tiers):
        factor = experiment.tiers[tier].demand_factor * facts.more.get(tier, 1.0)
        changes["nodes", tier, "governor"] = facts.governors[tier]
        changes["tiers", tier, "demand_factor"] = round(factor, 4)
    return changes


def _more(one: Ranked, experiment: Experiment, question: str, trials: Trials) -> int | None:
    """The very slow requests of an experiment, if they are more than the interval has."""
    vlrt, high = _simulated(one, experiment, question, trials), one.effect.vlrt.high
    return vlrt if vlrt is not None and high is not None and vlrt > high else None


def _outside(one: Ranked, experiment: Experiment, question: str, trials: Trials) -> int | None:
    """The very slow requests of an experiment, if there is an interval and it does not hold them."""
    vlrt = _simulated(one, experiment, question, trials)
    low, high = one.effect.vlrt.low, one.effect.vlrt.high
    return None if vlrt is None or low is None or high is None or low <= vlrt <= high else vlrt


def _simulated(one: Ranked, experiment: Experiment, question: str, trials: Trials) -> int | None:
    """The very slow requests of an experiment; None, and the question stays open, if there is no time for it."""
    [outcome] = trials.outcomes([replicated(experiment, 0)])
    if outcome is None:
        trials.leave(question, [one.words])
        return None
    return outcome.vlrt


def _reaching(one: Ranked, vlrt: int, caution: str, trials: Trials) -> Ranked:
    """The change with an interval that reaches this number, and with the caution behind earlier ones."""
    effect = replace(one.effect, vlrt=reaching(one.effect.vlrt, vlrt, trials.spread))
    return replace(one, caution=f"{one.caution} {caution}".strip(), effect=effect)
