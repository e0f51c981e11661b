"""All remedies, one a file. To add one, write the file, its line here and in docs/reference/remedies.md, and its case
in tests/unit/test_remedies.py."""

from __future__ import annotations

from tailrace.advise.remedies import (
    alike,
    asynchronous,
    backlog,
    flush,
    governor,
    heap,
    hedging,
    isolation,
    keepalive,
    mechanism,
    policy,
    pool,
    priority,
    quota,
    replica,
    retransmission,
    shedding,
    smoothing,
    workers,
)
from tailrace.advise.remedies.remedy import EFFORTS, Changes, Effort, Option, Remedy, Size

REMEDIES: tuple[Remedy, ...] = (
    backlog.REMEDY,
    workers.REMEDY,
    pool.REMEDY,
    asynchronous.REMEDY,
    shedding.REMEDY,
    priority.REMEDY,
    policy.REMEDY,
    mechanism.REMEDY,
    hedging.REMEDY,
    retransmission.REMEDY,
    keepalive.REMEDY,
    quota.REMEDY,
    governor.REMEDY,
    isolation.REMEDY,
    heap.REMEDY,
    flush.REMEDY,
    smoothing.REMEDY,
    replica.REMEDY,
)

__all__ = ["EFFORTS", "REMEDIES", "Changes", "Effort", "Option", "Remedy", "Size", "alike"]
