"""Random chains of tiers, loads, troubles: one experiment from one seed, as a table that `tailrace.experiment` checks.

Rates are a few hundred requests a second and limits (threads, backlogs) are drawn in proportion, so that a stall of
half a second overflows them as one of the papers' overflows Apache's 278 places at a thousand requests a second.
"""

from __future__ import annotations

from random import Random

from tailrace.score.troubles import TROUBLES, System, Table, befall, begun, call, limits

ROLES = {2: ("web", "db"), 3: ("web", "app", "db"), 4: ("web", "app", "middle", "db")}


def draw(seed: int) -> Table:
    """Equal seeds give equal experiments."""
    random = Random(seed)
    rate = random.uniform(80, 400)
    tiers = ROLES[random.choices((2, 3, 4), (2, 5, 3))[0]]
    page: Table = {"interaction": f"{tiers[0]} work"}
    system = System(random, rate, tiers, begun(random, seed), way=tiers, pages=(page,))
    _draw_tiers(system)
    _draw_load(system)
    befall(system, TROUBLES)
    return system.table


def _draw_tiers(system: System) -> None:
    random, names = system.random, system.names
    first_sync = random.choices((0, 1, 2, len(names)), (60, 17, 8, 15))[0]
    visits = 1.0
    for place, name in enumerate(names):
        count = random.choices((1, 2, 3, 4), (60, 22, 10, 8))[0]
        kind = "async" if place < first_sync else random.choices(("sync", "bounded"), (85, 15))[0]
        tier = system.tiers[name] = limits(random, count, kind)
        use = random.uniform(0.15, 0.75)
        work: Table = {
            "compute": f"{use * count / (system.rate * visits) * 1e6:.0f} us",
            "scv": random.choice((0.25, 1.0)),
        }
        system.visits[name], system.use[name] = visits, use
        if place + 1 < len(names):
            callee = names[place + 1]
            calls = random.choices((1, 2, 3), (70, 20, 10))[0]
            work["calls"] = {f"{callee} work": calls}
            tier["calls"] = {callee: call(random, kind)}
            visits *= calls
        system.table["interactions"][f"{name} work"] = {"at": {name: work}}


def _draw_load(system: System) -> None:
    random, rate, (page,) = system.random, system.rate, system.pages
    if random.random() < 0.4:
        system.table["workloads"]["users"] = {"kind": "poisson", "rate": round(rate, 1), **page}
        return
    think = random.uniform(2, 7)
    clients = max(int(rate * think), 20)
    system.table["workloads"]["users"] = {"clients": clients, "think": f"{think:.2f} s", **page}
