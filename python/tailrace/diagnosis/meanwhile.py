"""This module reports what else went wrong while an episode lasted: a server that was stopped or had no process, calls
that failed or that no server answered, and connection attempts that a kernel repeated and no capture shows. Where the
cause is unknown, they show where to look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

import numpy as np
import polars as pl

from tailrace.diagnosis.because import figure
from tailrace.diagnosis.constants import LONG_NS, LOOKBACK_NS, MOSTLY, SEVERAL, SIGMAS
from tailrace.diagnosis.finding import Episode, Finding, Number
from tailrace.diagnosis.in_vain import REFUSED, UNACKNOWLEDGED, UNANSWERED
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import count, duration

Span = tuple[int, int]
Numbers = dict[str, Number]
OUT = {
    "stopped": ("tasks_stopped", "was stopped by a signal, a debugger or a frozen control group"),
    "gone": ("processes", "had no process"),
}
"""For each thing that may be wrong with a place, this is the metric that shows it, and how it is said."""
IN_VAIN = {REFUSED: ("was refused", "were refused"), UNANSWERED: ("had no answer", "had no answer")}
"""This is how attempts of servers to connect to another one failed, and how it is said of one and of several."""


def told(view: View, episode: Episode, finding: Finding) -> Finding:
    """Return the finding of an unknown cause with what else went wrong."""
    span = episode.begin - LOOKBACK_NS, episode.end + int(figure(episode, 0, "response_ns_max"))
    numbers = _out(view, span) | _failed(view, span) | _in_vain(view, span) | _repeated(view, span)
    if not numbers:
        return finding
    said = f"{finding.sentence} {sentences(numbers)}"
    return replace(finding, sentence=said, numbers={**finding.numbers, **numbers})


def sentences(numbers: Mapping[str, Number]) -> str:
    """Return these numbers in words, or nothing if there are none."""
    said = []
    for key, (_, how) in OUT.items():
        if key in numbers:
            said.append(f"Meanwhile, {numbers[key]} {how} for {duration(int(numbers[f'{key}_ns'] or 0))}.")
    if "calls_failed" in numbers:
        status = numbers.get("calls_failed_status")
        how = f" with the status {status}" if status else ""
        said.append(f"Meanwhile, {_many(numbers, 'calls_failed', 'call')} to {numbers['calls_failed_at']} failed{how}.")
    for kind, (one, several) in IN_VAIN.items():
        if kind in numbers:
            attempts, failed = _many(numbers, kind, "attempt"), one if numbers[kind] == 1 else several
            said.append(f"Meanwhile, {attempts} to connect to {numbers[f'{kind}_to']} {failed}.")
    if UNACKNOWLEDGED in numbers:
        times, lasted = _many(numbers, UNACKNOWLEDGED, "time"), duration(int(numbers[f"{UNACKNOWLEDGED}_ns"] or 0))
        said.append(
            f"Meanwhile, {times}, {numbers[f'{UNACKNOWLEDGED}_to']} did not acknowledge what it was sent, for up to "
            f"{lasted}: packets were lost on the way, or its host stood still."
        )
    if "attempts_repeated" in numbers:
        attempts = _many(numbers, "attempts_repeated", "connection attempt")
        said.append(f"The kernel of {numbers['attempts_repeated_by']} repeated {attempts} that no capture shows.")
    return " ".join(said)


def _many(numbers: Mapping[str, Number], key: str, noun: str) -> str:
    return count(int(numbers[key] or 0), noun)


def _out(view: View, span: Span) -> Numbers:
    """Return the place whose threads were stopped for longest, and the one that had no process for longest, if that is
    long. It may be a place that no request is known to call."""
    found: Numbers = {}
    for key, (metric, _) in OUT.items():
        lasted: list[tuple[int, str]] = []
        for series in view.everywhere(metric):
            is_out = (series.value == 0) if key == "gone" else (series.value >= 1)
            here = is_out & series.within(*span)
            # What has always been so is how this place is.
            if is_out.mean() <= MOSTLY and here.sum() * series.interval_ns >= LONG_NS:
                server = view.topology.place_to_server(series.place)
                lasted.append((int(here.sum()) * series.interval_ns, server.name if server else series.place))
        if lasted:
            found |= dict(zip((f"{key}_ns", key), max(lasted), strict=True))
    return found


def _failed(view: View, span: Span) -> Numbers:
    """Return how many calls failed at the server at which most did beyond the usual number, and the status that most of
    them had, if most had the same."""
    failed = view.failed_calls
    first, last = np.searchsorted(failed["departure"].to_numpy(), span).tolist()
    here = failed[first:last]
    every, mine = (dict(rows["server"].value_counts().iter_rows()) for rows in (failed, here))
    more = [(number, server) for server, number in mine.items() if _is_more(view, span, number, every[server] - number)]
    if not more:
        return {}
    number, server = max(more)
    found: Numbers = {"calls_failed": number, "calls_failed_at": server}
    of_status = here.filter(pl.col("server") == server)["status"].value_counts()
    status, its = max(of_status.iter_rows(), key=lambda row: (row[1], row[0]))
    return found | ({"calls_failed_status": status} if its > MOSTLY * number else {})


def _in_vain(view: View, span: Span) -> Numbers:
    """Return how many attempts to connect to a server failed, and how many times it did not acknowledge what it was
    sent, each for the server with the most beyond the usual number."""
    found: Numbers = {}
    for kind in (*IN_VAIN, UNACKNOWLEDGED):
        best = 0
        for place, times in view.events_of(kind):
            here = times[(times[:, 0] < span[1]) & (times[:, 1] >= span[0])]
            if len(here) > best and _is_more(view, span, len(here), len(times) - len(here)):
                best = len(here)
                longest = {f"{kind}_ns": int((here[:, 1] - here[:, 0]).max())} if kind == UNACKNOWLEDGED else {}
                found |= {kind: best, f"{kind}_to": place, **longest}
    return found


def _repeated(view: View, span: Span) -> Numbers:
    """Return how many connection attempts a kernel repeated, beyond those that the capture shows. A packet that a
    firewall of its own host drops reaches no capture."""
    if view.requests["connected"].null_count() == len(view.requests):
        return {}  # No input saw packets.
    visited = view.lossy["request"].drop_nulls()
    others = view.requests.filter(pl.col("sent").is_between(*span), ~pl.col("request").is_in(visited.implode()))
    seen = sum(int(rows["drops"].cast(pl.Int64).sum()) for rows in (view.lost_between(*span), others))
    found: list[tuple[int, str]] = []
    for series in view.everywhere("syn_retransmits"):
        here = series.within(*span)
        number = round(float(series.value[here].sum())) - seen
        if _is_more(view, span, number, float(series.value[~here].sum())):
            found.append((number, series.place))
    return dict(zip(("attempts_repeated", "attempts_repeated_by"), max(found), strict=True)) if found else {}


def _is_more(view: View, span: Span, number: int, others: float) -> bool:
    """Return whether more occurred in this time than chance makes of the rate in the rest of the recording."""
    lasts = span[1] - span[0]
    usual = others * lasts / max(view.end - view.begin - lasts, lasts)
    return number >= SEVERAL and number > usual + SIGMAS * sqrt(usual)
