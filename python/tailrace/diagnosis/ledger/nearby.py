"""This module selects the time around episodes that the ledger looks at.

What happens near an episode is replayed. The time further away shows what is usual. In a busy recording, a little calm
time suffices for that, and all of it would cost more than what is near."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tailrace.diagnosis.constants import LOOKBACK_NS, STEP_NS
from tailrace.diagnosis.spans import Spans, clip, spans, without
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow
from tailrace.units import SECOND

AROUND_NS = 15 * SECOND
"""So much calm time on either side of an episode shows what is usual: at 20 visits a second, both sides have 600
of them together."""
NEAR_NS = 2 * LOOKBACK_NS + SECOND
"""So much time on either side is always near: a replay begins twice `LOOKBACK_NS` before an episode, with the requests
that had been sent up to a second before."""
VISITS = 500_000
"""The ledger takes about 400 bytes for each visit. If the time further away has more visits than that, only so many of
those in calm time are kept. Even a server that gets one visit in a hundred then has thousands of them. A portion has at
most so many visits more than its first group."""


def nearby(view: View, slow: Slow, clusters: Iterable[Cluster]) -> Spans:
    """Return the stretches around these episodes."""
    return spans(np.concatenate([np.empty((0, 2), np.int64), *(_of(view, slow, one) for one in clusters)]), gap=STEP_NS)


def visits(view: View, stretches: Spans) -> int:
    """Return how many visits arrived in these stretches."""
    edges = stretches.ravel()
    return sum(int(stays.arrived(edges)[::2].sum()) for stays in view.stays.values()) if len(edges) else 0


def _of(view: View, slow: Slow, cluster: Cluster) -> Spans:
    last = slow.answered(cluster)

    def within(distance: int) -> Spans:
        return spans([(max(cluster.begin - distance, view.begin), min(last + distance, view.end + 1))])

    wide, near = within(AROUND_NS), within(NEAR_NS)
    further = without(wide, near)
    if visits(view, further) <= VISITS:
        return wide
    calm = np.concatenate([clip(slow.calm, *one) for one in further.tolist()])
    left = VISITS - visits(view, clip(slow.calm, *near[0].tolist()))
    kept = [near]
    for begin, end in sorted(calm.tolist(), key=lambda one: max(cluster.begin - one[1], one[0] - last)):
        if left <= 0:
            break
        its = visits(view, spans([(begin, end)]))
        length = (end - begin) * min(left, its) // max(its, 1)
        kept.append(spans([(end - length, end) if end <= cluster.begin else (begin, begin + length)]))
        left -= its
    return np.concatenate(kept)
