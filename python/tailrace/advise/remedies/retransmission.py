"""Senders that repeat a lost connection attempt earlier."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Changes, Option, Remedy, sizeless
from tailrace.experiment import Experiment
from tailrace.experiment.kernels import schedule
from tailrace.experiment.model import SYN_SCHEDULES
from tailrace.units import SECOND

EARLY = ("200 ms", "400 ms", "800 ms", "1.6 s", "3.2 s", "6.4 s")
"""Doubling from Linux' TCP_RTO_MIN, as a program attached to the socket can set it (BPF_SOCK_OPS_TIMEOUT_INIT)."""


def _options(experiment: Experiment) -> Iterator[Option]:
    first = schedule(experiment)["repeats"][:1]
    newer = tuple(name for name, (moments, _) in SYN_SCHEDULES.items() if first and moments[0] * SECOND < first[0])
    if newer:
        yield Option(
            "senders",
            newer,
            lambda size: {("kernel", "syn"): size, ("kernel", "give_up"): None},
            lambda size: f"run {size} or later on the machines that open connections",
        )
    if not first or first[0] > SECOND // 5:
        early: Changes = {("kernel", "syn"): list(EARLY), ("kernel", "give_up"): None}
        yield sizeless("senders", early, f"let the machines that open connections repeat an attempt after {EARLY[0]}")


REMEDY = Remedy(
    "retransmission",
    _options,
    "software",
    "It works only on senders that you run, and repeats reach a server that may still be stalled.",
    "lightning 4 (1 s retransmission timeout); RFC 6298",
)
