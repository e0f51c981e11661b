"""A short wait for a connection: a call that gets none goes to the next candidate."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Changes, Option, Path, Remedy, calls
from tailrace.experiment import Experiment, places
from tailrace.units import MILLISECOND, exact_duration

TIMEOUTS = (500 * MILLISECOND, 200 * MILLISECOND, 100 * MILLISECOND, 50 * MILLISECOND)
"""Below the first repetition of a lost attempt, 1 s."""
RECOVER = "1 s"
"""How long a candidate gets no calls after a failure; the least of mod_jk."""


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, callee, call in calls(experiment):
        if experiment.tiers[callee].count > 1 and not call.kept:
            times = tuple(time for time in TIMEOUTS if time < (call.connect_timeout or 2 * time))
            yield _of(name, callee, times, not places.recover_time(experiment, name, callee, call))


def _of(name: str, callee: str, times: tuple[int, ...], fails: bool) -> Option:
    at: Path = ("tiers", name, "calls", callee)
    another: Changes = {(*at, "recover_time"): RECOVER} if fails else {}

    def changes(size: int) -> Changes:
        return {(*at, "connect_timeout"): exact_duration(size), **another}

    return Option(
        f"{name} to {callee}",
        times,
        changes,
        lambda size: f"let {name} try the next {callee} after {exact_duration(size)} without a connection",
    )


REMEDY = Remedy(
    "connecting",
    _options,
    "setting",
    "When no candidate accepts connections, requests fail instead of waiting.",
    "mod_jk's socket_connect_timeout, nginx's proxy_connect_timeout with proxy_next_upstream (today's practice)",
)
