"""What a remedy is: where in an experiment it applies, which keys it changes, and in which sizes it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tailrace.experiment import Experiment, places, to_table
from tailrace.experiment.tiers import Call

Effort = Literal["setting", "software", "machine", "code"]
EFFORTS: dict[Effort, str] = {
    "setting": "a setting",
    "software": "other software",
    "machine": "more hardware",
    "code": "a change of code",
}
"""From the least effort to the most."""

Path = tuple[str, ...]
Changes = Mapping[Path, Any]
"""Keys of the experiment with their new values, as a file has them; None removes the key."""
Size = Any
"""A number, a name or a duration; None where a remedy has no size."""


@dataclass(frozen=True)
class Option:
    """A remedy at one place of an experiment."""

    place: str
    sizes: tuple[Size, ...]
    """The mildest first; each must differ from the present value."""
    changes: Callable[[Size], Changes]
    words: Callable[[Size], str]
    """What is done, as an order: "raise the backlog of web from 128 to 512"."""


def sizeless(place: str, changes: Changes, words: str) -> Option:
    """An option without a size."""
    return Option(place, (None,), lambda size: changes, lambda size: words)


@dataclass(frozen=True)
class Remedy:
    name: str
    options: Callable[[Experiment], Iterator[Option]]
    """Every place where it applies; none if it does not apply."""
    effort: Effort
    hurts: str
    """Which requests, users or machines it can hurt, in a sentence."""
    source: str
    """The paper and section that it is from, or today's practice."""


POWERS = tuple(2**power for power in range(17))
"""Sizes of queues, threads and pools that are tried: few enough to try, and what people write."""


def larger(present: int, steps: int = 6) -> tuple[int, ...]:
    """Powers of two of at least one and a half times the present value."""
    return tuple(size for size in POWERS if 2 * size >= 3 * present)[:steps]


def smaller(present: int, steps: int = 3) -> tuple[int, ...]:
    """Powers of two of at most two thirds of the present value, the largest first."""
    return tuple(size for size in reversed(POWERS) if 3 * size <= 2 * present)[:steps]


def calls(experiment: Experiment) -> Iterator[tuple[str, str, Call]]:
    """Caller, callee, and how it calls."""
    for name, tier in experiment.tiers.items():
        for callee, call in tier.calls.items():
            yield name, callee, call


def connects(experiment: Experiment, tier: str) -> bool:
    """Whether new connections reach a tier, which its backlog can refuse."""
    return any(not call.kept for _, callee, call in calls(experiment) if callee == tier) or any(
        not load.kept and (load.entry or places.entries(experiment)[0]) == tier
        for load in experiment.workloads.values()
    )


def relieved(experiment: Experiment, causes: tuple[str, ...], words: str) -> Iterator[Option]:
    """Recorded losses of these causes, which a twin has, no longer happen in one tier; `words` names it as {}."""
    tier = {server.name: server.tier for server in places.servers(experiment)}
    losses = to_table(experiment).get("losses", [])
    for name in dict.fromkeys(tier[loss["place"]] for loss in losses if loss["cause"] in causes):
        rest = [loss for loss in losses if loss["cause"] not in causes or tier[loss["place"]] != name]
        yield sizeless(name, {("losses",): rest}, words.format(name))
