"""Troubles of drawn systems of any shape, and look-alikes, which only look like troubles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

Table = dict[str, Any]

POLICIES = (
    "total_request", "total_traffic", "current_load", "round_robin", "random", "least_connections", "power_of_two",
)  # fmt: skip
KERNELS = ("linux-2.6.32", "linux-3.3", "linux-6.5")


@dataclass
class System:
    """A table that is being drawn, and what the troubles need to know about it."""

    random: Random
    rate: float
    """Requests per second from all clients."""
    names: tuple[str, ...]
    """Tiers, callers before callees."""
    table: Table
    visits: dict[str, float] = field(default_factory=dict)
    """Visits of one request at each tier."""
    use: dict[str, float] = field(default_factory=dict)
    """The utilisation of the CPU of each server of a tier."""
    way: tuple[str, ...] = ()
    """Tiers from the users' entry to one without calls."""
    pages: tuple[Table, ...] = ()
    """The interactions that clients send, and their entry: keys of a workload."""
    homes: dict[str, str] = field(default_factory=dict)
    """Tiers that run beside the servers of another one."""

    @property
    def tiers(self) -> dict[str, Table]:
        tiers: dict[str, Table] = self.table["tiers"]
        return tiers

    def servers(self, tier: str) -> list[str]:
        count = self.tiers[tier]["count"]
        return [tier] if count == 1 else [f"{tier}{number}" for number in range(1, count + 1)]

    def home(self, tier: str) -> str:
        return self.homes.get(tier, tier)

    def node(self, tier: str) -> Table:
        """The settings of the nodes that its servers are on."""
        node: Table = self.table["nodes"].setdefault(self.home(tier), {})
        return node

    def use_of_node(self, tier: str) -> float:
        """The utilisation of a node by all tiers that run there."""
        home = self.home(tier)
        return sum(self.use[name] for name in self.names if self.home(name) == home)

    def rate_of(self, tier: str) -> float:
        """Visits per second of each of its servers."""
        count: int = self.tiers[tier]["count"]
        return self.rate * self.visits[tier] / count

    def some_tier(self) -> str:
        return self.random.choice(self.names)

    def some_server(self) -> str:
        return self.random.choice(self.servers(self.some_tier()))

    def some_machine(self, tier: str) -> str:
        return f"{self.random.choice(self.servers(self.home(tier)))}-node"

    def stall(self, kind: str, place: str, low: float = 0.3, high: float = 1.0, **more: Any) -> None:
        """Adds a stall that happens once, or every few seconds."""
        random = self.random
        at, lasts = random.uniform(3, 9), random.uniform(low, high)
        stall: Table = {"kind": kind, "place": place, "at": f"{at:.3f} s", "for": f"{lasts:.3f} s"}
        if random.random() < 0.6:
            stall["every"] = f"{random.uniform(6, 14):.3f} s"
        self.table["stalls"].append(stall | more)

    def heap(self, tier: str, pause: float, every: float) -> None:
        young = self.rate_of(tier) * every * 100_000
        self.tiers[tier]["heap"] = {
            "young": int(young),
            "per_visit": 100_000,
            "young_collection": {"base": f"{pause * 1e3:.0f} ms", "per_live": "0.2 ms"},
        }

    def flush(self, tier: str, pause: float, every: float) -> None:
        rate = self.random.uniform(0.3e6, 3e6)
        self.node(tier).setdefault("disk", {}).update(
            bandwidth=f"{rate * every / pause:.0f} B/s",
            flush={
                "period": f"{every:.2f} s",
                "first": f"{self.random.uniform(3, every + 1):.2f} s",
                "rate": f"{rate:.0f} B/s",
            },
        )

    def batch(self, name: str, size: int, page: Table | None = None) -> None:
        """Adds a batch of `page`, or of any page that clients send."""
        first, every = self.random.uniform(3, 9), self.random.uniform(7, 14)
        if page is None:
            page = self.pages[0] if len(self.pages) == 1 else self.random.choice(self.pages)
        times = {"first": f"{first:.3f} s", "every": f"{every:.3f} s"}
        self.table["workloads"][name] = {"kind": "batch", "size": size, **times, **page}


Trouble = Callable[[System], None]


def begun(random: Random, seed: int) -> Table:
    """A table with the parts that do not depend on the shape of a system."""
    return {
        "seed": seed,
        "duration": f"{random.randint(20, 45)} s",
        "ramp": "3 s",
        "sampling": {"interval": f"{random.choice((20, 50, 50, 100))} ms"},
        "kernel": {"syn": random.choice(KERNELS)},
        "nodes": {},
        "tiers": {},
        "interactions": {},
        "workloads": {},
        "stalls": [],
    }


