"""Step 1: Tailrace finds the requests that took very long (VLRT requests), and when they were *sent*.

It also finds at which retransmission times their response times cluster. The moment of sending matters because
something was wrong then. The requests end a retransmission later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.constants import ALIKE, APART, FEW, HARDLY_ANY, MANY, NEARLY, QUICK, SEVERAL
from tailrace.diagnosis.finding import Finding, Mode
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.spans import Spans, complement, inside, length, spans, without
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import clock, count, duration, listing
from tailrace.units import MILLISECOND, SECOND

THRESHOLD_NS = round((1.0 - ALIKE) * SECOND)
"""This is 1 s, the shortest wait for a repeated SYN (RFC 6298), less 5 %. The 5 % have three reasons. Timers fire up to
a tick early (10 ms at HZ=100). Stamps are taken on either side of a queue. A mode must not be cut in half."""

SCHEDULES: dict[str, tuple[int, ...]] = {
    "SYN, linear then doubling (Linux 6.5 and later)": tuple(s * SECOND for s in (1, 2, 3, 4, 5, 7, 11)),
    "SYN, doubling from 1 s (RFC 6298)": tuple(s * SECOND for s in (1, 3, 7, 15)),
    "SYN, doubling from 3 s (RFC 2988)": tuple(s * SECOND for s in (3, 9, 21)),
    "first data, doubling from 0.2 s": tuple(s * 100 * MILLISECOND for s in (2, 4, 8, 16)),
}
"""They show when a sender's lost packet is repeated, measured from its first sending. This is a property of the
sender's kernel and of its settings. It is therefore inferred for every recording and never assumed."""

GAP_NS = 500 * MILLISECOND
"""VLRT requests that were sent further apart belong to two episodes. A millibottleneck is shorter (`lightning` 1: tens
to hundreds of milliseconds), and its drops come without such a pause."""
LONGEST_NS = 5 * SECOND
"""A request that is still unanswered after this time is no longer a sign that its servers are in trouble."""


