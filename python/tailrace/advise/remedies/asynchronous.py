"""Asynchronous tiers: a request that waits downstream holds no worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.advise.remedies.remedy import Changes, Option, Path, Remedy, sizeless
from tailrace.experiment import Experiment, places

COUNTERPARTS = {"apache": "nginx", "tomcat": "xtomcat", "mysql": "xmysql"}
"""Asynchronous servers in place of synchronous ones (`rpc-vs-async` V)."""
THREADS = 0
"""Behind the clients' tier an asynchronous server has any number of threads, none of which waits (XTomcat, virtual
threads): what queued in a stall goes on at once after it."""
_OF_TIER = ("kind", "workers", "light_queue", "spawn")
_OF_PROXY = ("kept", "pool", "pool_per", "for_visit", "priority", "endpoint")
"""Keys of the calls of the clients' tier, which becomes a proxy. They depend on the kind of server: without a value,
they get the default of the new kind, a connection for each call."""
_OF_CALL = ("priority", "endpoint")
"""The others keep the connections that they have. Real servers whose asynchronous drivers opened a connection for each
call used 1.7 times the CPU time, and their database 1.9 times (`benches/prove`)."""


def _options(experiment: Experiment) -> Iterator[Option]:
    """The tiers from the clients on, one more in each: of a path, a synchronous tier behind an asynchronous one drops
    what the first lets through (`rpc-vs-async` V-B)."""
    for entry in places.entries(experiment):
        path = [entry, *places.behind(experiment, [entry])]
        blocking = [name for name in path if experiment.tiers[name].kind == "sync"]
        yield from (_of(experiment, tuple(blocking[:number])) for number in range(1, len(blocking) + 1))


def _of(experiment: Experiment, names: tuple[str, ...]) -> Option:
    tiers = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    changes = {path: value for name in names for path, value in _keys(experiment, name, names).items()}
    return sizeless(", ".join(names), changes, f"make {tiers} asynchronous")


def _keys(experiment: Experiment, name: str, names: tuple[str, ...]) -> Changes:
    """The keys of one of the tiers `names`, which all become asynchronous. A proxy keeps its connections to an
    asynchronous server, which holds no thread for one. To a synchronous server, whose backlog may refuse it, it opens
    one for each call."""
    tier = experiment.tiers[name]
    proxy = name in places.entries(experiment)
    keys: dict[Path, Any] = {("tiers", name, key): None for key in _OF_TIER}
    for silent in (one for one, work in experiment.interactions.items() if work.silent and name in work.at):
        keys["interactions", silent, "at", name, "wait"] = "0 ns"  # nobody waits for a client that sends nothing
    for callee in tier.calls:
        call = ("tiers", name, "calls", callee)
        keys |= {(*call, key): None for key in (_OF_PROXY if proxy else _OF_CALL)}
        if proxy and (callee in names or experiment.tiers[callee].kind == "async"):
            keys[*call, "kept"] = True
    counterpart = COUNTERPARTS.get(tier.software or "")
    if counterpart:
        return keys | {("tiers", name, "software"): counterpart}
    keys |= {("tiers", name, "software"): None, ("tiers", name, "kind"): "async"}
    return keys if proxy or not tier.calls else keys | {("tiers", name, "workers"): THREADS}


REMEDY = Remedy(
    "asynchronous",
    _options,
    "software",
    "What no longer waits in front reaches the servers behind at once, which may drop it; code must not block; a "
    "driver without a pool opens a connection for each call, which takes CPU time at both ends.",
    "rpc-vs-async V (NX = 1, 2, 3); mitigating",
)
