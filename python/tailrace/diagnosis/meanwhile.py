"""This module reports what else went wrong while an episode lasted: calls that failed, and connection attempts that a
kernel repeated and no capture shows. Where the cause is unknown, they show where to look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

import polars as pl

from tailrace.diagnosis.constants import LOOKBACK_NS, SEVERAL, SIGMAS
from tailrace.diagnosis.finding import Episode, Finding, Number
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import count

Span = tuple[int, int]
Numbers = dict[str, Number]


def told(view: View, episode: Episode, finding: Finding) -> Finding:
    """Return the finding of an unknown cause with what else went wrong."""
    longest = int(episode.findings[0].numbers["response_ns_max"] or 0)
    span = episode.begin - LOOKBACK_NS, episode.end + longest
    numbers = _failed(view, span) | _repeated(view, span)
    if not numbers:
        return finding
    said = f"{finding.sentence} {sentence(numbers)}"
    return replace(finding, sentence=said, numbers={**finding.numbers, **numbers})


def sentence(numbers: Mapping[str, Number]) -> str:
    """Return these numbers in words, or nothing if there are none."""
    said = []
    if "calls_failed" in numbers:
        failed = count(int(numbers["calls_failed"] or 0), "call")
        most = f"most of them with the status {numbers['calls_failed_status']}"
        said.append(f"Meanwhile, {failed} to {numbers['calls_failed_at']} failed, {most}.")
    if "attempts_repeated" in numbers:
        attempts = count(int(numbers["attempts_repeated"] or 0), "connection attempt")
        kernel = f"the kernel of {numbers['attempts_repeated_by']}"
        said.append(f"Meanwhile, {kernel} repeated {attempts} that no capture shows.")
    return " ".join(said)


def _failed(view: View, span: Span) -> Numbers:
    """Return how many calls failed at the server at which most did, and the status of most of them."""
    here = pl.col("departure").is_between(*span)
    failed, others = view.failed_calls.filter(here), view.failed_calls.filter(~here)
    if failed.is_empty():
        return {}
    server, number = failed["server"].value_counts(sort=True).row(0)
    if not _is_more(view, span, number, int((others["server"] == server).sum())):
        return {}
    its = failed.filter(pl.col("server") == server)["status"].value_counts(sort=True)
    return {"calls_failed": number, "calls_failed_at": server, "calls_failed_status": its["status"][0]}


def _repeated(view: View, span: Span) -> Numbers:
    """Return how many connection attempts a kernel repeated, beyond those that the capture shows. A packet that a
    firewall of its own host drops reaches no capture."""
    never_accepted = view.requests.filter(pl.col("connected").is_null())
    seen = sum(
        int(rows.filter(pl.col("sent").is_between(*span))["drops"].cast(pl.Int64).sum())
        for rows in (view.lossy, never_accepted)
    )
    found: list[tuple[int, str]] = []
    for (place, metric), series in view.samples.items():
        if metric == "syn_retransmits":
            here = series.within(*span)
            number = round(float(series.value[here].sum())) - seen
            if _is_more(view, span, number, float(series.value[~here].sum())):
                found.append((number, place))
    return dict(zip(("attempts_repeated", "attempts_repeated_by"), max(found), strict=True)) if found else {}


def _is_more(view: View, span: Span, number: int, others: float) -> bool:
    """Return whether more occurred in this time than chance makes of the rate in the rest of the recording."""
    lasts = span[1] - span[0]
    first, last = (int(str(moment)) for moment in (view.requests["sent"].min(), view.requests["end"].max()))
    usual = others * lasts / max(last - first - lasts, lasts)
    return number >= SEVERAL and number > usual + SIGMAS * sqrt(usual)
