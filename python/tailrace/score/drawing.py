"""Random systems, loads and troubles: one experiment from one seed, as a table that `tailrace.experiment` checks.

Rates are a few hundred requests a second and limits (threads, backlogs) are drawn in proportion, so that a stall of
half a second overflows them as one of the papers' overflows Apache's 278 places at a thousand requests a second.
"""

from __future__ import annotations

from random import Random
from typing import Any

Table = dict[str, Any]

ROLES = {2: ("web", "db"), 3: ("web", "app", "db"), 4: ("web", "app", "middle", "db")}
POLICIES = (
    "total_request", "total_traffic", "current_load", "round_robin", "random", "least_connections", "power_of_two",
)  # fmt: skip
KERNELS = ("linux-2.6.32", "linux-3.3", "linux-6.5")


def draw(seed: int) -> Table:
    """Equal seeds give equal experiments."""
    random = Random(seed)
    rate = random.uniform(80, 400)
    tiers = ROLES[random.choices((2, 3, 4), (2, 5, 3))[0]]
    table: Table = {
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
    system = _System(random, rate, tiers, table)
    system.draw_tiers()
    system.draw_load()
    for _ in range(random.choices((0, 1, 2), (25, 55, 20))[0]):
        random.choice(TROUBLES)(system)
    if random.random() < 0.5:
        random.choice(LOOK_ALIKES)(system)
    return table


class _System:
    def __init__(self, random: Random, rate: float, names: tuple[str, ...], table: Table) -> None:
        self.random, self.rate, self.names, self.table = random, rate, names, table
        self.visits: dict[str, float] = {}
        self.use: dict[str, float] = {}

    @property
    def tiers(self) -> dict[str, Table]:
        tiers: dict[str, Table] = self.table["tiers"]
        return tiers

    def servers(self, tier: str) -> list[str]:
        count = self.tiers[tier]["count"]
        return [tier] if count == 1 else [f"{tier}{number}" for number in range(1, count + 1)]

    def node(self, tier: str) -> Table:
        """The settings of a tier's own nodes."""
        node: Table = self.table["nodes"].setdefault(tier, {})
        return node

    def draw_tiers(self) -> None:
        random = self.random
        first_sync = random.choices((0, 1, 2, len(self.names)), (60, 17, 8, 15))[0]
        visits, page = 1.0, ""
        for place, name in enumerate(self.names):
            count = random.choices((1, 2, 3, 4), (60, 22, 10, 8))[0]
            kind = "async" if place < first_sync else random.choices(("sync", "bounded"), (85, 15))[0]
            tier: Table = {"count": count, "kind": kind, "backlog": random.choice((8, 16, 32, 64, 128))}
            if kind == "sync":
                tier["workers"] = random.randint(20, 120)
            if kind == "bounded":
                tier |= {"workers": random.randint(8, 24), "light_queue": random.randint(50, 2000)}
            self.tiers[name] = tier
            use = random.uniform(0.15, 0.75)
            work: Table = {
                "compute": f"{use * count / (self.rate * visits) * 1e6:.0f} us",
                "scv": random.choice((0.25, 1.0)),
            }
            self.visits[name], self.use[name] = visits, use
            if place + 1 < len(self.names):
                callee = self.names[place + 1]
                calls = random.choices((1, 2, 3), (70, 20, 10))[0]
                work["calls"] = {f"{callee} work": calls}
                tier["calls"] = {callee: self._call(kind)}
                visits *= calls
            page = f"{name} work"
            self.table["interactions"][page] = {"at": {name: work}}

    def _call(self, kind: str) -> Table:
        random = self.random
        call: Table = {"policy": random.choice(POLICIES), "endpoint": random.choices(("wait", "modified"), (85, 15))[0]}
        if kind == "sync":
            pooled = random.random() < 0.5
            call |= {"kept": True, "pool": random.randint(10, 60)} if pooled else {"kept": False, "pool": 0}
        return call

    def draw_load(self) -> None:
        random = self.random
        page = f"{self.names[0]} work"
        if random.random() < 0.4:
            self.table["workloads"]["users"] = {"kind": "poisson", "rate": round(self.rate, 1), "interaction": page}
            return
        think = random.uniform(2, 7)
        clients = max(int(self.rate * think), 20)
        self.table["workloads"]["users"] = {"clients": clients, "think": f"{think:.2f} s", "interaction": page}

    def stall(self, kind: str, place: str, low: float = 0.3, high: float = 1.0, **more: Any) -> None:
        """Once, or again every few seconds."""
        random = self.random
        at, lasts = random.uniform(3, 9), random.uniform(low, high)
        stall: Table = {"kind": kind, "place": place, "at": f"{at:.3f} s", "for": f"{lasts:.3f} s"}
        if random.random() < 0.6:
            stall["every"] = f"{random.uniform(6, 14):.3f} s"
        self.table["stalls"].append(stall | more)

    def some_tier(self) -> str:
        return self.random.choice(self.names)

    def some_server(self) -> str:
        return self.random.choice(self.servers(self.some_tier()))

    def rate_of(self, tier: str) -> float:
        """Visits per second of each of its servers."""
        count: int = self.tiers[tier]["count"]
        return self.rate * self.visits[tier] / count

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

    def batch(self, name: str, size: int) -> None:
        first, every = self.random.uniform(3, 9), self.random.uniform(7, 14)
        self.table["workloads"][name] = {
            "kind": "batch", "size": size, "first": f"{first:.3f} s", "every": f"{every:.3f} s",
            "interaction": f"{self.names[0]} work",
        }  # fmt: skip


def _freeze(system: _System) -> None:
    system.stall("freeze", system.some_server())


def _neighbour(system: _System) -> None:
    random, tier = system.random, system.some_tier()
    node = f"{random.choice(system.servers(tier))}-node"
    if random.random() < 0.3:
        system.node(tier)["steal"] = "shown"
    system.stall("burn", node, 0.4, 1.2, threads=random.randint(1, 4), weight=random.uniform(8, 40))


def _collection(system: _System) -> None:
    system.heap(system.some_tier(), system.random.uniform(0.3, 0.9), system.random.uniform(5, 12))


def _burst(system: _System) -> None:
    system.batch("burst", system.random.randint(150, 500))


def _log_flush(system: _System) -> None:
    system.flush(system.some_tier(), system.random.uniform(0.3, 0.9), system.random.uniform(7, 14))


def _writeback(system: _System) -> None:
    tier, pause, every = system.some_tier(), system.random.uniform(0.3, 0.9), system.random.uniform(6, 12)
    log = 20_000
    system.tiers[tier]["log"] = log
    system.node(tier)["disk"] = {
        "bandwidth": f"{system.rate_of(tier) * log * every / pause:.0f} B/s",
        "writeback": {"period": "1 s", "expire": f"{every:.2f} s"},
    }


def _frequency(system: _System) -> None:
    """The papers' governor, of which only a burst asks too much; or one that a lull in the load lets fall to a clock
    rate at which the tier cannot serve what usually comes."""
    random, tier = system.random, max(system.names, key=lambda name: system.use[name])
    if random.random() < 0.2:
        system.node(tier)["governor"] = {}
        system.batch("burst", random.randint(60, 250))
        return
    system.node(tier)["governor"] = {
        "period": f"{random.uniform(0.6, 1.5):.2f} s",
        "frequencies": [f"{random.uniform(0.5, 1.2):.2f} GHz", "3.5 GHz"],
        "up": 0.95,
        "down": round(system.use[tier] * random.uniform(0.85, 1.0), 3),
    }


def _quota(system: _System) -> None:
    tier = system.some_tier()
    system.tiers[tier]["quota"] = {
        "time": f"{min(system.use[tier] * system.random.uniform(1.3, 1.9), 0.95) * 100:.0f} ms"
    }
    system.batch("burst", system.random.randint(60, 300))


def _slower(system: _System) -> None:
    system.stall("slow", system.some_server(), 0.5, 1.2, left=system.random.uniform(0.1, 0.4))


TROUBLES = (_freeze, _neighbour, _collection, _burst, _log_flush, _writeback, _frequency, _quota, _slower)


def _short_collections(system: _System) -> None:
    system.heap(system.some_tier(), system.random.uniform(0.002, 0.03), system.random.uniform(0.5, 2))


def _small_burst(system: _System) -> None:
    system.batch("small burst", system.random.randint(10, 30))


def _slow_query(system: _System) -> None:
    """A class that takes long by itself: nobody holds it up. It holds a worker, so only where there are many."""
    tier, users = system.names[-1], system.table["workloads"]["users"]
    if system.tiers[tier]["kind"] != "sync":
        return
    above = system.table["interactions"]
    above["report"] = {"at": {tier: {"wait": f"{system.random.uniform(1.1, 2.5):.2f} s"}}}
    for name in reversed(system.names[:-1]):
        callee = system.names[system.names.index(name) + 1]
        asked = "report" if callee == tier else f"{callee} report"
        above[f"{name} report"] = {"at": {name: {"compute": "0.1 ms", "calls": {asked: 1}}}}
    entry = f"{system.names[0]} report"
    users["mix"] = {users.pop("interaction"): 1.0, entry: system.random.uniform(0.0005, 0.003)}


def _saturated(system: _System) -> None:
    """More load than one tier can ever serve."""
    tier = system.some_tier()
    system.tiers[tier]["demand_factor"] = system.random.uniform(1.05, 1.4) / system.use[tier]


def _harmless_flush(system: _System) -> None:
    system.flush(system.some_tier(), system.random.uniform(0.005, 0.04), system.random.uniform(2, 5))


def _harmless_neighbour(system: _System) -> None:
    tier = system.some_tier()
    node = f"{system.random.choice(system.servers(tier))}-node"
    system.stall("burn", node, 0.1, 0.5, threads=1, weight=0.1)


LOOK_ALIKES = (_short_collections, _small_burst, _slow_query, _saturated, _harmless_flush, _harmless_neighbour)
