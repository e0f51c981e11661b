"""This module finds an overload that lasts for most of a recording. No queue rises in it, because no calm time shows
how long the queue usually is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.diagnosis.constants import MOMENTS, MOSTLY
from tailrace.diagnosis.queues import held_from, plateau
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import share


@dataclass(frozen=True)
class Lasting:
    server: str
    length: int
    """The queue was held at this length …"""
    held: float
    """… for this share of the time in which requests were sent."""

    @property
    def sentence(self) -> str:
        return (
            f"The queue of {self.server} was held at {self.length:,} for {share(self.held)} of the time in which "
            "requests were sent, so the recording does not show when the overload began."
        )


def find(view: View, dropper: str) -> Lasting | None:
    """Return the server whose queue was held at its peak for most of the time. It is the furthest from the clients of
    those that calls connect with the dropper, because a full server fills those that call it. Where a sampler kept a
    share of the visits, the peak is unknown."""
    if view.kept(dropper) < 1:
        return None
    times = np.linspace(view.begin, int(view.sent[-1]), MOMENTS).astype(np.int64)
    for server in sorted(view.chain_of(dropper) & view.stays.keys(), key=lambda name: (-view.depth[name], name)):
        queue = view.stays[server].queue(times)
        limit = plateau(queue)
        held = 0.0 if limit is None else float(np.mean(queue >= held_from(limit)))
        if limit is not None and held > MOSTLY:
            return Lasting(server, limit, held)
    return None
