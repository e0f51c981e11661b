"""PostgreSQL. Its accept queue is as long as twice max_connections, and cannot be set."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "postgresql", "PostgreSQL"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "postgresql.conf")
    match step.what:
        case "workers":
            note = "fewer connections are better limited by PgBouncer" if step.then < step.now else ""
            yield line(f"max_connections = {step.now}", f"max_connections = {step.then}", note)
        case "backlog":
            yield line("", f"max_connections = {-(-step.then // 2)}", "the accept queue is twice as long")
        case "log" | "disk":
            yield line("checkpoint_completion_target = 0.5", "checkpoint_completion_target = 0.9", "spreads the writes")
            yield line("", "max_wal_size = 8GB", "makes checkpoints rarer")
