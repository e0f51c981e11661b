"""What `pcp2json` prints of a live host, or of an archive of Performance Co-Pilot.

```text
{"@pcp": {"@hosts": [{"@host": "app1", "@metrics": [
    {"@interval": "1", "@timestamp": "2026-11-20 16:49:01",
     "kernel": {"all": {"cpu": {"user": {"@unit": "ms/s", "value": "924.2"}}}},
     "disk": {"dev": {"avactive": {"@instances": [{"name": "vda", "@unit": "ms/s", "value": "68.4"}]}}}}
```
Counters are rates in units of time or events a second; with `-r` they are the counters themselves, whose growth gives
the rates. The first moment has no rates. `@interval` is rounded to whole seconds, so it counts only where the stamps do
not show how long an interval was.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tailrace.bounds import NAMES
from tailrace.readers.elements import elements, moment, number, rows, table, text
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import SECOND

_SEEN = re.compile(r'"@pcp"\s*:\s*\{')
_OPENING = re.compile(r'"@metrics"\s*:\s*\[')
_RESUME = re.compile(r'\{\s*"@(?:interval|timestamp)"\s*:')
_HOST = re.compile(r'"@host"\s*:\s*"([^"\\]{1,255})"[^{}\[\]]*\Z')
_DEPTH = 12
"""Levels of a metric's name; those of Performance Co-Pilot have at most six."""

_SECONDS = {
    **dict.fromkeys(("ns", "nanosec"), 1e-9),
    **dict.fromkeys(("us", "microsec"), 1e-6),
    **dict.fromkeys(("ms", "millisec"), 1e-3),
    **dict.fromkeys(("s", "sec"), 1.0),
    **dict.fromkeys(("min",), 60.0),
    **dict.fromkeys(("hr", "hour"), 3600.0),
}
_BYTES = {"byte": 1.0, "Kbyte": 2.0**10, "Mbyte": 2.0**20, "Gbyte": 2.0**30}
_LEVELS = {
    "kernel.all.runnable": "run_queue",
    "mem.util.dirty": "dirty_bytes",
    "mem.util.writeback": "writeback_bytes",
}
COUNTS = {
    "kernel.all.pswitch": "context_switches",
    "network.tcp.listendrops": "listen_drops",
    "network.tcp.synretrans": "syn_retransmits",
}
SHARES = {
    "disk.dev.avactive": "disk_busy",
    **{f"kernel.all.pressure.{what}.some.total": f"psi_{what}" for what in ("cpu", "io", "memory")},
}
"""Seconds a second; of several instances, the largest."""
CPU = re.compile(r"kernel\.(all|percpu)\.cpu\.(user|nice|sys|idle|steal|wait\.total|intr|irq\.soft|irq\.hard)")
"""`user` contains the time of guests, and `intr` both kinds of `irq`."""
METRICS = " ".join(("kernel.all.cpu", "kernel.percpu.cpu", *_LEVELS, *COUNTS, *SHARES))
"""What pcp2json must name."""
_NEEDED = {"user", "sys", "idle"}
"""Without these modes, neither the busy time nor the whole is known."""


def sniff(name: str, head: bytes) -> bool:
    return bool(_SEEN.search((text_head(head) or "")[:4096]))