@dataclass(frozen=True)
class Cluster:
    """A cluster holds VLRT requests that were sent close together."""

    begin: int
    end: int
    rows: NDArray[np.int64]
    """These are indices of rows of `Slow.requests`, in their order."""
    shortest_ns: int
    """This is the shortest of their response times."""
    place: str | None = None
    """This is the server that delayed most of them, where it is known (see `episodes`)."""

    @property
    def vlrt(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Slow:
    threshold_ns: int
    threshold_reason: str
    requests: pl.DataFrame
    """These are the VLRT requests, in the order of `sent`."""
    always: NDArray[np.bool_]
    """This says for each of them whether its interaction takes that long by itself."""
    clusters: tuple[Cluster, ...]
    calm: Spans
    """This is the time well away from every cluster. The usual values are measured here."""
    modes: tuple[Mode, ...]
    schedules: tuple[str, ...]
    """These retransmission schedules fit the recording equally well."""
    histogram: tuple[tuple[int, int, int], ...]
    normal_ns: int
    """This is the median response time."""
    _usual: dict[tuple[str, str], float] = field(default_factory=dict)

    def is_by_itself(self, cluster: Cluster) -> bool:
        """Return whether its requests are slow by themselves. Such requests have clusters of their own."""
        return bool(self.always[cluster.rows].all())

    @property
    def has_calm(self) -> bool:
        """Return whether some time is calm. Where none is, all time counts (see `calm`)."""
        begins = [one.begin for one in self.clusters if not self.is_by_itself(one)]
        return not bool((inside(self.calm, np.array(begins, dtype=np.int64)) >= 0).any())

    def answered(self, cluster: Cluster) -> int:
        """Return when the last of its requests ended."""
        return int(self.requests["end"].to_numpy()[cluster.rows].max())

    def usual(self, series: Series) -> float:
        """Return the mean of a metric in calm time."""
        key = series.place, series.metric
        if key not in self._usual:
            self._usual[key] = series.calm(self.calm)
        return self._usual[key]


def find(view: View, threshold_ns: int | None) -> Slow:
    response = view.requests["response_ns"].to_numpy()
    edges, counts = histogram(response)
    threshold, reason = (threshold_ns, "as asked") if threshold_ns is not None else _threshold(response)
    slow = view.requests.filter(pl.col("response_ns") >= threshold)
    always = _always_slow(view, slow, threshold)
    clusters = clusters_of(view, slow, np.flatnonzero(~always))
    by_themselves = clusters_of(view, slow, np.flatnonzero(always))
    modes = find_modes(edges, counts)
    waits = direct_waits(slow)
    # Where lost packets would have been recorded, a mode alone is no sign of them.
    unseen = () if waits or view.saw_connections else modes
    schedules = infer_schedules(waits, tuple(mode.centre_ns for mode in unseen if mode.centre_ns >= threshold))
    return Slow(
        threshold,
        reason,
        slow,
        always,
        tuple(sorted((*clusters, *by_themselves), key=lambda c: (c.begin, c.end))),
        _calm(view, slow, clusters),
        tuple(_at_schedule(mode, schedules, waits) for mode in modes),
        schedules,
        tuple((int(edges[i]), int(edges[i + 1]), int(counts[i])) for i in np.flatnonzero(counts).tolist()),
        int(np.percentile(response, 50, method="inverted_cdf")) if len(response) else 0,
    )


def findings(view: View, slow: Slow) -> tuple[Finding, ...]:
    """Return one finding per cluster."""
    return tuple(_finding(view, slow, cluster) for cluster in slow.clusters)


def _finding(view: View, slow: Slow, cluster: Cluster) -> Finding:
    rows = slow.requests["response_ns"].to_numpy()[cluster.rows]
    sent = int(np.count_nonzero((view.sent >= cluster.begin) & (view.sent <= cluster.end)))
    first, last = clock(view, cluster.begin), clock(view, cluster.end)
    low, middle, high = (int(value) for value in np.percentile(rows, (5, 50, 95), method="inverted_cdf"))
    took = values(rows.tolist())
    shown = [duration(ns) for ns in (low, high, int(rows.max()))]
    if len(rows) >= MANY and len(set(shown)) > 1:
        took = f"{shown[0]} to {shown[1]} (5th to 95th percentile), {shown[2]} at most"
    when = f"sent at {first}" if first == last else f"sent from {first} to {last}"
    many = f"{cluster.vlrt:,} of {count(sent, 'request')}" if sent > 1 else "The only request"
    usual = f"; the usual response takes {duration(slow.normal_ns)}" if slow.normal_ns < slow.threshold_ns else ""
    sentence = f"{many} {when} took {took}{usual}."
    numbers = {
        "vlrt": cluster.vlrt,
        "requests_sent": sent,
        "vlrt_share": cluster.vlrt / max(sent, 1),
        "response_ns_min": int(rows.min()),
        "response_ns_p5": low,
        "response_ns_p50": middle,
        "response_ns_p95": high,
        "response_ns_max": int(rows.max()),
        "response_ns_usual": slow.normal_ns,
    }
    return Finding("vlrt", "found", sentence, begin=cluster.begin, end=cluster.end, numbers=numbers)


def values(durations: Sequence[int]) -> str:
    """List all durations, and equal ones only once: "1.01 s (3 times), 1.02 s and 39.1 s"."""
    told = Counter(duration(value) for value in sorted(durations))
    if len(told) == 1 < len(durations):
        return f"{next(iter(told))} each"
    return listing([text if times == 1 else f"{text} ({times} times)" for text, times in told.items()])


def _threshold(response: NDArray[np.int64]) -> tuple[int, str]:
    """Return 1 s (less 5 %), or a threshold in a gap between two modes if 1 s would cut a mode and the gap is near. A
    threshold beyond 1 s leaves out requests, so it is chosen only if 1 s is a usual response time."""
    usual = "1 s, the shortest wait for a repeated connection attempt, less 5 %"
    ordered = np.sort(response)
    slow = len(ordered) - int(np.searchsorted(ordered, THRESHOLD_NS))
    if slow == 0:
        return THRESHOLD_NS, f"{usual}; no request reached it"
    near = ordered[(ordered >= THRESHOLD_NS // 2) & (ordered <= THRESHOLD_NS * 4)]
    before = ordered[ordered < THRESHOLD_NS // 2]
    steps = np.concatenate((before[-1:], near))
    ratio = steps[1:] / np.maximum(steps[:-1], 1)
    # A gap is empty over a factor of `APART`. A fifth of the slow requests lie beyond it, because a single
    # outlier is no mode.
    wide = np.flatnonzero(ratio >= APART)
    gaps = [(int(steps[i]), int(steps[i + 1])) for i in wide[np.argsort(-ratio[wide])].tolist()]
    for low, high in gaps:
        if low < THRESHOLD_NS <= high:
            return THRESHOLD_NS, f"{usual}; it lies in the gap between the modes, {duration(low)} to {duration(high)}"
    highest = np.inf if QUICK * float(np.median(ordered)) > THRESHOLD_NS else THRESHOLD_NS
    for low, high in (gap for gap in gaps if gap[1] <= highest):
        beyond = len(ordered) - int(np.searchsorted(ordered, high))
        if beyond >= max(5, slow // 5) and low > THRESHOLD_NS // 2:
            middle = int((low * high) ** 0.5)
            return middle, f"the gap between the modes, {duration(low)} to {duration(high)}"
    return THRESHOLD_NS, f"{usual}; there is no gap between modes near it"


def _always_slow(view: View, slow: pl.DataFrame, threshold: int) -> NDArray[np.bool_]:
    known = view.requests.filter(pl.col("interaction").is_not_null())
    shares = known.group_by("interaction").agg(
        (pl.col("response_ns") >= threshold).mean().alias("slow"), requests=pl.len()
    )
    always = shares.filter(pl.col("slow") >= NEARLY, pl.col("requests") >= FEW)
    if len(always) == len(shares):  # Everything in this system is slow.
        return np.zeros(len(slow), dtype=bool)
    return slow["interaction"].is_in(always["interaction"].implode()).fill_null(value=False).to_numpy()


def clusters_of(view: View, slow: pl.DataFrame, rows: NDArray[np.int64]) -> tuple[Cluster, ...]:
    """Group these rows, in their order, into clusters that were sent close together."""
    sent = slow["sent"].to_numpy()[rows]
    if len(sent) == 0:
        return ()
    breaks = np.flatnonzero(np.diff(sent) > GAP_NS).tolist()
    found: list[Cluster] = []
    returns = _returns(view) if breaks else np.empty((0, 2), dtype=np.int64)
    for a, b in zip([0, *(i + 1 for i in breaks)], [*breaks, len(sent) - 1], strict=True):
        later = cluster_of(slow, rows[a : b + 1])
        if found and _is_echo(returns, found[-1], later):
            later = cluster_of(slow, np.concatenate((found.pop().rows, later.rows)))
        found.append(later)
    return tuple(found)


def cluster_of(slow: pl.DataFrame, rows: NDArray[np.int64]) -> Cluster:
    sent, response = slow["sent"].to_numpy()[rows], slow["response_ns"].to_numpy()[rows]
    return Cluster(int(sent[0]), int(sent[-1]), rows, int(response.min()))


def _returns(view: View) -> NDArray[np.int64]:
    """Return, for each attempt that was lost and accepted later, when it was first sent and when it was accepted."""
    lost = view.requests.filter(pl.col("drops") > 0).select("sent", pl.col("connected").fill_null(pl.col("end")))
    deeper = view.lossy.filter(pl.col("drops") > 0).select("sent", "arrival")
    return np.concatenate((lost.to_numpy(), deeper.to_numpy())).astype(np.int64).reshape(-1, 2)


def _is_echo(returns: NDArray[np.int64], first: Cluster, later: Cluster) -> bool:
    """Return whether the later cluster is an echo of the first one. The packets that the first one lost come back
    together, a retransmission time later, and overflow the same queue once more. At least as many of them came back
    around the later cluster as it has requests."""
    sent, accepted = returns[:, 0], returns[:, 1]
    of_first = (sent >= first.begin - GAP_NS) & (sent <= first.end + GAP_NS)
    back = of_first & (accepted >= later.begin - GAP_NS) & (accepted <= later.end + GAP_NS)
    return int(back.sum()) >= max(later.vlrt, SEVERAL)


def _calm(view: View, slow: pl.DataFrame, clusters: tuple[Cluster, ...]) -> Spans:
    """Return all time except the life of each cluster, with a margin of 2 s before and after it. The margin covers the
    stall before its requests were sent and the backlog after the last of them was answered. The margin is shorter where
    2 s would leave less than a tenth of the recording. If less than a tenth is left even so, a second of
    it suffices, such as the time before an overload that lasts until the end. Without that second, all time counts."""
    # The load after the last request was sent is not usual: the servers only answer what they already have.
    until = int(view.sent[-1]) if len(view.sent) else view.end
    whole = complement(view.idle, view.begin, until)
    ends = slow["end"].to_numpy()
    lives = [(c.begin, min(int(ends[c.rows].max()), c.end + LONGEST_NS)) for c in clusters]
    for margin in (2 * SECOND, SECOND, GAP_NS, GAP_NS // 5):
        calm = without(whole, spans([(a - margin, b + margin) for a, b in lives]))
        if length(calm) >= HARDLY_ANY * length(whole):
            return calm
    return calm if length(calm) >= SECOND else whole


def histogram(response: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count response times in log-linear bins: every octave from 2^16 ns (66 µs) on has 16 equal bins. Faster requests
    share the first bin."""
    octaves = np.arange(16, 42)
    edges = np.concatenate(([0], (2.0 ** octaves[:, None] * (1 + np.arange(16) / 16)).ravel())).astype(np.int64)
    counts = np.bincount(
        np.clip(np.searchsorted(edges, response, side="right") - 1, 0, len(edges) - 2), minlength=len(edges) - 1
    )
    return edges, counts.astype(np.int64)


def find_modes(edges: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[Mode, ...]:
    """Find clusters of response times, which are peaks of the smoothed histogram. The valley between two peaks must be
    under a third of the lower peak. A peak must have at least 5 requests and 0.01 % of all requests around it."""
    smooth = np.convolve(counts, (0.25, 0.5, 0.25), mode="same")
    inner = np.concatenate(([0.0], smooth, [0.0]))
    peaks = np.flatnonzero((inner[1:-1] > inner[:-2]) & (inner[1:-1] >= inner[2:])).tolist()
    valleys = [a + int(np.argmin(smooth[a : b + 1])) for a, b in pairwise(peaks)]
    i = 0
    while i < len(valleys):
        left, right = smooth[peaks[i]], smooth[peaks[i + 1]]
        if smooth[valleys[i]] * 3 < min(left, right):
            i += 1
        else:  # Both peaks are one mode: the lower peak is removed, with the valley between them.
            del peaks[i if left < right else i + 1], valleys[i]
            i = max(i - 1, 0)
    bounds = [0, *valleys, len(counts)] if peaks else []
    least = max(5, int(counts.sum()) // 10_000)
    sizes = [int(counts[a:b].sum()) for a, b in pairwise(bounds)]
    return tuple(
        Mode(int(edges[peak] + edges[peak + 1]) // 2, size, None, None)
        for peak, size in zip(peaks, sizes, strict=True)
        if size >= least
    )


def direct_waits(slow: pl.DataFrame) -> dict[int, int]:
    """Map the number of lost connection attempts to the median time until the accepted attempt. Only requests that
    show both are used."""
    rows = (
        slow.filter((pl.col("drops") > 0) & pl.col("connected").is_not_null())
        .group_by("drops")
        .agg(((pl.col("connected") - pl.col("sent")).median()).alias("wait"), pl.len())
        .filter(pl.col("len") >= SEVERAL)
    )
    return {int(drops): int(wait) for drops, wait, _ in rows.iter_rows()}


def infer_schedules(waits: dict[int, int], modes: tuple[int, ...]) -> tuple[str, ...]:
    """Return the schedules that fit the recorded waits best. There are several where the recording does not distinguish
    them. Without waits, return the schedules whose times match most of the slow modes. At least one mode must match the
    first time of such a schedule."""
    scores = {}
    for name, times in SCHEDULES.items():
        if waits:
            known = [(times[n - 1], wait) for n, wait in waits.items() if n <= len(times)]
            scores[name] = sum(near(wait, time) for time, wait in known) - len(waits) / 2
        else:
            begins = any(near(mode, times[0]) for mode in modes)
            scores[name] = begins * sum(any(near(mode, time) for time in times) for mode in modes) - len(modes) / 2
    best = max(scores.values())
    return tuple(name for name, score in scores.items() if score == best > 0) if waits or modes else ()


def near(response: NDArray[np.int64] | int, retransmission: int) -> NDArray[np.bool_]:
    """Return whether response times can be a retransmission time plus a usual response: 2 % early to 15 % late. Timers
    are late by a tick. A repeated request also often queues behind the others that are repeated with it."""
    late = np.asarray(response) - retransmission
    return (late >= -0.02 * retransmission) & (late <= 0.15 * retransmission)


def _at_schedule(mode: Mode, schedules: tuple[str, ...], waits: dict[int, int]) -> Mode:
    for lost, wait in waits.items():
        if near(mode.centre_ns, wait):
            return Mode(mode.centre_ns, mode.requests, wait, lost)
    for time in SCHEDULES[schedules[0]] if schedules else ():
        if near(mode.centre_ns, time):
            attempts = {SCHEDULES[name].index(time) + 1 for name in schedules if time in SCHEDULES[name]}
            return Mode(mode.centre_ns, mode.requests, time, attempts.pop() if len(attempts) == 1 else None)
    return mode
