"""Logs that are written more smoothly, elsewhere, or not at all."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Changes, Option, Path, Remedy, relieved, sizeless
from tailrace.experiment import Experiment
from tailrace.experiment.machines import Disk
from tailrace.units import MILLISECOND, SECOND, exact_duration

PERIODS = (5 * SECOND, 1 * SECOND, 200 * MILLISECOND)
"""How often dirty pages are written; the flusher wakes twice as often."""
APART = "write the logs of {} to a disk of their own"


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, node in experiment.nodes.items():
        if node.disk and (node.disk.writeback or node.disk.flush):
            yield _often(name, node.disk)
            kinds = [kind for kind in ("writeback", "flush") if getattr(node.disk, kind)]
            nothing: Changes = {("nodes", name, "disk", kind, "blocks"): 0.0 for kind in kinds}
            yield sizeless(name, nothing, APART.format(name))
    for name, tier in experiment.tiers.items():
        if tier.log:
            words = f"turn off the access logs of {name}, or send them over the network"
            yield sizeless(name, {("tiers", name, "log"): 0}, words)
    yield from relieved(experiment, ("log-flush", "writeback", "log-flush or writeback"), APART)


def _often(name: str, disk: Disk) -> Option:
    def changes(size: int) -> Changes:
        found: dict[Path, str] = {}
        if disk.writeback:
            found[("nodes", name, "disk", "writeback", "expire")] = exact_duration(size)
            found[("nodes", name, "disk", "writeback", "period")] = exact_duration(size // 2)
        if disk.flush:
            found[("nodes", name, "disk", "flush", "period")] = exact_duration(size)
        return found

    now = max(disk.writeback.expire if disk.writeback else 0, disk.flush.period if disk.flush else 0)
    return Option(
        name,
        tuple(period for period in PERIODS if period < now),
        changes,
        lambda size: f"write the logs of {name} every {exact_duration(size)} instead of every {exact_duration(now)}",
    )


REMEDY = Remedy(
    "flush",
    _options,
    "setting",
    "More frequent writes cost throughput of the disk; what is not yet written is lost in a crash.",
    "balancers III-B (dirty pages); rpc-vs-async IV-B",
)
