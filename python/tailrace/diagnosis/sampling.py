"""Queue lengths where a sampler kept a share of the visits: the findings scale them, and give their error.

```text
visits at once   n  ── each is kept with the probability p ──▶  k are seen        n ≈ k/p ± 1.96 √(k(1-p))/p
```
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from statistics import NormalDist

from tailrace.diagnosis.constants import RARE
from tailrace.diagnosis.finding import PushBack
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import listing

_NORMAL_95 = NormalDist().inv_cdf(1.0 - RARE / 2)
"""It is half the width of the 95 % interval of a normal distribution, in standard errors: 1.96."""


def estimate(view: View, server: str, kept: int) -> int:
    """Return how many visits were at the server at once if the sampler kept so many of them."""
    return round(kept / view.kept(server))


def scaled(view: View, seen: PushBack) -> PushBack:
    """Return the queue of all visits. Of a queue of n visits, the sampler kept a binomial number k, so n is about k/p,
    with the standard error √(k(1-p))/p (Horvitz and Thompson 1952). A plateau of the kept visits is noise, and when a
    limit was reached is unknown."""
    share, kept = view.kept(seen.server), seen.queue_length_max
    if share == 1:
        return seen
    error = math.ceil(_NORMAL_95 * math.sqrt(kept * (1 - share)) / share)
    length_max = estimate(view, seen.server, kept)
    whole = replace(seen, full=None, queue_length_max=length_max, queue_length_error=error)
    return replace(whole, queue_max=None, limit_source="unknown") if seen.limit_source == "plateau" else whole


def length(step: PushBack) -> str:
    """Return the length of a scaled queue, and its limit."""
    limit = "no limit seen" if step.queue_max is None else f"its limit is {step.queue_max:,}"
    return f" (up to {step.queue_length_max:,} ± {step.queue_length_error:,} requests, {limit})"


def note(view: View, wave: Iterable[PushBack]) -> str:
    """Return what a finding with scaled queues says of them; empty without any."""
    shares = sorted({view.kept(step.server) for step in wave if step.queue_length_error})
    if not shares:
        return ""
    return (
        f" A sampler kept {listing([f'{share:.3%}' for share in shares])} of the traces: the lengths are scaled, and ± "
        "is half the width of their 95 % interval."
    )


def unknown(view: View) -> str:
    """Return why there are no queue lengths at all."""
    if any(server.chosen for server in view.topology.servers):
        return (
            "Queue lengths are unknown: these traces were kept for what happened in them (tail sampling), or this log "
            "has only some of the requests, or either may be so. They do not show how many requests a server held."
        )
    return "Queue lengths are unknown: no visits to servers were recorded."
