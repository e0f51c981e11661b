"""PHP-FPM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "php-fpm", "PHP-FPM"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "www.conf")
    match step.what:
        case "backlog":
            yield line(f"listen.backlog = {step.now}", f"listen.backlog = {step.then}")
        case "workers":
            yield line(f"pm.max_children = {step.now}", f"pm.max_children = {step.then}")
            yield line("pm = dynamic", "pm = static", "no process has to start in a burst")
        case "log":
            yield line("access.log = log/$pool.access.log", "", "remove it")
