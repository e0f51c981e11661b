"""Some requests took the same time whenever they were sent. A timer makes such times, and a queue does not.

Requests that wait in a queue for the same stall end together, so a request takes longer if it was sent earlier. A
request that waits for an answer that never comes takes as long as its timeout.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis import slowly
from tailrace.diagnosis.constants import ALIKE, APART, HARDLY_ANY, MOSTLY, SEVERAL
from tailrace.diagnosis.finding import Constant
from tailrace.diagnosis.ledger.losses.senders import CLIENTS
from tailrace.diagnosis.losses import Losses
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import SCHEDULES, Slow


def find(view: View, slow: Slow, packets: Losses, first_byte: Times) -> tuple[Constant, ...]:
    """Return the constants, the one with the most requests first. `first_byte` is when the response of each VLRT
    request began. Requests are left out if losses took half of their time, because retransmissions have a timer, too.
    They are also left out if the transfer of the response took half of it, because responses of one size take the same
    time to send, and if their clients sent them slowly."""
    response = slow.requests["response_ns"].to_numpy()
    transferred = slow.requests["end"].to_numpy() - first_byte
    slowly_sent = slowly.are(slow.requests["interaction"]).to_numpy()
    rows = np.flatnonzero((packets.cost < MOSTLY * response) & (transferred < MOSTLY * response) & ~slowly_sent)
    rows = rows[np.argsort(response[rows], kind="stable")]
    every = np.sort(view.requests["response_ns"].to_numpy())
    found: list[Constant] = []
    while len(rows) >= SEVERAL:
        begin, end = _densest(response[rows])
        part = rows[begin:end]
        if len(part) < SEVERAL:
            break
        if _is_a_band(response[part], every) and _sent_at_any_time(slow, part):
            found.append(_told(view, slow, part))
        rows = np.concatenate((rows[:begin], rows[end:]))
    return tuple(found)


def members(slow: Slow, constants: tuple[Constant, ...]) -> NDArray[np.bool_]:
    """Return for each VLRT request whether it took one of these times."""
    response = slow.requests["response_ns"].to_numpy()
    inside = np.zeros(len(response), dtype=bool)
    for one in constants:
        inside |= (response >= one.shortest_ns) & (response <= one.longest_ns)
    return inside


def _densest(response: NDArray[np.int64]) -> tuple[int, int]:
    """Return the stretch of sorted times within `ALIKE` that holds the most requests."""
    ends = np.searchsorted(response, response * (1 + ALIKE), "right")
    begin = int(np.argmax(ends - np.arange(len(response))))
    return begin, int(ends[begin])


def _is_a_band(band: NDArray[np.int64], every: NDArray[np.int64]) -> bool:
    """Return whether the band is apart from the rest: hardly any other request lies around it."""
    low, high = int(band[0]), int(band[-1])
    edges = np.searchsorted(every, (low / APART, low)), np.searchsorted(every, (high, high * APART), "right")
    return sum(int(after - before) for before, after in edges) <= HARDLY_ANY * len(band)


def _sent_at_any_time(slow: Slow, part: NDArray[np.int64]) -> bool:
    """Return whether they were sent further apart than their times differ. Requests that were sent together may have
    ended together."""
    sent, response = slow.requests["sent"].to_numpy()[part], slow.requests["response_ns"].to_numpy()[part]
    spread = max(int(np.ptp(response)), 1)
    return len(np.unique(sent // (2 * spread))) >= SEVERAL


def _told(view: View, slow: Slow, part: NDArray[np.int64]) -> Constant:
    rows = slow.requests[part]
    middle = int(rows["response_ns"].median() or 0)  # type: ignore[arg-type]
    places = Counter(filter(None, view.longest_stays(rows)))
    place = max(sorted(places), key=lambda name: places[name], default=None)
    place = CLIENTS if int(rows["given_up"].sum()) > MOSTLY * len(rows) else place
    timer = any(abs(middle - times[0]) <= ALIKE * times[0] for times in SCHEDULES.values())
    low, high = rows["response_ns"].min(), rows["response_ns"].max()
    return Constant(middle, int(low), int(high), len(rows), place, timer)  # type: ignore[arg-type]
