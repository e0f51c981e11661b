"""Node.js."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "node", "Node.js"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "server.js")
    match step.what:
        case "backlog":
            port = "server.listen({ port: 8080, backlog: "
            yield line(f"{port}{step.now} }})", f"{port}{step.then} }})")
        case "pool" | "skip":
            agent = "new http.Agent({ keepAlive: true, maxSockets: "
            yield line(f"{agent}{step.now} }})", f"{agent}{step.then} }})", f"for calls to {step.callee}")
        case "kept" if step.callee:
            yield line("", "new http.Agent({ keepAlive: true })", f"for calls to {step.callee}")
        case "kept":
            yield line("", "server.keepAliveTimeout = 75000")
        case "cores":
            yield line("", f"for (let i = 0; i < {step.then:g}; i++) cluster.fork()", "one process a core")
