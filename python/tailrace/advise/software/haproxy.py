"""HAProxy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.units import MILLISECOND

NAME, TITLE = "haproxy", "HAProxy"
METHODS = {
    "least_connections": "leastconn",
    "current_load": "leastconn",
    "shortest_queue": "leastconn",
    "power_of_two": "random(2)",
    "random": "random(1)",
    "round_robin": "roundrobin",
}

HEAVY = "an acl heavy names the paths of heavy requests; what waits for maxconn goes on in the order of the classes"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "haproxy.cfg")
    server = f"server {step.callee} {step.callee}:8080"
    match step.what:
        case "backlog":
            yield line(f"backlog {step.now}", f"backlog {step.then}", "in the frontend")
        case "workers":
            yield line(f"maxconn {step.now}", f"maxconn {step.then}", "in the frontend; global maxconn must be larger")
        case "policy" if step.then in METHODS:
            yield line(*step.named("balance ", METHODS), f"in backend {step.callee}")
        case "pool":
            yield line(f"{server} maxconn {step.now}", f"{server} maxconn {step.then}", "what exceeds it is queued")
        case "skip":
            yield line(server, f"{server} maxconn {step.then} maxqueue 1", "and option redispatch in the backend")
        case "connect" if step.then:
            yield line("", f"timeout connect {step.then // MILLISECOND}ms", f"in backend {step.callee}")
            yield line("", "option redispatch 1", "the first retry goes to another server")
        case "priority":
            yield line("", "http-request set-priority-class int(1) if heavy", f"in backend {step.callee}; {HEAVY}")
        case "order" if step.then == "lightest":
            yield line("", "http-request set-priority-class int(1) if heavy", f"in the backend before it; {HEAVY}")
        case "silence":
            yield line("", f"timeout http-request {step.then // MILLISECOND}ms", "in the frontend")
        case "timeout":
            yield line(
                "", f"timeout server {step.then // MILLISECOND}ms", "in the backend; it is time without any data"
            )
        case "kept" if step.callee:
            yield line("http-reuse never", "http-reuse safe", f"in backend {step.callee}")
        case "kept":
            yield line("option httpclose", "option http-keep-alive")
