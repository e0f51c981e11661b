"""`simpy_model.py MODEL SECONDS`: the benchmark's models in SimPy 4, as its documentation writes them: nested requests.

CPUs serve one job after another: SimPy has no processor sharing, and this is less work. The mean response is the same.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator

import simpy
from models import REPEATS, SECOND, STALL_EVERY_S, STALL_NS

TIERS = [("web", 150, (1e-4, 1e-4)), ("app", 50, (2e-4, 2e-4)), ("db", 50, (5e-4,))]
BACKLOG = 128
SAMPLE_S = 0.05


class System:
    def __init__(self, model: str) -> None:
        self.env = simpy.Environment()
        self.random = random.Random(1)
        self.stalls = model == "stalls"
        self.tiers = [("s", 1_000_000, (5e-4,))] if model == "single" else TIERS
        self.threads = [simpy.Resource(self.env, capacity) for _, capacity, _ in self.tiers]
        self.cpus = [simpy.PriorityResource(self.env, 1) for _ in self.tiers]
        self.answered, self.response, self.over_1s, self.drops = 0, 0.0, 0, 0
        self.samples: list[tuple[int, int, int]] = []
        clients, think = (7000, 7.0) if self.stalls else (1000, 1.0)
        for _ in range(clients):
            self.env.process(self.client(think))
        if self.stalls:
            self.env.process(self.stall())
            self.env.process(self.monitor())

    def client(self, think: float) -> Iterator[simpy.Event]:
        yield self.env.timeout(self.random.random() * think)
        while True:
            begin = self.env.now
            yield from self.call(0)
            took = self.env.now - begin
            self.answered += 1
            self.response += took
            self.over_1s += took >= 1
            yield self.env.timeout(self.random.expovariate(1 / think))

    def call(self, tier: int) -> Iterator[simpy.Event]:
        threads, bursts = self.threads[tier], self.tiers[tier][2]
        if self.stalls:
            begin = self.env.now
            for repeat in REPEATS:
                if threads.count < threads.capacity or len(threads.queue) <= BACKLOG:
                    break
                self.drops += 1
                yield self.env.timeout(begin + repeat / SECOND - self.env.now)
        with threads.request() as thread:
            yield thread
            yield from self.compute(tier, bursts[0])
            if len(bursts) > 1:
                yield from self.call(tier + 1)
                yield from self.compute(tier, bursts[1])

    def compute(self, tier: int, mean: float) -> Iterator[simpy.Event]:
        with self.cpus[tier].request(priority=1) as turn:
            yield turn
            yield self.env.timeout(self.random.expovariate(1 / mean))

    def stall(self) -> Iterator[simpy.Event]:
        while True:
            yield self.env.timeout(STALL_EVERY_S - self.env.now % STALL_EVERY_S)
            with self.cpus[-1].request(priority=0) as turn:
                yield turn
                yield self.env.timeout(STALL_NS / SECOND)

    def monitor(self) -> Iterator[simpy.Event]:
        while True:
            yield self.env.timeout(SAMPLE_S)
            for threads, cpu in zip(self.threads, self.cpus, strict=True):
                self.samples.append((threads.count, len(threads.queue), len(cpu.queue)))


system = System(sys.argv[1])
system.env.run(until=float(sys.argv[2]))
counts = {"response_ns": system.response * SECOND, "over_1s": system.over_1s, "drops": system.drops}
print(json.dumps({"answered": system.answered, **counts}))
