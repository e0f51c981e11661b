"""Options of the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "jvm", "JVM"
MIB = 2**20


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "command line")
    match step.what:
        case "kind":
            note = "Spring Boot 3.2 on Java 21, in application.properties"
            yield line("", "spring.threads.virtual.enabled=true", note)
        case "heap" if step.then is None:
            yield line("", "-XX:+UseZGC", "collects beside the requests; on Java 21 also -XX:+ZGenerational")
        case "heap" if step.then.young_collection != step.now.young_collection:
            yield line("", "-XX:+UseG1GC", "on a supported Java; it is the default since Java 9")
        case "heap" if step.then.young != step.now.young:
            now, then = (f"-Xmn{_mebibytes(heap.young)}m" for heap in (step.now, step.then))
            yield line(now, then, "and -Xmx accordingly")
        case "heap" if step.then.threads != step.now.threads:
            now, then = (f"-XX:ParallelGCThreads={heap.threads:.0f}" for heap in (step.now, step.then))
            yield line(now, then, "with -XX:+UseParallelGC")


def _mebibytes(size: int) -> int:
    return -(-size // MIB)
