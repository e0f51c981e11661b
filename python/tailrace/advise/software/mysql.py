"""MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "mysql", "MySQL, MariaDB"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "my.cnf")
    match step.what:
        case "backlog":
            yield line(f"back_log = {step.now}", f"back_log = {step.then}")
        case "workers" if step.then > step.now:
            yield line(f"max_connections = {step.now}", f"max_connections = {step.then}")
        case "workers":
            yield line("", f"innodb_thread_concurrency = {step.then}", "MySQL; MariaDB has no such setting since 10.6")
            yield line("", "thread_handling = pool-of-threads", "MariaDB")
            yield line("", f"thread_pool_size = {step.then}", "MariaDB")
        case "kind":
            yield line("", "innodb_thread_concurrency = 8", "MySQL")
            yield line("", "thread_handling = pool-of-threads", "MariaDB")
        case "log" | "disk":
            note = "what was committed in the last second is lost if the machine crashes"
            yield line("innodb_flush_log_at_trx_commit = 1", "innodb_flush_log_at_trx_commit = 2", note)
