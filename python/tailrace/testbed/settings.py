"""The settings of every server of an experiment: addresses, callees, callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path

from tailrace.experiment import Experiment, places
from tailrace.testbed.servers import KINDS
from tailrace.testbed.servers.setting import Called, Endpoint, Setting


def settings(experiment: Experiment, addresses: Mapping[str, str], folder: Path) -> dict[str, Setting]:
    """By server, in the order in which they are started: callees before their callers."""
    levels = places.levels(experiment)
    deepest_first = sorted(places.servers(experiment), key=lambda server: -levels[server.tier])
    found: dict[str, Setting] = {}
    taken: set[tuple[str, int]] = set()
    for server in deepest_first:
        setting = _without_port(experiment, server, addresses, folder, found)
        port = KINDS[setting.tier.software or ""].port(setting)
        while (server.node, port) in taken:
            port += 1
        taken.add((server.node, port))
        found[server.name] = replace(setting, at=replace(setting.at, port=port))
    return found


def _without_port(
    experiment: Experiment,
    server: places.Server,
    addresses: Mapping[str, str],
    folder: Path,
    called: Mapping[str, Setting],
) -> Setting:
    tier = experiment.tiers[server.tier]
    return Setting(
        experiment=experiment,
        name=server.tier,
        tier=tier,
        at=Endpoint(server.name, addresses[server.node], port=0),
        cores=ceil(places.nodes(experiment)[server.node].cores),
        callers=tuple(caller for caller in experiment.tiers.values() if server.tier in caller.calls),
        calls=tuple(
            Called(
                tier=experiment.tiers[callee],
                call=call,
                endpoint=places.endpoint(experiment, server.tier, callee, call),
                recover_time=places.recover_time(experiment, server.tier, callee, call),
                candidates=tuple(called[n].at for n in places.server_names(callee, experiment.tiers[callee])),
            )
            for callee, call in tier.calls.items()
        ),
        folder=folder / server.name,
    )
