"""Random graphs of services, loads and troubles: one experiment from one seed, as `drawing` draws chains.

```text
users ──▶ web ─┬▶ orders ─▶ cache ─(misses)─▶ db     Each service calls one to three later services. Stores come last
               └─────────────────────────────▲▲      and call no other. Writes may take other ways than reads, and may
others ─▶ gate ─▶ search ────────────────────┘│      go to all servers of a store.
                     guests on the same machine
```
Rates, limits and troubles are those of chains. Only graphs have a second entry, tiers of one system on the same
machines, guests (another system on one of these machines), arrivals in waves, and clients that do not wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tailrace.score.troubles import (
    TROUBLES,
    System,
    Table,
    befall,
    begun,
    call,
    closed,
    memory,
    packet_loss,
    poisson,
    tiers,
)

ENTRIES = ("web", "gate")
SERVICES = ("orders", "search", "prices", "users", "stock")
CACHE = "cache"
STORES = ("db", "archive")
CALLS_MAX = 3
VISITS_MAX = 6.0
"""Visits of one request at one tier, about: fan-outs multiply, and a run has to stay quick. A call that would exceed
this number is made rarely instead."""
SELDOM = 0.2
TOGETHER = 0.3
COMPUTE_MAX = 0.04
"""s; the longest visit in chains."""
GUEST = "guest"
"""The prefix of the names of the other system's tiers and workload."""

Callees = dict[str, list[str]]


def draw(seed: int) -> Table:
    """Equal seeds give equal experiments."""
    random = Random(seed)
    rate = random.uniform(80, 400)
    count = random.randint(3, 7)
    entries = ENTRIES[: 2 if count > 3 and random.random() < 0.35 else 1]
    stores = STORES[: 2 if count > 4 and random.random() < 0.5 else 1]
    services = random.sample(SERVICES, count - len(entries) - len(stores))
    if services and random.random() < 0.35:
        services[-1] = CACHE
    system = System(random, rate, (*entries, *services, *stores), begun(random, seed))
    callees = _callees(system, entries, stores)
    _draw_tiers(system, callees)
    kinds = ("read", "write") if random.random() < 0.5 else ("read",)
    for kind in kinds:
        _draw_calls(system, callees, kind)
    asked = _draw_loads(system, entries, kinds)
    _draw_work(system, kinds, asked)
    system.way = tuple(_way(system, callees))
    befall(system, (*TROUBLES, _guests), (memory, packet_loss, *((_lock,) if len(kinds) > 1 else ())))
    _join_calls(system)
    return system.table


def _callees(system: System, entries: tuple[str, ...], stores: tuple[str, ...]) -> Callees:
    """Caller → callees. Every tier behind the entries has a caller, every tier but stores calls another one, and half
    of the tiers call more than one."""
    random, names = system.random, system.names
    found: Callees = {name: [] for name in names if name not in stores}
    inner = [name for name in names if name not in entries]
    for name in inner:
        earlier = [one for one in found if names.index(one) < names.index(name) and len(found[one]) < CALLS_MAX]
        found[random.choice(earlier)].append(name)
    for name, called in found.items():
        more = random.choices((0, 1, 2), (50, 35, 15))[0] or int(not called)
        later = [one for one in inner if names.index(one) > names.index(name) and one not in called]
        called += random.sample(later, min(more, len(later), CALLS_MAX - len(called)))
    return found


def _draw_tiers(system: System, callees: Callees) -> None:
    """In every fifth system two tiers are on the same machines."""
    random = system.random
    for name, tier in tiers(system):
        if name in callees:
            tier["calls"] = {callee: call(random, tier) for callee in callees[name]}
    if random.random() < 0.2:
        beside, home = random.sample(system.names, 2)
        system.tiers[beside] |= {"count": system.tiers[home]["count"], "node": [home]}
        system.homes[beside] = home
        # Together they use no more of a machine than one alone may use.
        less = min(1.0, 0.75 / system.use_of_node(home))
        system.use |= {name: system.use[name] * less for name in (beside, home)}


def _draw_calls(system: System, callees: Callees, kind: str) -> None:
    """What each tier calls for a read, or for a write."""
    random = system.random
    visits = {name: float(name in ENTRIES) for name in system.names}
    for name in system.names:
        called = callees.get(name, [])
        if kind == "write":
            called = [one for one in called if random.random() < 0.7] or called[:1]
        calls = {}
        for callee in called:
            made = _made(system, name, callee, kind)
            if visits[callee] + visits[name] * _times(system, callee, made) > VISITS_MAX:
                made = {"count": SELDOM}
            visits[callee] += visits[name] * _times(system, callee, made)
            calls[f"{callee} {kind}"] = made
        system.table["interactions"][f"{name} {kind}"] = {"at": {name: {"calls": calls} if calls else {}}}


def _made(system: System, caller: str, callee: str, kind: str) -> Table:
    """Calls for the misses of a cache, to all servers of a store, or so many, one after another or at once."""
    random = system.random
    if kind == "write" and callee in STORES and random.random() < 0.7:
        return {"all": True}
    if caller == CACHE:
        return {"count": round(random.uniform(0.1, 0.5), 2)}
    count = random.choices((1, 2, 3, round(random.uniform(0.3, 0.8), 2)), (60, 15, 5, 20))[0]
    return {"count": count} | ({"parallel": True} if count > 1 and random.random() < 0.5 else {})


