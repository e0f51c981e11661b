"""All remedies, one a file. To add one, write the file, its line here and in docs/reference/remedies.md, and its case
in tests/unit/test_remedies.py."""

from __future__ import annotations

from tailrace.advise.remedies import (
    asynchronous,
    backlog,
    between,
    connecting,
    elsewhere,
    flush,
    governor,
    heap,
    hedging,
    isolation,
    keepalive,
    limit,
    mechanism,
    newest,
    pinning,
    policy,
    pool,
    priority,
    quota,
    replica,
    retransmission,
    retries,
    shedding,
    silence,
    smoothing,
    timeout,
    workers,
)
from tailrace.advise.remedies.remedy import EFFORTS, Changes, Effort, Option, Remedy, Size

REMEDIES: tuple[Remedy, ...] = tuple(
    one.REMEDY
    for one in (
        *(backlog, workers, pool, asynchronous, shedding, limit, priority, newest, policy, mechanism, connecting),
        *(hedging, elsewhere, between, retries, timeout, retransmission, keepalive, quota, governor, isolation),
        *(pinning, silence, heap, flush, smoothing, replica),
    )
)

__all__ = ["EFFORTS", "REMEDIES", "Changes", "Effort", "Option", "Remedy", "Size"]
