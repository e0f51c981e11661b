"""What the charts of Netdata mean. A chart has an id and a context: `disk_util.sda` and `disk.util`,
`cgroup_shop.throttled` and `cgroup.throttled`. Either of them names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

CPU = "system.cpu"
NAMES = (
    "system.cpu, cpu.cpuN, system.ctxt, system.processes, system.*_some_pressure_stall_time, mem.pgfaults, "
    "mem.writeback, disk_util.*, disk_busy.*, ip.tcp_accept_queue, ip.tcphandshake, ip.tcperrors, and of cgroups "
    "cpu_limit, throttled, mem, writeback and *_some_pressure_stall_time"
)
"""For messages."""
_MIB = float(1 << 20)
_FILE = re.compile(r"(?:\.(?:json|csv|txt|gz|zst))+\Z")
_GROUP = r"cgroup(?:_(?P<group>.{1,200}))?\."


@dataclass(frozen=True)
class Value:
    """A metric from a chart: the largest of its `dimensions` (in lower case), times `scale`; without them, the shares
    of a CPU. `kind` is `level`, or `rate` for a number per second."""

    metric: str
    dimensions: frozenset[str] = frozenset()
    kind: str = "level"
    scale: float = 1.0


@dataclass(frozen=True)
class Chart:
    """`place` is the name of a control group, or empty for the host; `suffix` is that of a single CPU."""

    values: tuple[Value, ...]
    place: str = ""
    suffix: str = ""


def _one(metric: str, dimensions: str, kind: str = "level", scale: float = 1.0) -> Value:
    return Value(metric, frozenset(dimensions.split()), kind, scale)


_FORMS = {
    r"system\.cpu|cpu\.cpu(?P<core>\d{1,5})": (Value(""),),
    r"system\.ctxt": (_one("context_switches", "switches", "rate"),),
    r"system\.processes": (_one("run_queue", "running"),),
    r"mem\.pgfaults": (_one("major_faults", "major", "rate"),),
    rf"(?:mem|{_GROUP[:-2]})\.writeback": (
        _one("dirty_bytes", "dirty", scale=_MIB),
        _one("writeback_bytes", "writeback", scale=_MIB),
    ),
    r"disk\.util|disk_util\..{1,200}": (_one("disk_busy", "utilization", scale=0.01),),
    r"disk\.busy|disk_busy\..{1,200}": (_one("disk_busy", "busy", scale=0.001),),
    r"(?:ip|ipv4)\.(?:tcp_accept_queue|tcplistenissues)": (_one("listen_drops", "drops listendrops", "rate"),),
    r"(?:ip|ipv4)\.tcphandshake": (_one("syn_retransmits", "synretrans tcpsynretrans", "rate"),),
    r"(?:ip|ipv4)\.tcperrors": (_one("tcp_retransmits", "retranssegs", "rate"),),
    rf"{_GROUP}throttled": (_one("cpu_throttled", "throttled", scale=0.01),),
    rf"{_GROUP}cpu_limit": (_one("cpu_busy", "used", scale=0.01),),
    rf"{_GROUP}mem": (_one("rss_bytes", "rss", scale=_MIB),),
} | {
    rf"(?:system\.|{_GROUP}){what}_some_pressure_stall_time": (_one(f"psi_{what}", "time", scale=0.001),)
    for what in ("cpu", "io", "memory")
}
_CHARTS = tuple((re.compile(form), values) for form, values in _FORMS.items())


def chart_of(name: str) -> Chart | None:
    """The chart of this id or context, or of a file with this name; None if the record has nothing from it."""
    bare = _FILE.sub("", name)
    for form, values in _CHARTS:
        if match := form.fullmatch(bare):
            parts = match.groupdict()
            core = parts.get("core")
            return Chart(values, parts.get("group") or "", f"/cpu{core}" if core else "")
    return None


def exported(name: str, labels: Mapping[str, str]) -> Chart | None:
    """The chart of a metric that Netdata exports to Prometheus as averages, with the chart and the dimension as labels;
    None for any other."""
    averages = name.endswith("_average") and "dimension" in labels
    return chart_of(labels.get("chart", "")) if averages else None
