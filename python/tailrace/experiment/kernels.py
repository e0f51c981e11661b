"""The times at which lost connection attempts are repeated, in nanoseconds after the first attempt."""

from __future__ import annotations

from typing import Any

from tailrace.experiment.model import RESOLVER, SYN_SCHEDULES, Experiment
from tailrace.units import SECOND

LONGEST = 6 * 24 * 3600 * SECOND
"""The largest time: it must fit into 49 bits of nanoseconds (`crates/core/src/workload/check.rs`)."""


def schedule(experiment: Experiment, named: str | None = None, connect_timeout: int = 0) -> dict[str, Any]:
    """`repeats`, `give_up` and `data_repeats` of a sender: from its kernel if it names one, else from `[kernel]`. A
    program that gives up earlier than its kernel has a `connect_timeout`, ns."""
    kernel = experiment.kernel
    syn = named or kernel.syn
    if isinstance(syn, str):
        seconds, last = SYN_SCHEDULES[syn]
        repeats, give_up = [second * SECOND for second in seconds], last * SECOND
    else:
        repeats, give_up = list(syn), min(2 * max(syn, default=SECOND // 2), LONGEST)
    if kernel.give_up and not named:
        give_up = kernel.give_up
    give_up = min(give_up, connect_timeout or give_up)
    repeats = [moment for moment in repeats if moment < give_up]
    return {"repeats": repeats, "give_up": give_up, "data_repeats": list(kernel.data)}


def of_resolver() -> dict[str, Any]:
    """The same of a caller that asks for names."""
    (seconds, last) = RESOLVER
    return {"repeats": [second * SECOND for second in seconds], "give_up": last * SECOND, "data_repeats": []}
