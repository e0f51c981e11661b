"""Options of the JVM."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "jvm", "JVM"
MIB = 2**20


def lines(step: Step) -> Iterator[Line]:
    def line(now: str, then: str, note: str = "") -> Line:
        return Line(TITLE, step.tier, "command line", now, then, note)

    if step.what == "kind":
        yield line("", "spring.threads.virtual.enabled=true", "Spring Boot 3.2 on Java 21, in application.properties")
    if step.what != "heap":
        return
    if step.then is None:
        yield line("", "-XX:+UseZGC", "collects beside the requests; on Java 21 also -XX:+ZGenerational")
    elif step.then.young_collection != step.now.young_collection:
        yield line("", "-XX:+UseG1GC", "on a supported Java; it is the default since Java 9")
    elif step.then.young != step.now.young:
        yield line(f"-Xmn{_mebibytes(step.now.young)}m", f"-Xmn{_mebibytes(step.then.young)}m", "and -Xmx accordingly")
    elif step.then.threads != step.now.threads:
        flag = "-XX:ParallelGCThreads="
        yield line(f"{flag}{step.now.threads:.0f}", f"{flag}{step.then.threads:.0f}", "with -XX:+UseParallelGC")


def _mebibytes(size: int) -> int:
    return -(-size // MIB)
