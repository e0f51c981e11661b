"""Decides whether a run stays within limits, for a pipeline that must not let a new tail through.

A limit that the recording cannot settle counts as not kept: missing data never let a change pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tailrace.report.stored import Chain, Stored
from tailrace.units import format_duration, format_share

Verdict = Literal["passed", "failed", "unknown"]


@dataclass(frozen=True)
class Limits:
    """What a run may have; None: no limit."""

    requests_min: int = 1
    """With fewer requests, a run shows nothing."""
    vlrt_max: float | None = None
    """Share of the requests that may be VLRT."""
    response_max_ns: int | None = None
    unanswered_max: int | None = None
    no_drops: bool = False
    baseline: Stored | None = None
    """The run may have no chain that this diagnosis does not have."""


@dataclass(frozen=True)
class Check:
    name: str
    verdict: Verdict
    sentence: str


def judge(found: Stored, limits: Limits) -> tuple[Check, ...]:
    """One check for each limit that was set, in the order in which they are documented."""
    return tuple(_checks(found, limits))


def passed(checks: tuple[Check, ...]) -> bool:
    return all(check.verdict == "passed" for check in checks)


def _checks(found: Stored, limits: Limits) -> Iterator[Check]:
    yield _requests(found, limits.requests_min)
    if limits.vlrt_max is not None:
        yield _vlrt(found, limits.vlrt_max)
    if limits.response_max_ns is not None:
        yield _response(found, limits.response_max_ns)
    if limits.unanswered_max is not None:
        yield _unanswered(found, limits.unanswered_max)
    if limits.no_drops:
        yield _drops(found)
    if limits.baseline is not None:
        yield _new_tail(found, limits.baseline)


def _check(name: str, kept: bool, sentence: str) -> Check:
    return Check(name, "passed" if kept else "failed", sentence)


def _requests(found: Stored, least: int) -> Check:
    return _check("requests", found.requests >= least, f"{found.requests:,} requests finished; {least:,} are required.")


def _vlrt(found: Stored, most: float) -> Check:
    if not found.requests:
        return Check("vlrt", "unknown", "No request finished, so the share of very long ones is not known.")
    share = found.vlrt / found.requests
    slow = f"{found.vlrt:,} of {found.requests:,} requests ({format_share(share)})"
    long = f"took {format_duration(found.threshold_ns)} or longer"
    return _check("vlrt", share <= most, f"{slow} {long}; {format_share(most)} may.")


def _response(found: Stored, most_ns: int) -> Check:
    """The histogram gives bounds of the longest response time, not the time itself."""
    longest = max(found.histogram, key=lambda each: each.lower_ns, default=None)
    allowed = f"{format_duration(most_ns)} is allowed"
    if longest is None:
        return Check("response", "unknown", f"No response time is known; {allowed}.")
    lower, upper = format_duration(longest.lower_ns), format_duration(longest.upper_ns)
    between = f"The longest response took between {lower} and {upper}; {allowed}."
    if longest.lower_ns <= most_ns < longest.upper_ns - 1:
        return Check("response", "unknown", f"{between} The histogram is too coarse to decide.")
    return _check("response", longest.lower_ns <= most_ns, between)


def _unanswered(found: Stored, most: int) -> Check:
    number = sum(each.requests for each in found.unanswered)
    named = "".join(f"; {each.requests:,} {each.how} at {each.server}" for each in found.unanswered)
    return _check("unanswered", number <= most, f"{number:,} requests got no answer, {most:,} may{named}.")


def _drops(found: Stored) -> Check:
    """Lost packets of requests that became VLRT, and connections that were refused."""
    findings = [step for episode in found.episodes for step in episode.findings if step.step == "drops"]
    lost = [step.sentence for step in findings if step.verdict == "found"]
    lost += [f"{no.server} refused {no.requests:,} requests." for no in found.unanswered if no.how == "refused"]
    if lost:
        return Check("drops", "failed", " ".join(lost))
    open_ = [step for step in findings if step.verdict == "unknown"]
    if open_ or len(findings) < len(found.episodes):
        settle = next((f" Would settle it: {step.missing}." for step in open_ if step.missing), "")
        return Check("drops", "unknown", f"Whether packets were lost is not known.{settle}")
    return Check("drops", "passed", "No lost packet made a request very long, and no connection was refused.")


def _new_tail(found: Stored, baseline: Stored) -> Check:
    new = [chain for chain in found.summary if not any(_alike(chain, before) for before in baseline.summary)]
    if not new:
        return Check("new-tail", "passed", "Each chain of very long requests is also in the baseline.")
    told = "; ".join(f"{chain.vlrt:,} from {chain.cause} at {chain.origin or 'an unknown place'}" for chain in new)
    return Check("new-tail", "failed", f"The baseline has no such very long requests: {told}.")


def _alike(one: Chain, other: Chain) -> bool:
    return (one.origin, one.cause) == (other.origin, other.cause)
