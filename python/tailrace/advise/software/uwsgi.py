"""uWSGI."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "uwsgi", "uWSGI"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "uwsgi.ini")
    match step.what:
        case "backlog":
            note = "uWSGI does not start if net.core.somaxconn is smaller"
            yield line(f"listen = {step.now}", f"listen = {step.then}", note)
        case "workers":
            yield line(
                f"threads = {step.now}", f"threads = {step.then}", "so that processes times threads is the number"
            )
        case "kind":
            yield line("", "gevent = 1000", "what blocks must yield to gevent")
        case "log":
            yield line("", "disable-logging = true")
