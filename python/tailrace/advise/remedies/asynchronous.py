"""Asynchronous tiers: a request that waits downstream holds no worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.advise.remedies.remedy import Changes, Option, Path, Remedy
from tailrace.experiment import Experiment, places
from tailrace.experiment.tiers import Tier

COUNTERPARTS = {"apache": "nginx", "tomcat": "xtomcat", "mysql": "xmysql"}
"""Asynchronous servers in place of synchronous ones (`rpc-vs-async` V)."""
_OF_TIER = ("kind", "workers", "light_queue", "spawn")
_OF_CALL = ("kept", "pool", "pool_per", "for_visit", "priority", "endpoint")
"""Keys that depend on the kind of server: without a value, they get the default of the new kind."""


def _options(experiment: Experiment) -> Iterator[Option]:
    """The tiers from the clients on, one more in each: of a path, a synchronous tier behind an asynchronous one drops
    what the first lets through (`rpc-vs-async` V-B)."""
    for entry in places.entries(experiment):
        path = [entry, *places.behind(experiment, [entry])]
        blocking = [name for name in path if experiment.tiers[name].kind == "sync"]
        yield from (_of(experiment, tuple(blocking[:number])) for number in range(1, len(blocking) + 1))


def _of(experiment: Experiment, names: tuple[str, ...]) -> Option:
    tiers = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return Option(
        ", ".join(names),
        (None,),
        lambda size: {path: value for name in names for path, value in _keys(name, experiment.tiers[name]).items()},
        lambda size: f"make {tiers} asynchronous",
    )


def _keys(name: str, tier: Tier) -> Changes:
    keys: dict[Path, Any] = {("tiers", name, key): None for key in _OF_TIER}
    keys |= {("tiers", name, "calls", callee, key): None for callee in tier.calls for key in _OF_CALL}
    counterpart = COUNTERPARTS.get(tier.software or "")
    if counterpart:
        return keys | {("tiers", name, "software"): counterpart}
    return keys | {("tiers", name, "software"): None, ("tiers", name, "kind"): "async"}


REMEDY = Remedy(
    "asynchronous",
    _options,
    "software",
    "What no longer waits in front reaches the servers behind at once, which may drop it; code must not block.",
    "rpc-vs-async V (NX = 1, 2, 3); mitigating",
)
