"""Options of the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.experiment.tiers import Limit
from tailrace.units import MILLISECOND

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
        case "limit" if step.then:
            note = "a servlet filter of com.netflix.concurrency-limits"
            yield Line(TITLE, step.tier, "ConcurrencyLimitServletFilter", "", _builder(step.then), note)


def _builder(limit: Limit) -> str:
    if limit.kind == "aimd":
        kind = f"AIMDLimit.newBuilder().timeout({limit.timeout // MILLISECOND}, TimeUnit.MILLISECONDS)"
        return f"{kind}.initialLimit({limit.initial}).minLimit({limit.min}).maxLimit({limit.max}).build()"
    kind = f"Gradient2Limit.newBuilder().rttTolerance({limit.tolerance:g})"
    return f"{kind}.initialLimit({limit.initial}).minLimit({limit.min}).maxConcurrency({limit.max}).build()"


def _mebibytes(size: int) -> int:
    return -(-size // MIB)
