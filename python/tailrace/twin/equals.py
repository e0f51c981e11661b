"""Candidates of one balancer that are equal: chance decides which of them gets the long queue.

The counts by which a balancer chooses begin before the recording. So a twin may give to one candidate what another one
got. Where nothing tells the two apart, the run is compared with their names interchanged: the candidate with the
longest queue is the one that had it in the recording, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tailrace.experiment import places
from tailrace.twin.model import Twin
from tailrace.twin.outcome import Outcome


def equals(twin: Twin) -> list[dict[str, str]]:
    """Sets of equal servers, by their names in the recording, with their names in the twin: of one tier, each on a node
    of its own, and none with a loss or a stall of its own."""
    tier = {one.name: one.tier for one in places.servers(twin.experiment)}
    apart = {str(one["place"]) for key in ("losses", "stalls") for one in twin.table[key]}
    found: dict[str, dict[str, str]] = {}
    for server, name in twin.servers.items():
        if name not in apart and not twin.experiment.tiers[tier[name]].node:
            found.setdefault(tier[name], {})[server] = name
    return [its for its in found.values() if len(its) > 1]


def interchanged(recorded: Outcome, run: Outcome, sets: Sequence[Mapping[str, str]]) -> Outcome:
    """The run with the names of equal servers in the order of the recording. `run` has the names of the twin."""
    called: dict[str, str] = {}
    for its in sets:
        theirs = sorted(its, key=lambda name: (recorded.longest.get(name, 0), recorded.drops.get(name, 0)))
        ours = sorted(its.values(), key=lambda name: (run.longest.get(name, 0), run.drops.get(name, 0)))
        called |= {name: its[server] for name, server in zip(ours, theirs, strict=True)}
    return replace(
        run,
        longest={called.get(name, name): count for name, count in run.longest.items()},
        drops={called.get(name, name): count for name, count in run.drops.items()},
    )
