"""PgBouncer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "pgbouncer", "PgBouncer"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "pgbouncer.ini")
    match step.what:
        case "backlog":
            yield line(f"listen_backlog = {step.now}", f"listen_backlog = {step.then}")
        case "workers":
            yield line(f"max_client_conn = {step.now}", f"max_client_conn = {step.then}")
        case "pool":
            note = "for each database and user; max_connections of PostgreSQL must allow it"
            yield line(f"default_pool_size = {step.now}", f"default_pool_size = {step.then}", note)
        case "skip":
            yield line("", f"default_pool_size = {step.then}")
            yield line("query_wait_timeout = 120", "query_wait_timeout = 1", "seconds")
