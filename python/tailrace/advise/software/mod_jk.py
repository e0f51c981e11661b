"""mod_jk, Apache's connector to Tomcat. `method` B is the papers' current_load; `busy_limit` is theirs as a setting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.units import MILLISECOND

NAME, TITLE = "mod_jk", "mod_jk"
METHODS = {"total_request": "R", "total_traffic": "T", "sessions": "S", "current_load": "B", "least_connections": "B"}


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "workers.properties")
    match step.what:
        case "policy" if step.then in METHODS:
            yield line(*step.named("worker.balancer.method=", METHODS))
        case "pool":
            key = f"worker.{step.callee}.connection_pool_size"
            yield line(f"{key}={step.now}", f"{key}={step.then}", "per process of Apache")
        case "skip":
            limit = f"worker.{step.callee}.busy_limit={step.then}"
            yield line("", limit, "for each member, and below connection_pool_size: the next member is tried")
        case "connect" if step.then:
            key = f"worker.{step.callee}.socket_connect_timeout"
            yield line("", f"{key}={step.then // MILLISECOND}", "milliseconds; for each member")
        case "poll":
            key = f"worker.{step.callee}.connection_acquire_timeout"
            yield line(f"{key}={step.now // MILLISECOND}", f"{key}={step.then // MILLISECOND}", "milliseconds")