def _join_calls(system: System) -> None:
    """Some visits that call several tiers call them at the same time, and wait for all. It is drawn last: otherwise all
    draws after it would be others."""
    for interaction in system.table["interactions"].values():
        for work in interaction["at"].values():
            several = list(work.get("calls", {}).items())[1:]
            if several and system.random.random() < TOGETHER:
                work["calls"] |= {name: made | {"with_previous": True} for name, made in several}


def _times(system: System, callee: str, made: Table) -> float:
    times: float = system.tiers[callee]["count"] if "all" in made else made["count"]
    return times


def _draw_loads(system: System, entries: tuple[str, ...], kinds: tuple[str, ...]) -> dict[str, float]:
    """Draws the workloads; returns the share of each interaction in all requests."""
    random, asked = system.random, dict[str, float]()
    first = random.uniform(0.4, 0.8) if len(entries) > 1 else 1.0
    writes = round(random.uniform(0.05, 0.4), 3) if len(kinds) > 1 else 0.0
    for entry, name, share in zip(entries, ("users", "others"), (first, 1 - first), strict=False):
        mix = {f"{entry} read": round(1 - writes, 3)} | ({f"{entry} write": writes} if writes else {})
        page: Table = {"entry": entry} | ({"mix": mix} if writes else {"interaction": f"{entry} read"})
        system.pages += (page,)
        system.table["workloads"][name] = _arrivals(random, system.rate * share) | page | _impatience(random)
        asked |= {interaction: share * weight for interaction, weight in mix.items()}
    return asked


def _arrivals(random: Random, rate: float) -> Table:
    """Open, closed, bursty, or in waves."""
    kind = random.choices(("poisson", "closed", "bursty", "modulated"), (35, 35, 15, 15))[0]
    if kind == "poisson":
        return poisson(rate)
    if kind == "modulated":
        usual, wave, times = random.uniform(4, 12), random.uniform(0.3, 1.5), random.uniform(1.3, 3.0)
        least = 1 - (times - 1) * wave / usual
        return {
            "kind": "modulated",
            "rates": [round(rate * least, 1), round(rate * times, 1)],
            "stays": [f"{usual:.2f} s", f"{wave:.2f} s"],
        }
    return closed(random, rate) | ({"index_of_dispersion": random.choice((100, 400))} if kind == "bursty" else {})


def _impatience(random: Random) -> Table:
    """One workload in five has clients that give up and send again, or that send a second copy."""
    how = random.choices(("waits", "retries", "hedges"), (80, 10, 10))[0]
    if how == "retries":
        return {"timeout": f"{random.uniform(1.5, 4):.2f} s", "retries": random.randint(1, 2)}
    return {"hedge": f"{random.uniform(0.3, 0.9):.2f} s"} if how == "hedges" else {}


def _draw_work(system: System, kinds: tuple[str, ...], asked: dict[str, float]) -> None:
    """Writes may be lighter or heavier than reads. The visits of both together use the share of a server that was
    drawn."""
    random = system.random
    weights = {"read": 1.0, "write": random.uniform(0.5, 2.5)}
    visits = {kind: _visits(system, kind, asked) for kind in kinds}
    for name in system.names:
        system.visits[name] = sum(visits[kind][name] for kind in kinds)
        weighed = sum(visits[kind][name] * weights[kind] for kind in kinds)
        most = system.rate * weighed * COMPUTE_MAX / system.tiers[name]["count"]
        system.use[name] = min(system.use[name], most)
        scv = random.choice((0.25, 1.0))
        for kind in kinds:
            compute = COMPUTE_MAX * weights[kind] * system.use[name] / most
            work = {"compute": f"{compute * 1e6:.0f} us", "scv": scv}
            system.table["interactions"][f"{name} {kind}"]["at"][name] |= work


def _visits(system: System, kind: str, asked: dict[str, float]) -> dict[str, float]:
    """Visits of this kind at each tier, for one request of any kind."""
    found = {name: asked.get(f"{name} {kind}", 0.0) for name in system.names}
    for name in system.names:
        work = system.table["interactions"][f"{name} {kind}"]["at"][name]
        for called, made in work.get("calls", {}).items():
            callee = called.removesuffix(f" {kind}")
            found[callee] += found[name] * _times(system, callee, made)
    return found


def _way(system: System, callees: Callees) -> Iterator[str]:
    """A path from the users' entry to a store."""
    name: str | None = system.names[0]
    while name is not None:
        yield name
        name = system.random.choice(callees[name]) if callees.get(name) else None


def _lock(system: System) -> None:
    """Writes of a tier wait for a lock, while it answers reads; or the other way round."""
    tier = system.some_tier()
    kind = system.random.choice(("read", "write"))
    system.stall("lock", tier, 0.8, 1.8, interactions=[f"{tier} {kind}"])


def _guests(system: System) -> None:
    """Another system on a machine of this one, idle except for batches: a server and its database."""
    random = system.random
    node = system.some_machine(system.some_tier())
    # The work takes less than a second where the guests have twice the weight of a server.
    size, work = random.randint(100, 400), random.uniform(0.3, 0.65)
    inner = f"{GUEST} db"
    for name in (GUEST, inner):
        system.tiers[name] = {"kind": "async", "node": [node], "weight": round(random.uniform(2, 20), 1)}
        system.table["interactions"][f"{name} job"] = {"at": {name: {"compute": f"{work / 2 / size * 1e6:.0f} us"}}}
    system.tiers[GUEST]["calls"] = {inner: {"policy": "round_robin"}}
    system.table["interactions"][f"{GUEST} job"]["at"][GUEST]["calls"] = {f"{inner} job": 1}
    system.batch(GUEST, size, {"entry": GUEST, "interaction": f"{GUEST} job"})