def read(source: Source) -> Found:
    found, samples, rates = Found(), Sampled(), Rates()
    whole = True
    for before, element in elements(source, found, _RESUME, _OPENING):
        host = _HOST.search(before)
        place = source.place or (host[1] if host else "host")
        stamp = moment(text(element.get("@timestamp")) or "") if isinstance(element, dict) else None
        if stamp is None:
            found.lose("moments without a time", 1)
            continue
        whole = whole and stamp % SECOND == 0
        seconds = rates.since(place, stamp) or number(element.get("@interval"))
        interval = round(seconds * SECOND) if seconds and 0 < seconds < 10**6 else None
        cpu: dict[str, dict[str, float]] = defaultdict(dict)
        for name, instance, leaf in _leaves(element):
            value, unit = number(leaf.get("value")), text(leaf.get("@unit")) or ""
            if value is None:
                continue
            if name in _LEVELS:
                samples.add(stamp, interval, place, _LEVELS[name], value * _BYTES.get(unit, 1.0))
            elif (mode := CPU.fullmatch(name)) or name in COUNTS or name in SHARES:
                rate = rates.of((place, name, instance), value, unit, stamp)
                if rate is None:
                    continue
                if mode:
                    cpu[instance if mode[1] == "percpu" else ""][mode[2]] = rate
                elif name in COUNTS:
                    samples.add(stamp, interval, place, COUNTS[name], rate * seconds if seconds else None)
                else:
                    rates.largest(place, SHARES[name], rate)
        for metric, share in rates.taken(place):
            samples.add(stamp, interval, place, metric, share)
        for suffix, metric, share in cpu_shares(cpu):
            samples.add(stamp, interval, place + suffix, metric, share)
        if samples.full:
            break
    samples.into(found, source, "there is no metric of CPUs, disks, memory or TCP in it", whole_seconds=whole)
    return found


def _leaves(element: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each value of a moment: the metric's name, the instance, and what is said of it."""
    waiting: list[tuple[str, int, dict[str, Any]]] = [("", 0, dict(element))]
    while waiting:
        name, depth, level = waiting.pop()
        if "value" in level:
            yield name, "", level
        for instance in rows(level.get("@instances")):
            yield name, text(instance.get("name")) or "", instance
        for key, below in level.items():
            if not key.startswith("@") and isinstance(below, dict) and depth < _DEPTH:
                waiting.append((f"{name}.{key}" if name else key, depth + 1, table(below)))


class Rates:
    """Rates a second, from rates or from counters."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str, str], tuple[int, float]] = {}
        self._moments: dict[str, int] = {}
        self._largest: dict[tuple[str, str], float] = {}

    def since(self, place: str, stamp: int) -> float | None:
        """Seconds since the moment before."""
        before = self._moments.get(place)
        if before is None and len(self._moments) >= NAMES:
            return None
        self._moments[place] = stamp
        return (stamp - before) / SECOND if before is not None and stamp > before else None

    def of(self, series: tuple[str, str, str], value: float, unit: str, stamp: int) -> float | None:
        above, slash, below = (part.strip() for part in unit.partition("/"))
        scaled = value * _SECONDS.get(above, 1.0)
        if slash:
            return scaled / _SECONDS[below] if below in _SECONDS else None
        before = self._before.get(series)
        if before is None and len(self._before) >= NAMES:
            return None
        self._before[series] = stamp, scaled
        if before is None or before[0] >= stamp or before[1] > scaled:
            return None
        return (scaled - before[1]) * SECOND / (stamp - before[0])

    def largest(self, place: str, metric: str, share: float) -> None:
        self._largest[place, metric] = max(share, self._largest.get((place, metric), 0.0))

    def taken(self, place: str) -> list[tuple[str, float]]:
        shares = [(metric, share) for (at, metric), share in self._largest.items() if at == place]
        self._largest.clear()
        return shares


def cpu_shares(cpu: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, str, float]]:
    """Shares of all CPUs, and of each: the seconds of a mode, of those of all modes."""
    for instance, modes in cpu.items():
        if not modes.keys() >= _NEEDED:
            continue
        interrupts = modes.get("intr", modes.get("irq.soft", 0.0) + modes.get("irq.hard", 0.0))
        busy = sum(modes.get(mode, 0.0) for mode in ("user", "nice", "sys")) + interrupts
        wait, steal = modes.get("wait.total", 0.0), modes.get("steal", 0.0)
        whole = busy + wait + steal + modes["idle"]
        if whole > 0:
            suffix = f"/{instance}" if instance else ""
            yield suffix, "cpu_busy", round(busy / whole, 9)
            if "wait.total" in modes:
                yield suffix, "cpu_iowait", round(wait / whole, 9)
            if "steal" in modes:
                yield suffix, "cpu_steal", round(steal / whole, 9)
