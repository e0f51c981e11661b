"""The metrics that Tailrace interprets (docs/reference/dataset.md). Others are kept and not interpreted."""

from __future__ import annotations

SHARES = frozenset(
    {
        "cpu_busy",
        "cpu_iowait",
        "cpu_steal",
        "cpu_throttled",
        "disk_busy",
        "gc_share",
        "psi_cpu",
        "psi_io",
        "psi_memory",
    }
)
"""From 0 to 1."""

METRICS = SHARES | {
    "accept_queue",
    "accept_queue_limit",
    "balancer_value",
    "context_switches",
    "cpu_hz",
    "cpu_hz_max",
    "direct_reclaims",
    "dirty_bytes",
    "listen_drops",
    "major_faults",
    "pool_in_use",
    "pool_waiting",
    "processes",
    "processes_ended",
    "rss_bytes",
    "run_queue",
    "syn_retransmits",
    "tasks_blocked",
    "tasks_file_locked",
    "tasks_pipe_full",
    "tasks_runnable",
    "tasks_stopped",
    "workers_busy",
    "writeback_bytes",
}
