"""A neighbour on the server's node that computes without end, and is frozen until its turn."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.experiment import places
from tailrace.experiment.losses import NEIGHBOUR
from tailrace.experiment.model import Burn
from tailrace.testbed import program
from tailrace.testbed.cgroup import Group
from tailrace.testbed.stalls.injection import Injection
from tailrace.testbed.system import System

_ENDLESS = ["sh", "-c", "while :; do :; done"]


def injections(system: System, stall: Burn) -> Iterator[Injection]:
    for node in places.machines(system.experiment, stall.place):
        group = neighbour(system, node, stall.weight, stall.threads)
        yield Injection(NEIGHBOUR, node, group.thaw, group.freeze)


def neighbour(system: System, node: str, weight: float, threads: int) -> Group:
    """The group of so many frozen processes."""
    beside = sum(name.startswith(f"{node}-neighbour") for name in system.nodes.rooms)
    name = f"{node}-neighbour{beside + 1 if beside else ''}"
    room = system.nodes.beside(node, name, weight)
    system.nodes.rooms[name] = room
    room.group.freeze()
    for _ in range(threads):
        program.start(name, _ENDLESS, room, system.folder / f"{name}.log")
    return room.group
