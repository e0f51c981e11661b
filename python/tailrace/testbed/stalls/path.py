"""A path to a server that loses packets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.experiment.model import PacketLoss
from tailrace.testbed import lossy
from tailrace.testbed.stalls.injection import Injection
from tailrace.testbed.system import System


def injections(system: System, stall: PacketLoss) -> Iterator[Injection]:
    senders = system.servers(stall.sender) if stall.sender else ()
    addresses = sorted({system.settings[name].at.address for name in senders})
    for server in system.servers(stall.place):
        at, namespace = system.settings[server].at, system.nodes.rooms[server].namespace or ""
        table = f"tailrace-{server}-{stall.at}"
        lose = partial(lossy.apply, namespace, lossy.rules(table, at.port, addresses, stall.share))
        yield Injection("packet-loss", server, lose, partial(lossy.forget, namespace, table))
