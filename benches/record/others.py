"""When something else had a CPU: any process or thread but those that are measured, by the kernel's own trace.

A task that runs keeps its CPU for a slice of up to 4 ms, even if another task wakes up (EEVDF, `RUN_TO_PARITY`). So
each look of another process, or of the kernel at its memory (kdamond), makes some requests as slow as p99.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import hosts

Spans = list[tuple[int, int]]
"""From when to when, on the steady clock, in ns."""

MEASURED = ("nginx", "python*", "tailrace*", "swapper*", "kworker*", "ksoftirqd*", "rcu_*", "migration*")
"""By name, as patterns: the server, the load, the recorder, and those threads of the kernel that work for them, too."""
SHORTEST_NS = 100_000
_TRACING = Path("/sys/kernel/tracing")
_SWITCH = re.compile(
    r"\[(\d+)\] .*? (\d+)\.(\d{6}): sched_switch: prev_comm=.* prev_pid=(\d+) .* ==> next_comm=(.*) next_pid=(\d+)"
)


@contextmanager
def watched() -> Iterator[Callable[[], Spans]]:
    """The function tells what was seen until it is called."""
    if not (_TRACING / "instances").exists():
        hosts.run("mount", "-t", "tracefs", "tracefs", str(_TRACING))
    ours = _TRACING / "instances" / hosts.NAME
    ours.mkdir()
    try:
        (ours / "buffer_size_kb").write_text("16384")
        (ours / "trace_clock").write_text("mono")
        event = ours / "events/sched/sched_switch"
        (event / "filter").write_text(f"({_other('prev')}) || ({_other('next')})")
        (event / "enable").write_text("1")
        yield lambda: spans((ours / "trace").read_text(errors="replace"))
    finally:
        ours.rmdir()


def _other(side: str) -> str:
    return " && ".join(f'!({side}_comm ~ "{name}")' for name in MEASURED)


def spans(trace: str) -> Spans:
    """Of a trace's text: from each switch to one of the others until the switch away from it."""
    running: dict[str, tuple[str, int]] = {}
    found = []
    for cpu, seconds, micros, before, name, after in _SWITCH.findall(trace):
        now = int(seconds) * 1_000_000_000 + int(micros) * 1000
        pid, since = running.pop(cpu, ("", 0))
        if pid == before and now - since >= SHORTEST_NS:
            found.append((since, now))
        if not any(fnmatchcase(name, pattern) for pattern in MEASURED):
            running[cpu] = after, now
    return sorted(found)
