"""HikariCP, the pool of database connections of Spring Boot and others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "hikaricp", "HikariCP"
_KEY = "spring.datasource.hikari"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "application.properties")
    match step.what:
        case "pool":
            yield line(f"{_KEY}.maximum-pool-size={step.now}", f"{_KEY}.maximum-pool-size={step.then}")
        case "skip":
            yield line("", f"{_KEY}.maximum-pool-size={step.then}")
            note = "milliseconds; 250 is the least that HikariCP allows"
            yield line(f"{_KEY}.connection-timeout=30000", f"{_KEY}.connection-timeout=250", note)
