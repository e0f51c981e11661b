"""uvicorn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "uvicorn", "uvicorn"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "command line")
    match step.what:
        case "backlog":
            yield line(f"--backlog {step.now}", f"--backlog {step.then}")
        case "workers":
            note = "requests beyond it get 503 at once; without it, any number is inside"
            yield line(f"--limit-concurrency {step.now}", f"--limit-concurrency {step.then}", note)
        case "kept" if not step.callee:
            yield line("", "--timeout-keep-alive 75")
        case "log":
            yield line("", "--no-access-log")
