"""This module counts calls that failed while an episode lasted. Where its cause is unknown, they show where to look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

import polars as pl

from tailrace.diagnosis.constants import LOOKBACK_NS, SEVERAL, SIGMAS
from tailrace.diagnosis.finding import Episode, Finding, Number
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import count


def told(view: View, episode: Episode, finding: Finding) -> Finding:
    """Return the finding of an unknown cause with these calls."""
    longest = int(episode.findings[0].numbers["response_ns_max"] or 0)
    numbers = _numbers(view, episode.begin - LOOKBACK_NS, episode.end + longest)
    if not numbers:
        return finding
    return replace(finding, sentence=f"{finding.sentence} {sentence(numbers)}", numbers={**finding.numbers, **numbers})


def _numbers(view: View, begin: int, end: int) -> dict[str, Number]:
    """Return how many calls failed at the server at which most did, and the status of most of them. The dictionary is
    empty if chance makes as many of the usual rate."""
    here = pl.col("departure").is_between(begin, end)
    failed, others = view.failed_calls.filter(here), view.failed_calls.filter(~here)
    if failed.is_empty():
        return {}
    first, last = (int(str(moment)) for moment in (view.requests["sent"].min(), view.requests["end"].max()))
    rest = max(last - first - (end - begin), end - begin)
    server, number = failed["server"].value_counts(sort=True).row(0)
    usual = int((others["server"] == server).sum()) * (end - begin) / rest
    if number < SEVERAL or number <= usual + SIGMAS * sqrt(usual):
        return {}
    its = failed.filter(pl.col("server") == server)["status"].value_counts(sort=True)
    return {"calls_failed": number, "calls_failed_at": server, "calls_failed_status": its["status"][0]}


def sentence(numbers: Mapping[str, Number]) -> str:
    """Return these numbers in words, or nothing if there are none."""
    if "calls_failed" not in numbers:
        return ""
    failed = count(int(numbers["calls_failed"] or 0), "call")
    most = f"most of them with the status {numbers['calls_failed_status']}"
    return f"Meanwhile, {failed} to {numbers['calls_failed_at']} failed, {most}."
