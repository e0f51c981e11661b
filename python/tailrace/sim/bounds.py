"""Bounds of a simulation: from the simulator's clock and counters, and from an acceptable duration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.bounds import PAIRS, SERVERS
from tailrace.experiment import Experiment, to_table
from tailrace.experiment.catalogue import interactions
from tailrace.experiment.kernels import LONGEST
from tailrace.experiment.workloads import Batch, Modulated
from tailrace.units import exact_duration, format_count

COUNT_MAX = 2**32 - 2
SIZE_MAX = 2**63 - 1
TIMES_MAX = 100_000_000
"""The most occurrences of anything periodic in a run; a hundred million take the engine some ten seconds."""
STALLS_MAX = 100_000
_UNITS_OF_TIME = (" s", " ms", " us", " ns")


def exceeded(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Keys whose values exceed the bounds, with the reason."""
    yield from _too_large("", experiment.model_dump(by_alias=True), to_table(experiment))
    whole = experiment.ramp + experiment.duration
    if whole > LONGEST:
        yield "duration", f"at most 6 days with the ramp, got {exact_duration(whole)}"
    for number, stall in enumerate(experiment.stalls):
        if stall.at + stall.length > LONGEST:
            yield f"stalls[{number}].for", f"it ends after 6 days, {exact_duration(stall.at + stall.length)}"
        if stall.every and (times := experiment.duration // stall.every) > STALLS_MAX:
            yield f"stalls[{number}].every", f"{format_count(times)} stalls, at most {format_count(STALLS_MAX)}"
    yield from _too_slow(experiment)
    yield from _too_many(experiment)
    for key, period in _periods(experiment):
        if (times := whole // period) > TIMES_MAX:
            yield key, f"{format_count(times)} times in this run, at most {format_count(TIMES_MAX)}"


def _too_large(key: str, value: Any, written: Any) -> Iterator[tuple[str, str]]:
    """`written` is the value in the notation of a file, where a quantity is text."""
    if isinstance(value, dict):
        for name in written:
            yield from _too_large(f"{key}.{name}" if key else name, value[name], written[name])
    elif isinstance(value, tuple | list):
        for number, (one, text) in enumerate(zip(value, written, strict=True)):
            yield from _too_large(f"{key}[{number}]", one, text)
    elif not isinstance(value, int) or key in ("seed", "replication"):
        return
    elif isinstance(written, int) and value > COUNT_MAX:
        yield key, f"at most {format_count(COUNT_MAX)}, got {value}"
    elif isinstance(written, str) and written.endswith(_UNITS_OF_TIME) and value > LONGEST:
        yield key, f"at most 6 days, got {written}"
    elif value > SIZE_MAX:
        yield key, f"at most {format_count(SIZE_MAX)} bytes, got {written}"


def _too_many(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Tiers and calls that make a topology too large for a run folder."""
    counts = {name: tier.count for name, tier in experiment.tiers.items()}
    if (servers := sum(counts.values())) > SERVERS:
        largest = max(counts, key=counts.__getitem__)
        yield f"tiers.{largest}.count", f"{format_count(servers)} servers in all, at most {format_count(SERVERS)}"
    calls = [(name, callee, call) for name, tier in experiment.tiers.items() for callee, call in tier.calls.items()]
    of_kinds = any(call.pool and "interaction" in (call.pool_per or ()) for _, _, call in calls)
    kinds = len(interactions(experiment)) if of_kinds else 1
    pairs = 0
    for name, callee, call in calls:
        pools = kinds if call.pool and "interaction" in (call.pool_per or ()) else 1
        pairs += counts[name] * counts[callee] * pools
        if pairs > PAIRS:
            what = "pairs of servers that call each other, or pools between them, up to here"
            yield f"tiers.{name}.calls.{callee}", f"{format_count(pairs)} {what}; at most {format_count(PAIRS)}"
            return


def _too_slow(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Visits whose work a `demand_factor` makes longer than a run can be."""
    doing: dict[str, list[str]] = {}
    for tier, settings in experiment.tiers.items():
        for place in dict.fromkeys((tier, settings.role or tier)):
            doing.setdefault(place, []).append(tier)
    for name, interaction in interactions(experiment).items():
        for place, work in interaction.at.items():
            for tier in doing.get(place, ()):
                own = tier == place or not interaction.at.get(tier)
                if own and work.compute * experiment.tiers[tier].demand_factor > LONGEST:
                    computes = exact_duration(work.compute)
                    without = f"at most 6 days of {name}, which computes {computes} without it"
                    yield f"tiers.{tier}.demand_factor", without


def _periods(experiment: Experiment) -> Iterator[tuple[str, int]]:
    if experiment.sampling.interval:
        yield "sampling.interval", experiment.sampling.interval
    for name, node in experiment.nodes.items():
        if node.governor:
            yield f"nodes.{name}.governor.period", node.governor.period
        if node.disk and node.disk.writeback:
            yield f"nodes.{name}.disk.writeback.period", node.disk.writeback.period
        if node.disk and node.disk.flush:
            yield f"nodes.{name}.disk.flush.period", node.disk.flush.period
    for name, tier in experiment.tiers.items():
        if tier.quota:
            yield f"tiers.{name}.quota.period", tier.quota.period
    for name, workload in experiment.workloads.items():
        if isinstance(workload, Batch):
            yield f"workloads.{name}.every", workload.every
        if isinstance(workload, Modulated):
            yield f"workloads.{name}.stays", sum(workload.stays)
