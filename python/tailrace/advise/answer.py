"""The advice in three sentences: what is, what to do, and what else a reader must know."""

from __future__ import annotations

from math import fsum

from tailrace.advise import software
from tailrace.advise.advice import Advice, Ranked, Surge
from tailrace.advise.prediction import Prediction
from tailrace.advise.sizing import REMOVED
from tailrace.diagnosis.finding import UNKNOWN
from tailrace.experiment import Experiment, places
from tailrace.report import words

SLOWER = 0.95
"""A reader must know of a throughput below this share."""
SHOWN = 3
"""Causes that a sentence names."""


def sentences(advice: Advice) -> list[str]:
    if not any(advice.base.harmed):
        return [_now(advice), _headroom(advice)]
    best = advice.best
    return [_now(advice), _do(advice, best), _mind(advice, best)]


def predicted(count: Prediction) -> str:
    """`22 (8 to 41)`: the mean, and the interval that holds 90 %."""
    mean = f"{count.mean:,.1f}" if count.mean < 10 and not count.mean.is_integer() else words.count(count.mean)
    if count.low is None or count.high is None:
        return mean
    return f"{mean} ({words.count(count.low)} to {words.count(count.high)})"


def surge_words(surge: Surge | None) -> str:
    """`31, stays`: VLRT in the run with the surge, and whether the system does not recover."""
    if surge is None:
        return ""
    return f"{words.count(surge.vlrt)}{'' if surge.recovers else ', stays'}"


def unnamed(advice: Advice) -> str:
    """How to get lines that the advice lacks, because it does not know the software of a tier; empty if it does."""
    if advice.best is None:
        return ""
    unknown = software.lacking(advice.experiment, advice.best.experiment, advice.software)
    if not unknown:
        return ""
    name = words.name(unknown)
    return f"What {name} runs is not known: --software {name}=nginx (or another) gives its own lines."


def without_lines(advice: Advice, one: Ranked) -> list[str]:
    """Which software has a setting for it, where that of the tier has none."""
    return software.nowhere(advice.experiment, one.experiment, advice.software)


def hints(advice: Advice) -> str:
    """What lines the best change lacks, and where they are to be had."""
    return "" if advice.best is None else " ".join((*without_lines(advice, advice.best), unnamed(advice))).strip()


def _now(advice: Advice) -> str:
    base = advice.base
    failed = f", and {predicted(base.failed)} get no answer" if base.failed.mean else ""
    where = "in the twin of the recording" if advice.compared else "now"
    return f"{predicted(base.vlrt)} of {words.count(base.requests)} requests take 1 s or more {where}{failed}."


def _do(advice: Advice, best: Ranked | None) -> str:
    if best is None and not advice.complete:
        return "The time budget ended before the changes could be compared; the same command again continues."
    if best is None:
        tried = len(advice.ranked) + len(advice.useless)
        return f"None of {words.plural(tried, 'change')} that were tried is better than nothing."
    failed = best.effect.failed
    refused = f", and {predicted(failed)} get no answer" if failed.mean else ""
    left = f"it is predicted to leave {predicted(best.effect.vlrt)}{refused}"
    if alone := _alone(advice, best):
        left += f"; both are needed, because {alone}"
    sure = "" if best.better else f"; {words.plural(len(best.effect.harmed), 'run')} are too few to be sure"
    return f"{best.words[:1].upper()}{best.words[1:]}: {left}{sure}."


def _alone(advice: Advice, best: Ranked) -> str:
    """What each change of a pair leaves without the other; empty if the best is no pair."""
    parts = [
        one for one in advice.ranked if len(one.remedies) == 1 and len(best.remedies) > 1 and one.words in best.words
    ]
    return " and ".join(f"to {one.words} alone leaves {words.count(one.effect.vlrt.mean)}" for one in parts)


def causes(experiment: Experiment) -> list[str]:
    """What takes capacity from servers in a twin, or stalls them in an experiment, each with its tier."""
    tier = {server.name: server.tier for server in places.servers(experiment)}
    found = [f"{one.cause} at {words.name(tier[one.place])}" for one in experiment.losses if one.cause != UNKNOWN]
    found += [f"{one.kind} at {words.name(one.place)}" for one in experiment.stalls]
    return list(dict.fromkeys(found))


def _mind(advice: Advice, best: Ranked | None) -> str:
    if best is None and not advice.complete:
        return "A larger `--budget` allows more time at once."
    if best is None:
        return "Look for what stalls the servers: `tailrace diagnose` names it."
    if best.caution:
        return best.caution
    if best.throughput < SLOWER:
        return f"The system then answers {words.share(1 - best.throughput)} fewer requests."
    if best.bottleneck:
        return f"After it, {words.name(best.bottleneck)} drops what came through."
    if best.surge and not best.surge.recovers:
        slow = words.count(best.surge.vlrt)
        return f"It does not recover from a third of the run with 20 % more load: {slow} take 1 s or more in that run."
    also = [one for one in advice.ranked[1:] if one.helps and one.removes >= REMOVED and one.remedies != best.remedies]
    if also:
        return f"It can also be done in another way: {also[0].words}."
    left = fsum(best.effect.harmed) / len(best.effect.harmed)
    if left < 1:
        return best.hurts[0]
    several = causes(advice.experiment)
    why = ""
    if len(several) > 1:
        shown = ", ".join(several[:SHOWN]) + (f" and {len(several) - SHOWN} more" if len(several) > SHOWN else "")
        why = f" {len(several)} causes take capacity: {shown}."
    return f"No change that was tried removes all.{why} {best.hurts[0]}"


def _headroom(advice: Advice) -> str:
    room = advice.headroom
    if room is None:
        return "How much more load it takes is not known: the time budget ended."
    if room.factor is None:
        return f"Even {room.tried:g} times this load makes none."
    drops = f"{words.name(room.drops)} drops connections, and requests" if room.drops else "requests"
    return f"At {room.factor:g} times this load {drops} become very long."
