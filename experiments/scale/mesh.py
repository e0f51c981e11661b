"""Generates a mesh of services like published call graphs, as an experiment: `mesh.py 1000 > mesh/experiment.toml`.

```text
users ─▶ gateway ─▶ entry ─┬▶ service ─▶ store        a kind of request is a tree of calls; most trees are small,
                           ├▶ cache                    a few are large; a few services are in most of them
                           └▶ service ─┬▶ store
                                       └▶ cache
```

The shape follows what Luo et al. report of Alibaba's traces (SoCC 2021): the sizes of call graphs have a heavy tail,
graphs are wide and shallow, most leaves are caches and stores, and a few hot services receive most calls. The numbers
here are chosen so, and not fitted. Equal arguments give equal bytes.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from random import Random

RATE = 200.0
"""Requests a second of all kinds together."""
GATEWAY = "gateway"
LAYERS = (8, 20, 20, 12, 40)
"""How many services are in each layer, in percent."""
STORES = len(LAYERS)
CALLS_MAX = 60
"""Of one kind of request."""
WIDTH_TAIL = 1.4
"""The exponent of the Pareto distribution of the number of calls that one visit makes."""
KNOWN = 0.6
"""Share of calls to a service that is called already, chosen by how often it is."""
STALL_AT, STALL_FOR = "20 s", "1.5 s"
SAMPLED = "200 ms"
"""Of a thousand machines, 50 ms would be eight million samples a minute."""


@dataclass
class Mesh:
    random: Random
    layers: dict[str, int]
    """A service calls only those of deeper layers, so that there are no cycles. Those of the last layer are stores."""
    fresh: list[str]
    """Services that nobody calls yet."""
    called: list[str] = field(default_factory=list)
    """A service for each call to it."""
    callees: dict[str, set[str]] = field(default_factory=dict)
    interactions: dict[str, tuple[str, int, list[str]]] = field(default_factory=dict)
    """Name → service, compute in microseconds, names of the interactions that it calls."""

    def grow(self, kind: str, caller: str, service: str, left: list[int]) -> str:
        """Add the tree below a call; `left` holds how many calls the kind of request may still make."""
        self.called.append(service)
        self.callees.setdefault(caller, set()).add(service)
        name = f"{kind}.{CALLS_MAX - left[0]}"
        calls: list[str] = []
        self.interactions[name] = (service, self.random.randint(50, 400), calls)
        width = 0 if self.layers[service] == STORES else int(self.random.paretovariate(WIDTH_TAIL))
        for _ in range(width):
            callee = self.pick(service) if left[0] else None
            if callee is None:
                break
            left[0] -= 1
            calls.append(self.grow(kind, service, callee, left))
        return name

    def pick(self, caller: str, deepest: int = STORES) -> str | None:
        """A service that is called already, in proportion to the calls to it, or a fresh one."""
        above = self.layers[caller]
        known = self.random.choices(self.called, k=8) if self.called and self.random.random() < KNOWN else []
        found = next((one for one in (*known, *self.fresh) if above < self.layers[one] <= deepest), None)
        if found in self.fresh:
            self.fresh.remove(found)
        return found


def mesh(services: int, seed: int) -> tuple[Mesh, list[str]]:
    """The mesh, and the interactions of the gateway, one for each kind of request."""
    random = Random(seed)
    names = [f"s{number:04d}" for number in range(1, services)]
    layers = dict(zip(names, random.choices(range(1, STORES + 1), LAYERS, k=len(names)), strict=True))
    found = Mesh(random, {GATEWAY: 0, **layers}, names)
    kinds: list[str] = []
    while found.fresh:
        # Where no fresh service is an entry, one of the others is called by a kind of its own.
        entry = found.pick(GATEWAY, 1) or found.fresh.pop(0)
        kind = f"k{len(kinds):03d}"
        found.interactions[kind] = (GATEWAY, 50, [found.grow(kind, GATEWAY, entry, [CALLS_MAX])])
        kinds.append(kind)
    return found, kinds


def hottest(found: Mesh, kinds: list[str], weights: dict[str, float]) -> str:
    """The service that calls others and receives most visits."""
    visits: dict[str, float] = {}

    def add(name: str, share: float) -> None:
        service, _, calls = found.interactions[name]
        visits[service] = visits.get(service, 0.0) + share
        for call in calls:
            add(call, share)

    for kind in kinds:
        add(kind, weights[kind])
    inner = [name for name in visits if name in found.callees and name != GATEWAY]
    return max(inner, key=lambda name: (visits[name], name))


def experiment(services: int, instances: int, seed: int, seconds: int, sampled: str) -> str:
    found, kinds = mesh(services, seed)
    # Zipf: the n-th most frequent kind is 1/n as frequent as the first.
    whole = sum(1 / number for number in range(1, len(kinds) + 1))
    weights = {kind: 1 / number / whole for number, kind in enumerate(kinds, 1)}
    lines = [
        f"# Generated by experiments/scale/mesh.py {services} --instances {instances} --seed {seed} "
        f"--seconds {seconds} --sampled {sampled.replace(' ', '')}",
        f'duration = "{seconds} s"',
        'ramp = "5 s"',
        f"seed = {seed}",
        "",
        "[kernel]",
        'syn = "linux-3.3"',
        "",
        "[sampling]",
        f'interval = "{sampled}"',
        "",
        "[workloads.users]",
        'kind = "poisson"',
        f"rate = {RATE}",
        'entry = "gateway"',
        "[workloads.users.mix]",
        *(f'"{kind}" = {weight:.6f}' for kind, weight in weights.items()),
        "",
        "[[stalls]]",
        'kind = "freeze"',
        f'place = "{hottest(found, kinds, weights)}{"1" if instances > 1 else ""}"',
        f'at = "{STALL_AT}"',
        f'for = "{STALL_FOR}"',
        "",
    ]
    for name in found.layers:
        workers, backlog = (1000, 128) if name == GATEWAY else (16, 16)
        calls = ", ".join(f'"{callee}"' for callee in sorted(found.callees.get(name, ())))
        count = f"\ncount = {instances}" if instances > 1 and name != GATEWAY else ""
        lines.append(f'[tiers."{name}"]{count}\nworkers = {workers}\nbacklog = {backlog}\ncalls = [{calls}]')
    for name, (service, compute, calls) in found.interactions.items():
        made = ", ".join(f'"{call}" = 1' for call in calls)
        at = f'{{ compute = "{compute} us", calls = {{ {made} }} }}' if made else f'{{ compute = "{compute} us" }}'
        lines.append(f'[interactions."{name}".at]\n"{service}" = {at}')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("services", type=int)
    words.add_argument("--instances", type=int, default=1, help="servers of each service but the gateway")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--seconds", type=int, default=60)
    words.add_argument("--sampled", default=SAMPLED, help="the interval of samples")
    given = words.parse_args()
    sys.stdout.write(experiment(given.services, given.instances, given.seed, given.seconds, given.sampled))