def tiers(system: System) -> Iterator[tuple[str, Table]]:
    """Draws the tiers one after the other; asynchronous tiers, if there are any, come first."""
    random, names = system.random, system.names
    first_sync = random.choices((0, 1, 2, len(names)), (60, 17, 8, 15))[0]
    for place, name in enumerate(names):
        count = random.choices((1, 2, 3, 4), (60, 22, 10, 8))[0]
        kind = "async" if place < first_sync else random.choices(("sync", "bounded"), (85, 15))[0]
        system.tiers[name] = _limits(random, count, kind)
        system.use[name] = random.uniform(0.15, 0.75)
        yield name, system.tiers[name]


def poisson(rate: float) -> Table:
    return {"kind": "poisson", "rate": round(rate, 1)}


def closed(random: Random, rate: float) -> Table:
    """Clients that think between requests, and together send at this rate."""
    think = random.uniform(2, 7)
    return {"clients": max(int(rate * think), 20), "think": f"{think:.2f} s"}


def _limits(random: Random, count: int, kind: str) -> Table:
    """A tier of `count` servers, with threads and places in proportion to a few hundred requests a second."""
    tier: Table = {"count": count, "kind": kind, "backlog": random.choice((8, 16, 32, 64, 128))}
    if kind == "sync":
        tier["workers"] = random.randint(20, 120)
    if kind == "bounded":
        tier |= {"workers": random.randint(8, 24), "light_queue": random.randint(50, 2000)}
    return tier


def call(random: Random, tier: Table) -> Table:
    """Draw how `tier` calls another tier: the balancer's policy and endpoint, and the pool of a synchronous tier."""
    found: Table = {"policy": random.choice(POLICIES), "endpoint": random.choices(("wait", "modified"), (85, 15))[0]}
    if tier["kind"] == "sync":
        pooled = random.random() < 0.5
        found |= {"kept": True, "pool": random.randint(10, 60)} if pooled else {"kept": False, "pool": 0}
    return found


def befall(system: System, troubles: tuple[Trouble, ...], later: tuple[Trouble, ...]) -> None:
    """Adds up to two troubles, a look-alike to every other system, and one of the `later` troubles to every fifth.
    These are drawn last, so that everything else of a seed stayed the same when they were introduced."""
    random = system.random
    for _ in range(random.choices((0, 1, 2), (25, 55, 20))[0]):
        random.choice(troubles)(system)
    if random.random() < 0.5:
        random.choice(LOOK_ALIKES)(system)
    if random.random() < 0.2:
        random.choice(later)(system)


def _freeze(system: System) -> None:
    system.stall("freeze", system.some_server())


def _neighbour(system: System) -> None:
    random, tier = system.random, system.some_tier()
    node = system.some_machine(tier)
    if random.random() < 0.3:
        system.node(tier)["steal"] = "shown"
    system.stall("burn", node, 0.4, 1.2, threads=random.randint(1, 4), weight=random.uniform(8, 40))


def _collection(system: System) -> None:
    system.heap(system.some_tier(), system.random.uniform(0.3, 0.9), system.random.uniform(5, 12))


def _burst(system: System) -> None:
    system.batch("burst", system.random.randint(150, 500))


def _log_flush(system: System) -> None:
    system.flush(system.some_tier(), system.random.uniform(0.3, 0.9), system.random.uniform(7, 14))


def _writeback(system: System) -> None:
    tier, pause, every = system.some_tier(), system.random.uniform(0.3, 0.9), system.random.uniform(6, 12)
    log = 20_000
    system.tiers[tier]["log"] = log
    system.node(tier)["disk"] = {
        "bandwidth": f"{system.rate_of(tier) * log * every / pause:.0f} B/s",
        "writeback": {"period": "1 s", "expire": f"{every:.2f} s"},
    }


def _frequency(system: System) -> None:
    """The papers' governor, which only a burst overloads; or one that falls in a lull to a clock rate at which the tier
    cannot serve its usual load."""
    random, tier = system.random, max(system.names, key=system.use_of_node)
    if random.random() < 0.2:
        system.node(tier)["governor"] = {}
        system.batch("burst", random.randint(60, 250))
        return
    system.node(tier)["governor"] = {
        "period": f"{random.uniform(0.6, 1.5):.2f} s",
        "frequencies": [f"{random.uniform(0.5, 1.2):.2f} GHz", "3.5 GHz"],
        "up": 0.95,
        "down": round(system.use_of_node(tier) * random.uniform(0.85, 1.0), 3),
    }


