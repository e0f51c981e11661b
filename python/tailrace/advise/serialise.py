"""Advice as JSON: docs/reference/advice-json.md has every key."""

from __future__ import annotations

import json
from typing import Any

from tailrace.advise.advice import Advice, Effect, Ranked
from tailrace.advise.answer import sentences, without_lines
from tailrace.advise.changing import key
from tailrace.advise.outcomes import EDGES
from tailrace.advise.prediction import Prediction
from tailrace.advise.queues import Knee

VERSION = 1
Json = dict[str, Any]


def to_json(advice: Advice) -> Json:
    room = advice.headroom
    return {
        "version": VERSION,
        "name": advice.name,
        "answer": sentences(advice),
        "complete": advice.complete,
        "replications": advice.replications,
        "now": _effect(advice.base),
        "ranked": [_ranked(advice, one) for one in advice.ranked],
        "others": [{"change": what, "harmed": left, "harmed_now": advice.screened} for what, left in advice.useless],
        "undone": [{"work": one.work.format("these"), "changes": list(one.changes)} for one in advice.undone],
        "headroom": None if room is None else {"factor": room.factor, "tried": room.tried, "drops": room.drops or None},
        "edges_ns": EDGES,
        "notes": list(advice.notes),
        "twin": [vars(row) for row in advice.compared],
        "queues": [vars(line) for line in advice.queues.lines] if advice.queues else [],
        "knee": _knee(advice.queues.knee) if advice.queues and advice.queues.knee else None,
    }


def text(advice: Advice) -> str:
    return json.dumps(to_json(advice), indent=2) + "\n"


def _ranked(advice: Advice, one: Ranked) -> Json:
    return {
        "remedies": list(one.remedies),
        "places": list(one.places),
        "change": one.words,
        "smallest": one.smallest or None,
        "keys": {key(path): value for path, value in one.changes.items()},
        "lines": [vars(line) for line in advice.lines(one)],
        "without_lines": without_lines(advice, one),
        "effort": one.effort,
        "hurts": list(one.hurts),
        "sources": list(one.sources),
        "better": one.better,
        "helps": one.helps,
        "removes": one.removes,
        "throughput": one.throughput,
        "caution": one.caution or None,
        "of_part": one.of_part,
        "bottleneck": one.bottleneck or None,
        "surge": None if one.surge is None else {"vlrt": one.surge.vlrt, "recovers": one.surge.recovers},
        **_effect(one.effect),
    }


def _knee(knee: Knee) -> Json:
    return {
        "tier": knee.tier,
        "at": knee.at,
        "points": [{"inside": inside, "rate": rate} for inside, rate in knee.points],
    }


def _effect(effect: Effect) -> Json:
    return {
        "vlrt": _prediction(effect.vlrt),
        "failed": _prediction(effect.failed),
        "requests": effect.requests,
        "median_ns": effect.first.median_ns,
        "p999_ns": effect.first.p999_ns,
        "drops": effect.first.drops,
        "histogram": effect.first.histogram,
    }


def _prediction(count: Prediction) -> Json:
    return {"mean": count.mean, "low": count.low, "high": count.high, "replications": list(count.replications)}
