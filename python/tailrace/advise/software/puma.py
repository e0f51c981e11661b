"""Puma."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "puma", "Puma"
_BIND = "tcp://0.0.0.0:9292?backlog="


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier)
    match step.what:
        case "backlog":
            yield line("puma.rb", f'bind "{_BIND}{step.now}"', f'bind "{_BIND}{step.then}"')
        case "workers":
            note = "so that workers times threads is the number"
            yield line("puma.rb", f"threads {step.now}, {step.now}", f"threads {step.then}, {step.then}", note)
        case "pool":
            note = "Active Record's; at least the threads of a process"
            yield line("database.yml", f"pool: {step.now}", f"pool: {step.then}", note)
