"""Ranks all remedies that apply to an experiment, and then pairs of the best.

```text
replications of the experiment ─▶ every option on the worst of them, sized ─▶ the best with all replications and a
surge of load ─▶ ranked ─▶ the best with each of the next as a pair, if the best leaves something
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum, sqrt
from typing import Any

from tailrace.advise import loads
from tailrace.advise.advice import Effect, Ranked, Surge
from tailrace.advise.changing import possible
from tailrace.advise.outcomes import Outcome
from tailrace.advise.prediction import of_part, predict
from tailrace.advise.remedies import EFFORTS, REMEDIES, Changes
from tailrace.advise.remedies.alike import joined
from tailrace.advise.sizing import PROMISING, REMOVED, Sized
from tailrace.advise.trials import Trials, replicated
from tailrace.experiment import Experiment
from tailrace.study.intervals import above, anscombe

FINALISTS = 10
"""Options that get all replications; a reader compares no more."""
SHOWING, MORE = 5, 3
"""Replications with a harmed request that a comparison needs, and how many times the asked replications are made to
find them. Five differences of one sign are the fewest that a sign test calls certain (p = 1/32)."""
HOPELESS = 3
"""Where no option promises anything, so many are compared to show it."""
PAIRS = 4
"""Options that are paired with the best."""
GAIN = 0.01
"""A pair is shown only if it removes so much more than the best alone: two changes are more work than one."""
NOISE = 3
"""Standard deviations of a Poisson count: what two runs may differ by."""
SLOWER = 1.1
"""Two p99.9 of one run each differ by more than noise beyond this factor."""
ORDER = [remedy.name for remedy in REMEDIES]
_effort = list(EFFORTS).index


def present(experiment: Experiment, replications: int, trials: Trials) -> Effect:
    """The experiment as it is. Where fewer than `SHOWING` replications have a harmed request and at least one has, more
    are made, because the others show nothing of what a change removes."""
    found: list[Outcome] = []
    while len(found) < replications * MORE:
        made = trials.replications(experiment, range(len(found), len(found) + replications))
        found += made
        showing = sum(bool(one.harmed) for one in found)
        if len(made) < replications or showing >= SHOWING or not showing:
            break
    return effect(found, trials.spread)


def effect(found: Sequence[Outcome], spread: float) -> Effect:
    weight = found[0].weight
    episodes = [fsum(counts) / len(found) for counts in zip(*(one.episodes for one in found), strict=True)]
    vlrt, failed = [one.vlrt / weight for one in found], [one.failed / weight for one in found]
    return Effect(
        of_part(vlrt, weight, episodes, spread) if episodes else predict(vlrt, spread),
        of_part(failed, weight, (), spread) if episodes else predict(failed, spread),
        tuple(outcome.harmed for outcome in found),
        fsum(outcome.requests for outcome in found) / len(found),
        found[0],
    )


def finals(base: Effect, found: Sequence[Sized], replications: int, trials: Trials) -> list[Ranked]:
    """The best option of each remedy, and the best of the others, with all replications and ranked."""
    in_order = sorted(found, key=lambda one: (one.harmed, _effort(one.remedy.effort)))
    promising = [one for one in in_order if one.harmed <= PROMISING * max(base.harmed)]
    in_order = promising or in_order[:HOPELESS]
    first = {one.remedy.name: one for one in reversed(in_order)}
    best = sorted(in_order, key=lambda one: one is not first[one.remedy.name])[:FINALISTS]
    judged = [(sized.words, _single(base, sized, replications, trials)) for sized in best]
    trials.leave("simulate all replications of {}", [words for words, one in judged if _unfinished(one, replications)])
    return ranked([one for _, one in judged if one])


def _unfinished(one: Ranked | None, replications: int) -> bool:
    return one is None or len(one.effect.harmed) < replications or one.surge is None


def _single(base: Effect, found: Sized, replications: int, trials: Trials) -> Ranked | None:
    changes = found.option.changes(found.size)
    smallest = "" if found.size == found.smallest else found.option.words(found.smallest)
    return _judged(base, (found,), changes, found.experiment, smallest, replications, trials)


def pairs(
    base: Effect,
    experiment: Experiment,
    singles: Sequence[Ranked],
    found: Sequence[Sized],
    replications: int,
    trials: Trials,
) -> list[Ranked]:
    """The best single remedy together with each of the next, if it leaves more than a sufficient remedy would."""
    if not singles or singles[0].removes >= REMOVED:
        return []
    by_words = {one.words: one for one in found}
    best, *others = [by_words[one.words] for one in singles if one.words in by_words]
    made, left = [], []
    for other in others[:PAIRS]:
        changes = joined(best.option.changes(best.size), other.option.changes(other.size))
        both = None if changes is None else possible(experiment, changes)
        if changes is None or both is None:
            continue
        one = _judged(base, (best, other), changes, both, "", replications, trials)
        if _unfinished(one, replications):
            left.append(f"{best.words} and {other.words}")
        if one is not None and one.removes > singles[0].removes + GAIN:
            made.append(one)
    trials.leave("try {} as pairs", left)
    return made


def _judged(
    base: Effect,
    parts: tuple[Sized, ...],
    changes: Changes,
    experiment: Experiment,
    smallest: str,
    replications: int,
    trials: Trials,
) -> Ranked | None:
    found = _measured(base, experiment, replications, trials)
    if found is None:
        return None
    return Ranked(
        remedies=tuple(part.remedy.name for part in parts),
        places=tuple(part.option.place for part in parts),
        words=" and ".join(part.words for part in parts),
        changes=changes,
        smallest=smallest,
        effort=max((part.remedy.effort for part in parts), key=_effort),
        hurts=tuple(dict.fromkeys(part.remedy.hurts for part in parts)),
        sources=tuple(dict.fromkeys(part.remedy.source for part in parts)),
        experiment=experiment,
        **found,
    )


def on_all(base: Effect, one: Ranked, replications: int, trials: Trials) -> Ranked | None:
    """A change that was tried on a part of the episodes, simulated with all of them; None if there is no time."""
    experiment = trials.sample.whole(one.experiment)
    found = _measured(base, experiment, replications, trials)
    return None if found is None else replace(one, caution="", experiment=experiment, **found)


def _measured(base: Effect, experiment: Experiment, replications: int, trials: Trials) -> dict[str, Any] | None:
    """What the replications of a change show beside those without it."""
    runs = [replicated(experiment, number) for number in range(replications)]
    # together, so that no core waits for the last replication
    *replies, surged = trials.outcomes([*runs, loads.surged(experiment, trials.folder)])
    found = [one for one in replies if one is not None]
    if not found:
        return None
    after = effect(found, trials.spread)
    shared = min(len(base.harmed), len(after.harmed))
    before, left = base.harmed[:shared], after.harmed_of(base.requests)[:shared]
    return {
        "effect": after,
        "better": above(list(map(anscombe, before)), list(map(anscombe, left))) if shared > 1 else None,
        "removes": 1 - fsum(left) / fsum(before) if any(before) else 0.0,
        "throughput": after.requests / base.requests if base.requests else 1.0,
        "bottleneck": _bottleneck(base, after),
        "surge": None if surged is None else _surge(after, surged),
    }


def _bottleneck(base: Effect, after: Effect) -> str:
    new = {tier: lost for tier, lost in after.first.drops.items() if lost and not base.first.drops.get(tier)}
    return max(new, key=lambda tier: new[tier], default="")


def _surge(quiet: Effect, surged: Outcome) -> Surge:
    """More load for a third of the run. It recovers if the last sixth has no more VLRT than without the surge, within
    three standard deviations of a Poisson count, of which each request counts `weight` times."""
    last, weight = quiet.first.parts[-1], quiet.first.weight
    return Surge(surged.vlrt, surged.parts[-1] <= last + NOISE * sqrt(weight * (last + weight)))


def ranked(found: Sequence[Ranked]) -> list[Ranked]:
    """Those that remove nearly everything come first, the least effort first; then the others, by what they leave.
    Changes whose effect depends on what the recording does not show come behind the others. Between equals, those come
    first that recover from the surge, leave less in it, and have the lower p99.9, as far as more than noise differs;
    then those that cost less, which `REMEDIES` lists first."""
    enough = [one for one in found if _enough(one)]
    fewest = min((one.surge.vlrt for one in enough if one.surge), default=0)
    fastest = min((one.effect.first.p999_ns for one in enough), default=0.0)

    def order(one: Ranked) -> tuple[float, ...]:
        stays = one.surge is not None and not one.surge.recovers
        left = one.surge.vlrt if one.surge else 0
        return (
            not _enough(one),
            bool(one.caution),
            0 if _enough(one) else -one.removes,
            _effort(one.effort),
            stays,
            left if left > fewest + NOISE * sqrt(fewest + 1) else 0,
            one.effect.first.p999_ns > SLOWER * fastest,
            _place(one),
        )

    return sorted(found, key=order)


def _enough(one: Ranked) -> bool:
    return one.removes >= REMOVED and one.helps


def _place(one: Ranked) -> int:
    """In the list of all remedies."""
    return max(ORDER.index(name) for name in one.remedies)
