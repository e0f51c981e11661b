"""Calls beyond the usual number: visits make far more calls to a server than such visits usually make. Where a value of
a cache expires, each visit asks for it until it is there again. One visit may ask for each of a thousand rows apart."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.constants import FEW, MANY
from tailrace.diagnosis.ledger import excess, places
from tailrace.diagnosis.ledger.excess import beyond_usual, stretches
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import NEVER, Mask, Shares
from tailrace.diagnosis.queues import Times
from tailrace.topology import Topology

SAYS = "the bursts of calls to {server}"


def beyond(recorded: Recorded, calm: Mask, repeated: Times, topology: Topology) -> dict[str, Times]:
    """Return for each server the calls to it beyond the number that their visits usually make to its service. Calls
    that were `repeated` do not count, and neither do logins: they are made because others were slow."""
    counts = ~places.opens(recorded.names)
    counts[repeated] = False
    services: dict[tuple[str, str], list[Times]] = {}
    for (caller, callee), made in recorded.ways.items():
        services.setdefault((caller, _service(topology, caller, callee)), []).append(made[counts[made]])
    found = [np.empty(0, dtype=np.int64)]
    for (caller, _), ways in services.items():
        made = np.concatenate(ways)
        if len(made) >= FEW:
            visits = np.flatnonzero(recorded.server == recorded.number[caller])
            found.append(_beyond(recorded, calm, visits, made))
            found.append(_alone(recorded, calm, made))
    calls = np.unique(np.concatenate(found))
    servers = recorded.server[calls]
    return {recorded.servers[callee]: calls[servers == callee] for callee in np.unique(servers).tolist()}


def _service(topology: Topology, caller: str, callee: str) -> str:
    """Return the name of the balancer that chose the callee, or of its group. If a candidate is chosen more often, no
    more calls are made."""
    names = topology.names_of(callee)
    chosen = (one.name for one in topology.balancers_of(caller) if set(names) & set(one.candidates))
    return next(chosen, names[-1])


def _beyond(recorded: Recorded, calm: Mask, visits: Times, made: Times) -> Times:
    """Return which of these calls are beyond the usual number of these visits. A call counts when its visit arrived,
    because visits that wait make their calls late. Visits of each group have a usual number of their own: that of
    calm time if enough of them came then, and otherwise that of all time."""
    arrival, steps = recorded.arrival, recorded.steps
    made = made[recorded.parent[made] >= 0]
    made = made[np.argsort(arrival[recorded.parent[made]], kind="stable")]
    parents = recorded.parent[made]
    came, made_in = steps.at(arrival[visits]), steps.at(arrival[parents])

    def number(calm_only: bool) -> tuple[Times, Times]:
        """Return how many visits each group has, and how many calls they made."""
        some = (visits[calm[came]], parents[calm[made_in]]) if calm_only else (visits, parents)
        of_visits, of_calls = (np.bincount(recorded.group[its], minlength=recorded.groups) for its in some)
        return of_visits, of_calls

    (in_calm, calls_in_calm), (every, all_calls) = number(True), number(False)
    enough = in_calm >= MANY
    each = np.where(enough, calls_in_calm, all_calls) / np.maximum(np.where(enough, in_calm, every), 1)
    usual: Shares = np.bincount(came, each[recorded.group[visits]], len(steps)).astype(np.float64)
    found = stretches(np.bincount(made_in, minlength=len(steps)), usual, FEW)
    return made[beyond_usual(arrival[parents], usual, found)]


def _alone(recorded: Recorded, calm: Mask, made: Times) -> Times:
    """Return which of these calls have no known parent, are answered, and come beyond the usual number of all. Others
    that were given up may be repetitions, whose first attempts are not known."""
    made = made[np.argsort(recorded.sent[made], kind="stable")]
    sent = recorded.sent[made]
    counts = np.bincount(recorded.steps.at(sent), minlength=len(recorded.steps))
    even = np.ones(len(counts))
    usual = excess.rate(calm, counts, even) * even
    its = made[beyond_usual(sent, usual, stretches(counts, usual, FEW))]
    alone: Times = its[recorded.orphan[its] & (recorded.gives_up[its] == NEVER)]
    return alone