def _quota(system: System) -> None:
    tier = system.some_tier()
    system.tiers[tier]["quota"] = {
        "time": f"{min(system.use[tier] * system.random.uniform(1.3, 1.9), 0.95) * 100:.0f} ms"
    }
    system.batch("burst", system.random.randint(60, 300))


def _slower(system: System) -> None:
    system.stall("slow", system.some_server(), 0.5, 1.2, left=system.random.uniform(0.1, 0.4))


def _held_places(system: System) -> None:
    """A batch of requests with long waits takes all workers of the last tier, or all connections to it."""
    random, tier = system.random, system.way[-1]
    places = system.tiers[tier].get("workers", 60) * system.tiers[tier]["count"]
    page = _deep(system, "hold", tier, {"compute": "0.5 ms", "wait": f"{random.uniform(0.4, 1.2):.2f} s"})
    system.batch("holders", int(places * random.uniform(1.1, 1.6)), page)


def _own_work(system: System) -> None:
    """A few requests compute for a long time, on an event loop if there is one on their path."""
    random = system.random
    loops = [name for name in system.way if system.tiers[name]["kind"] == "async"]
    tier = random.choice(loops or system.way)
    page = _deep(system, "heavy", tier, {"compute": f"{random.uniform(0.4, 1.0):.2f} s", "scv": 0})
    system.batch("heavy", random.randint(1, 2) if loops else random.randint(4, 10), page)


def _deep(system: System, name: str, tier: str, work: Table) -> Table:
    """The keys of a workload whose page does this work at one tier of the path, and hardly any work before it."""
    above = system.table["interactions"]
    callers = system.way[: system.way.index(tier)]
    above[f"{tier} {name}"] = {"at": {tier: work}}
    for caller, callee in zip(callers, system.way[1:], strict=False):
        above[f"{caller} {name}"] = {"at": {caller: {"compute": "0.1 ms", "calls": {f"{callee} {name}": 1}}}}
    entry = {key: value for key, value in system.pages[0].items() if key == "entry"}
    return entry | {"interaction": f"{system.way[0]} {name}"}


def memory(system: System) -> None:
    system.stall("memory", system.some_server())


def packet_loss(system: System) -> None:
    """A hole in the path to a server, or a path that loses a part of the packets for longer."""
    share = system.random.choice((1.0, 1.0, 0.2, 0.05))
    low, high = (0.3, 1.0) if share == 1.0 else (1.0, 3.0)
    system.stall("packet-loss", system.some_server(), low, high, share=share)


TROUBLES = (
    _freeze, _neighbour, _collection, _burst, _log_flush, _writeback, _frequency, _quota, _slower,
    _held_places, _own_work,
)  # fmt: skip


def _short_collections(system: System) -> None:
    system.heap(system.some_tier(), system.random.uniform(0.002, 0.03), system.random.uniform(0.5, 2))


def _small_burst(system: System) -> None:
    system.batch("small burst", system.random.randint(10, 30))


def _slow_query(system: System) -> None:
    """A class of requests that takes long by itself, without delay from other requests. It holds a worker, so only
    tiers with many workers get it."""
    tier, users = system.way[-1], system.table["workloads"]["users"]
    if system.tiers[tier]["kind"] != "sync":
        return
    above = system.table["interactions"]
    above["report"] = {"at": {tier: {"wait": f"{system.random.uniform(1.1, 2.5):.2f} s"}}}
    for name, callee in reversed(list(pairwise(system.way))):
        asked = "report" if callee == tier else f"{callee} report"
        above[f"{name} report"] = {"at": {name: {"compute": "0.1 ms", "calls": {asked: 1}}}}
    mix = {users.pop("interaction"): 1.0} if "interaction" in users else users["mix"]
    users["mix"] = mix | {f"{system.way[0]} report": system.random.uniform(0.0005, 0.003)}


def _saturated(system: System) -> None:
    """One tier has more load than it can serve."""
    tier = system.some_tier()
    system.tiers[tier]["demand_factor"] = system.random.uniform(1.05, 1.4) / system.use[tier]


def _harmless_flush(system: System) -> None:
    system.flush(system.some_tier(), system.random.uniform(0.005, 0.04), system.random.uniform(2, 5))


def _harmless_neighbour(system: System) -> None:
    tier = system.some_tier()
    system.stall("burn", system.some_machine(tier), 0.1, 0.5, threads=1, weight=0.1)


LOOK_ALIKES = (_short_collections, _small_burst, _slow_query, _saturated, _harmless_flush, _harmless_neighbour)
