"""Random chains of tiers with loads and troubles: one seed gives one experiment, a table that `tailrace.experiment`
checks.

Rates are a few hundred requests a second and limits (threads, backlogs) are drawn in proportion, so that a stall of
half a second overflows them as the papers' stalls overflow Apache's 278 places at a thousand requests a second.
"""

from __future__ import annotations

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

ROLES = {2: ("web", "db"), 3: ("web", "app", "db"), 4: ("web", "app", "middle", "db")}


def draw(seed: int) -> Table:
    """Equal seeds give equal experiments."""
    random = Random(seed)
    rate = random.uniform(80, 400)
    names = ROLES[random.choices((2, 3, 4), (2, 5, 3))[0]]
    page: Table = {"interaction": f"{names[0]} work"}
    system = System(random, rate, names, begun(random, seed), way=names, pages=(page,))
    _draw_tiers(system)
    _draw_load(system)
    befall(system, TROUBLES, (memory, packet_loss))
    return system.table


def _draw_tiers(system: System) -> None:
    random, names = system.random, system.names
    visits = 1.0
    for (name, tier), callee in zip(tiers(system), (*names[1:], None), strict=True):
        work: Table = {
            "compute": f"{system.use[name] * tier['count'] / (system.rate * visits) * 1e6:.0f} us",
            "scv": random.choice((0.25, 1.0)),
        }
        system.visits[name] = visits
        if callee:
            calls = random.choices((1, 2, 3), (70, 20, 10))[0]
            work["calls"] = {f"{callee} work": calls}
            tier["calls"] = {callee: call(random, tier)}
            visits *= calls
        system.table["interactions"][f"{name} work"] = {"at": {name: work}}


def _draw_load(system: System) -> None:
    random, rate, (page,) = system.random, system.rate, system.pages
    load = poisson(rate) if random.random() < 0.4 else closed(random, rate)
    system.table["workloads"]["users"] = load | page
