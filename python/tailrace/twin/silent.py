"""Clients that had a connection and sent nothing. In the twin they connect when they did, and leave after as long; a
worker that takes such a connection waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, log10
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.silences import NAME
from tailrace.twin.structure import Structure
from tailrace.twin.tree import Tree
from tailrace.units import SECOND, exact_duration

DIGITS = 2
"""Of how long they were silent: 1.5 s and 1.6 s are interactions of their own. A twin is known to about one percent
where it matters, and a silence of a tenth more or less ends a stall by as much earlier or later."""

Interactions = dict[str, dict[str, Any]]


def apart(
    recorded: Recorded, found: Structure, kinds: Tree, requests: Mapping[str, pl.DataFrame], begin: int
) -> tuple[dict[str, pl.DataFrame], Interactions]:
    """The requests by entry tier, where each silent client makes an interaction of its own by how long it was silent,
    and these interactions."""
    labels = [label for number, label in kinds.label.items() if kinds.kinds[number].interaction == NAME]
    made: Interactions = {}
    again: dict[str, pl.DataFrame] = {}
    for tier, rows in requests.items():
        silent = rows["interaction"].is_in(labels)
        if not silent.any():
            again[tier] = rows
            continue
        sent, lasted = _silences(recorded, found.members[tier], begin)
        which = np.searchsorted(sent, rows.filter(silent)["time"].to_numpy() - 0.5 / SECOND)
        ends = [_rounded(int(lasted[at])) for at in np.minimum(which, len(sent) - 1)]
        names = [f"{NAME} for {exact_duration(one)}" for one in ends]
        made |= {name: _interaction(tier, one) for name, one in zip(names, ends, strict=True)}
        every = rows["interaction"].to_list()
        for at, name in zip(np.flatnonzero(silent.to_numpy()).tolist(), names, strict=True):
            every[at] = name
        again[tier] = rows.with_columns(interaction=pl.Series(every, dtype=pl.String))
    return again, made


def _silences(
    recorded: Recorded, servers: tuple[str, ...], begin: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """When clients of these servers connected that sent nothing, s, in order, and how long each stayed, ns."""
    numbers = [recorded.number[name] for name in servers]
    rows = np.flatnonzero((recorded.names[:] == NAME) & np.isin(recorded.server, numbers))
    sent = recorded.steps.lengthened(recorded.sent[rows])
    lasted = recorded.steps.lengthened(recorded.departure[rows]) - recorded.steps.lengthened(recorded.arrival[rows])
    order = np.argsort(sent, kind="stable")
    return (sent[order] - begin) / SECOND, lasted[order]


def _rounded(time: int) -> int:
    step = 10 ** max(floor(log10(max(time, 1))) + 1 - DIGITS, 0)
    return int(round(time / step) * step)


def _interaction(tier: str, lasted: int) -> dict[str, Any]:
    work = {"compute": "0 ns", "scv": 0.0, "wait": exact_duration(lasted), "interleaved": True, "calls": {}}
    return {"servlet": NAME, "silent": True, "at": {tier: work}}
