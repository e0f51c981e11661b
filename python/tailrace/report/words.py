"""Makes text from numbers, times and names of a capture.

The senders of a capture choose its names: `visible`, `name` and `sentence` make them safe to show.
"""

from __future__ import annotations

from tailrace import units
from tailrace.dataset.metrics import SHARES
from tailrace.diagnosis.finding import Ctqo, Number, Step
from tailrace.foreign import listed as listed
from tailrace.foreign import name as name
from tailrace.foreign import sentence as sentence
from tailrace.foreign import visible as visible

STEP_TITLES: dict[Step, str] = {
    "vlrt": "Very long response times",
    "drops": "Dropped packets",
    "overflow": "Queue overflow",
    "millibottleneck": "Millibottleneck",
    "cause": "Cause",
}

STEP_WORDS: dict[Step, str] = {
    "vlrt": "VLRT",
    "drops": "drops",
    "overflow": "overflow",
    "millibottleneck": "millibottleneck",
    "cause": "cause",
}

CTQO_WORDS: dict[Ctqo, str] = {
    "upstream": "upstream CTQO",
    "downstream": "downstream CTQO",
    "local": "local overflow",
    "soft-resource": "soft resource",
    "unknown": "unknown overflow",
    "none": "no overflow",
}

CTQO_MEANING: dict[Ctqo, str] = {
    "upstream": "queues filled against the direction of the calls: the origin is downstream of the server that dropped",
    "downstream": "requests that were held back upstream arrived all at once and overflowed a downstream server",
    "local": "the queue of the server that dropped rose by itself",
    "soft-resource": "a pool or thread limit was reached while no hardware was saturated",
    "unknown": "packets were lost, but the recording does not show which server lost them, or where the overload began",
    "none": "no queue overflowed",
}

METRIC_WORDS = {
    "vlrt": "VLRT requests",
    "drops": "Lost attempts",
    "queue_length": "Queue length",
    "arrivals": "Arrivals",
    "cpu_busy": "CPU busy",
    "cpu_iowait": "I/O wait",
    "cpu_steal": "CPU stolen",
    "cpu_throttled": "CPU throttled",
    "cpu_hz": "Clock rate",
    "cpu_hz_max": "Highest clock rate",
    "run_queue": "Run queue",
    "accept_queue": "Accept queue",
    "accept_queue_limit": "Accept queue limit",
    "listen_drops": "Listen drops",
    "syn_retransmits": "SYN retransmissions",
    "workers_busy": "Workers busy",
    "pool_in_use": "Pool in use",
    "pool_waiting": "Waiting for pool",
    "dirty_bytes": "Dirty pages",
    "writeback_bytes": "Writeback",
    "disk_busy": "Disk busy",
    "gc_share": "Garbage collection",
    "processes": "Processes",
    "processes_ended": "Processes ended",
    "rss_bytes": "Resident memory",
    "context_switches": "Context switches",
    "psi_cpu": "CPU pressure",
    "psi_io": "I/O pressure",
    "psi_memory": "Memory pressure",
    "major_faults": "Major page faults",
    "direct_reclaims": "Direct reclaims",
    "balancer_value": "Balancer value",
}

EVENT_WORDS = {"gc": "garbage collection", "neighbour_burst": "burst", "process_spawn": "new process"}


def share(part: float) -> str:
    return units.format_share(part)


def count(number: float) -> str:
    return f"{number:,.0f}"


def duration(ns: float) -> str:
    return units.format_duration(round(ns))


def moment(ns: int, begin: int) -> str:
    """Seconds since the recording began."""
    return f"{(ns - begin) / units.SECOND:.2f} s"


def clock(ns: int) -> str:
    """Date and time of day in UTC, to the millisecond."""
    return units.format_moment(ns).replace("T", " ").replace("Z", " UTC")


def number(key: str, value: Number) -> str:
    """A number of a finding with its unit, which the end of its key states."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return name(value)
    if key.endswith("_ns") or "_ns_" in key:
        return duration(value)
    if "bytes" in key:
        return units.format_bytes(round(value))
    if key.endswith("_per_s"):
        return f"{value:,.0f}/s" if abs(value) >= 10 else f"{value:.1f}/s"
    if key.endswith("_share") or key.startswith("share_") or any(metric in key for metric in SHARES):
        return share(value) if 0 <= value <= 1 else f"{value:.3g}"
    return count(value) if float(value).is_integer() else f"{value:.3g}"


def label(key: str) -> str:
    """`queue_length_max` as words; the value contains the unit."""
    for suffix in ("_ns", "_bytes", "_per_s"):
        key = key.removesuffix(suffix)
    text = key.replace("_ns_", " ").replace("_", " ")
    text = {"vlrt": "VLRT", "ctqo": "CTQO"}.get(text, text)
    return text.replace("cpu", "CPU").replace("vlrt", "VLRT")


def metric(key: str) -> str:
    return METRIC_WORDS.get(key) or name(key.replace("_", " "))


def cause(text: str) -> str:
    """Return the name of a cause as words."""
    return name(text.replace("-", " "))


def plural(number: int, one: str, many: str | None = None) -> str:
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
