"""Metrics of others, as their programs export them → metrics of the record.

A monitoring system stores counters that only grow (`node_cpu_seconds_total`). The difference of two values, and the
time between them, give a sample; a counter that falls was reset, and gives none. `RULES` says what each name means.
Names are compared without their case, with `_` for every other sign, so that the names of OpenTelemetry and of InfluxDB
find their rule as well.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from tailrace.readers import metrics, room
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source
from tailrace.units import SECOND

Kind = Literal["level", "largest", "count", "rate", "busiest", "cpu"]
"""How values become samples:
`level`    they are levels already; those of several series are added
`largest`  a level, of which the largest of several series counts
`count`    the growth of a counter, added over series
`rate`     seconds per second of a counter of seconds, added over series
`busiest`  the same, the largest of several series
`cpu`      a counter of seconds of each CPU and mode
"""


@dataclass(frozen=True)
class Rule:
    kind: Kind
    metric: str = ""
    scale: float = 1.0


_POOL_WAITS = re.compile(r"_pool_wait_seconds_(?:sum|total)\Z")
_PLAIN = re.compile(r"[^a-z0-9]+")


def _rules() -> dict[str, Rule]:
    table: dict[str, tuple[Kind, str, float, str]] = {
        "cpu": ("cpu", "", 1.0, "node_cpu_seconds_total node_cpu system_cpu_time system_cpu_time_seconds_total"),
        "run": ("level", "run_queue", 1.0, "node_procs_running processes_running"),
        "drops": ("count", "listen_drops", 1.0, "node_netstat_tcpext_listendrops nstat_tcpextlistendrops"),
        "syn": ("count", "syn_retransmits", 1.0, "node_netstat_tcpext_tcpsynretrans nstat_tcpexttcpsynretrans"),
        "again": ("count", "tcp_retransmits", 1.0, "ss_retrans"),
        "switches": (
            *("count", "context_switches", 1.0),
            "node_context_switches_total node_context_switches kernel_context_switches",
        ),
        "disk": ("busiest", "disk_busy", 1.0, "node_disk_io_time_seconds_total system_disk_io_time"),
        "disk_ms": ("busiest", "disk_busy", 0.001, "node_disk_io_time_ms diskio_io_time"),
        "dirty": ("level", "dirty_bytes", 1.0, "node_memory_dirty_bytes node_memory_dirty mem_dirty"),
        "writeback": (
            *("level", "writeback_bytes", 1.0),
            "node_memory_writeback_bytes node_memory_writeback mem_write_back",
        ),
        "psi_cpu": ("rate", "psi_cpu", 1.0, "node_pressure_cpu_waiting_seconds_total"),
        "psi_io": ("rate", "psi_io", 1.0, "node_pressure_io_waiting_seconds_total"),
        "psi_memory": ("rate", "psi_memory", 1.0, "node_pressure_memory_waiting_seconds_total"),
        "gc": (
            *("rate", "gc_share", 1.0),
            "jvm_gc_pause_seconds_sum jvm_gc_collection_seconds_sum jvm_gc_duration_seconds_sum jvm_gc_duration_sum",
        ),
        "threads": (
            *("level", "workers_busy", 1.0),
            "tomcat_threads_busy_threads tomcat_threads_busy tomcat_threadpool_currentthreadsbusy "
            "jetty_threads_busy apache_workers php_fpm_active_processes phpfpm_active_processes",
        ),
        "pool": (
            *("level", "pool_in_use", 1.0),
            "hikaricp_connections_active hikaricp_active_connections jdbc_connections_active agroal_active_count "
            "go_sql_in_use_connections go_sql_stats_connections_in_use r2dbc_pool_acquired_connections "
            "r2dbc_pool_acquired pgbouncer_pools_server_active_connections",
        ),
        "pool_waiting": (
            *("level", "pool_waiting", 1.0),
            "hikaricp_connections_pending hikaricp_pending_threads db_client_connection_pending_requests "
            "db_client_connections_pending_requests agroal_awaiting_count r2dbc_pool_pending_connections "
            "r2dbc_pool_pending pgbouncer_pools_client_waiting_connections",
        ),
        "pool_wait": (
            *("count", "pool_wait_seconds", 1.0),
            "db_client_connection_wait_time_sum db_client_connection_wait_time_seconds_sum "
            "hikaricp_connections_acquire_seconds_sum go_sql_wait_duration_seconds_total "
            "go_sql_stats_connections_blocked_seconds pgbouncer_stats_totals_client_wait_seconds "
            "pgbouncer_stats_client_wait_seconds_total pool_wait_seconds_sum pool_wait_seconds_total",
        ),
        "pool_wait_ms": (
            *("count", "pool_wait_seconds", 0.001),
            "db_client_connections_wait_time_sum db_client_connections_wait_time_milliseconds_sum",
        ),
        "rss": ("level", "rss_bytes", 1.0, "process_resident_memory_bytes container_memory_rss"),
        "hz": ("largest", "cpu_hz", 1.0, "node_cpu_scaling_frequency_hertz"),
        "hz_max": ("largest", "cpu_hz_max", 1.0, "node_cpu_scaling_frequency_max_hertz"),
    }
    return {name: Rule(kind, metric, scale) for kind, metric, scale, names in table.values() for name in names.split()}


RULES = _rules()
_THROTTLED = {
    "container_cpu_cfs_throttled_periods_total": "throttled",
    "container_cpu_cfs_periods_total": "periods",
}
NAMES = frozenset((*RULES, *_THROTTLED))
"""All names that have a meaning here."""
_IDLE, _IOWAIT, _STEAL = ("idle",), ("iowait", "wait"), ("steal",)
_GUEST = ("guest", "guest_nice")
"""These are part of user and nice."""
_LARGEST = 2.0**64
"""No counter is larger: its growth would be damage, and as a share it would look like a full second."""
_SAMPLES_PER_POINT = 4
"""A point of a counter takes as much memory as so many samples."""


def plain(name: str) -> str:
    return _kept_plain(name) if len(name) <= _KEPT_CHARACTERS else _plain(name)


def _plain(name: str) -> str:
    return _PLAIN.sub("_", name.lower()).strip("_")


_KEPT, _KEPT_CHARACTERS = 4096, 200
"""So many names, each of so many characters at most, are folded once only: a system has hundreds, and each point has
some."""
_kept_plain = lru_cache(_KEPT)(_plain)


def known(name: str) -> bool:
    return plain(name) in _THROTTLED or _rule(plain(name)) is not None


def _rule(name: str) -> Rule | None:
    """The rule of a plain name; waits for pools count whatever the program in front of the name is."""
    return RULES.get(name) or (RULES["pool_wait_seconds_sum"] if _POOL_WAITS.search(name) else None)


class Counters:
    """Points of counters and levels, by place and series, until all are there."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, str, str], list[tuple[int, float]]] = defaultdict(list)
        self.count = 0
        self.unusable = 0
        self.most = max(1, room.samples() // _SAMPLES_PER_POINT)

    @property
    def full(self) -> bool:
        return self.count >= self.most

    def add(self, place: str, name: str, series: str, moment: int, value: float | None) -> None:
        """A value of a series; `series` distinguishes those of one name and place, and is CPU and mode of `cpu`."""
        if value is not None and abs(value) > _LARGEST:
            self.unusable += 1
        elif value is not None:
            self._points[place, plain(name), series].append((moment, value))
            self.count += 1

    def into(self, samples: Sampled, found: Found, source: Source) -> None:
        """The samples that the points make; `found` notes if not all points fit into memory."""
        samples.unusable += self.unusable
        if self.full:
            found.filled(source.path.name, self.most, "values")
        by_name: dict[tuple[str, str], dict[str, list[tuple[int, float]]]] = defaultdict(dict)
        for (place, name, series), points in self._points.items():
            by_name[place, name][series] = sorted(points)
        for (place, name), all_series in by_name.items():
            rule = _rule(name)
            if rule is None:
                continue
            if rule.kind == "cpu":
                _cpu(samples, place, all_series)
            elif rule.kind in ("level", "largest"):
                _levels(samples, place, rule, all_series)
            else:
                _grown(samples, place, rule, all_series)
        for place in {place for place, name in by_name if name in _THROTTLED}:
            _throttled(samples, place, by_name)


def _growth(points: list[tuple[int, float]]) -> Iterator[tuple[int, int, float]]:
    """End, interval and growth; none where a counter was reset."""
    for (before, low), (now, high) in pairwise(points):
        if now > before and high >= low:
            yield now, now - before, high - low


def _levels(samples: Sampled, place: str, rule: Rule, series: Mapping[str, list[tuple[int, float]]]) -> None:
    found: dict[int, float] = {}
    for points in series.values():
        for moment, value in points:
            old = found.get(moment)
            scaled = value * rule.scale
            found[moment] = scaled if old is None else old + scaled if rule.kind == "level" else max(old, scaled)
    for moment, value in found.items():
        samples.add(moment, None, place, rule.metric, value)


def _grown(samples: Sampled, place: str, rule: Rule, series: Mapping[str, list[tuple[int, float]]]) -> None:
    found: dict[tuple[int, int], float] = {}
    damaged: set[tuple[int, int]] = set()
    for points in series.values():
        for moment, interval, growth in _growth(points):
            key, value = (moment, interval), growth * rule.scale
            if rule.kind != "count":
                share = metrics.share(value * SECOND / interval)
                if share is None:
                    samples.unusable += 1
                    damaged.add(key)
                    continue
                value = share
            old = found.get(key, 0.0)
            found[key] = max(old, value) if rule.kind == "busiest" else old + value
    for (moment, interval), value in found.items():
        if (moment, interval) not in damaged:
            value = value if rule.kind == "count" else min(value, 1.0)
            samples.add(moment, interval, place, rule.metric, value)


def _cpu(samples: Sampled, place: str, series: Mapping[str, list[tuple[int, float]]]) -> None:
    """Shares of each CPU and of all, from the seconds in each mode. They need all modes that the CPU has elsewhere:
    without one, whose counter was reset, the rest may be all or nothing of its work."""
    needed: dict[str, set[str]] = defaultdict(set)
    spent: dict[tuple[int, int], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for name, points in series.items():
        core, _, mode = name.partition(" ")
        needed[core].add(mode)
        for moment, interval, growth in _growth(points):
            spent[moment, interval][core][mode] = growth * SECOND / interval
    for (moment, interval), cores in spent.items():
        parts: dict[str, list[float]] = defaultdict(list)
        damaged: set[str] = set()
        for core, modes in cores.items():
            if not modes.keys() >= needed[core]:
                samples.unusable += 1
                damaged.update(("cpu_busy", "cpu_iowait", "cpu_steal"))
                continue
            for metric, value in _shares(core, modes).items():
                share = metrics.share(value)
                if share is None:
                    samples.unusable += 1
                    damaged.add(metric)
                    continue
                parts[metric].append(share)
                if core and len(cores) > 1:
                    suffix = f"/cpu{core.removeprefix('cpu')}"
                    samples.add(moment, interval, place + suffix, metric, share)
        for metric, values in parts.items():
            if metric not in damaged:
                samples.add(moment, interval, place, metric, sum(values) / len(values))


def _shares(core: str, modes: Mapping[str, float]) -> dict[str, float]:
    """Shares of a CPU. Seconds without the name of a CPU may be those of all: then all modes together are the whole."""
    whole = sum(value for mode, value in modes.items() if mode not in _GUEST)
    scale = 1 / whole if not core and whole > 1 and any(mode in modes for mode in _IDLE) else 1.0
    return {
        "cpu_busy": scale * sum(v for mode, v in modes.items() if mode not in (*_IDLE, *_IOWAIT, *_STEAL, *_GUEST)),
        "cpu_iowait": scale * sum(v for mode, v in modes.items() if mode in _IOWAIT),
        "cpu_steal": scale * sum(v for mode, v in modes.items() if mode in _STEAL),
    }


def _throttled(
    samples: Sampled, place: str, by_name: Mapping[tuple[str, str], Mapping[str, list[tuple[int, float]]]]
) -> None:
    """The share of the periods of a quota in which a control group had to wait."""
    grown: dict[str, dict[tuple[int, int], float]] = {"throttled": defaultdict(float), "periods": defaultdict(float)}
    for name, what in _THROTTLED.items():
        for points in by_name.get((place, name), {}).values():
            for moment, interval, growth in _growth(points):
                grown[what][moment, interval] += growth
    for (moment, interval), periods in grown["periods"].items():
        waited = grown["throttled"].get((moment, interval), 0.0)
        if periods > 0:
            samples.add(moment, interval, place, "cpu_throttled", waited / periods)


_PLACES = ("instance", "host_name", "host", "hostname", "node", "pod", "container", "service_name", "name", "job")
_PODS = ("pod", "container", "pod_name", "container_name")


def place_of(name: str, labels: Mapping[str, str], otherwise: str) -> str:
    """The place of a series: the pod or container of a container's metric, else the host that was asked."""
    first = (*_PODS, *_PLACES) if name.startswith(("container_", "k8s_")) else _PLACES
    return next((found for label in first if (found := labels.get(label))), otherwise)


def series_of(labels: Mapping[str, str]) -> str:
    """What distinguishes a series from others of its name and place; of a CPU, its number and mode."""
    mode = labels.get("mode") or labels.get("state") or labels.get("cpu_mode")
    if mode is not None:
        return f"{labels.get('cpu', labels.get('cpu_logical_number', ''))} {mode}"
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
