"""gunicorn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "gunicorn", "gunicorn"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "gunicorn.conf.py")
    match step.what:
        case "backlog":
            yield line(f"backlog = {step.now}", f"backlog = {step.then}")
        case "workers":
            note = "so that workers times threads is the number; worker_class gthread"
            yield line(f"threads = {step.now}", f"threads = {step.then}", note)
        case "kind":
            yield line('worker_class = "sync"', 'worker_class = "gevent"', "what blocks must yield to gevent")
            yield line("", "worker_connections = 1000")
        case "kept" if not step.callee:
            yield line('worker_class = "sync"', 'worker_class = "gthread"', "sync workers close each connection")
            yield line("", "keepalive = 75")
