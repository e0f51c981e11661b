"""Which task ran on each CPU, as the kernel's scheduler traced it: text of perf, trace-cmd and ftrace.

```text
mypy 19640 [000] 68542.112696: sched:sched_switch: prev_comm=mypy … prev_state=R ==> next_comm=rustc next_pid=19101 …
mypy-19640 [000] d..2. 68542.112696: sched_switch: mypy:19640 [120] R ==> rustc:19101 [130]      ftrace, trace-cmd
   68542.112696 [0000]  mypy[19640]    0.000   0.000   3.881       perf sched timehist; it ran for 3.881 ms
```
The time of each task becomes `cpu_busy` of each CPU, of all CPUs and of each program, in steps of 50 ms. The name of a
program is that of its thread. Stamps count from the start of the machine: `--began NAME=MOMENT` says when that was.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tailrace.bounds import EARLIEST_NS, NAMES, UNDATED_NS
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import MILLISECOND, SECOND

STEP = 50 * MILLISECOND
"""As the recorder samples."""
_SEEN_CORES = 0.1
"""The recorder, too, samples the programs that used a tenth of a core."""
_SILENT = 60 * SECOND
"""A CPU without a switch for so long was not traced."""
_STARTED = "awk -v now=$(date +%s.%N) '{printf \"%.3f\", now-$1}' /proc/uptime"
"""Prints when this machine started."""
_AT = r"\[(\d{1,5})\]\s+(?:[\w.#]{2,8}\s+)?(\d{1,10})\.(\d{1,9}):"
_SWITCH = re.compile(
    _AT + r"\s+(?:sched:)?sched_switch:\s+(?:prev_comm=.{0,64}? prev_pid=\d+.{0,40}? ==> next_comm=(.{0,64}?) "
    r"next_pid=(\d+) |.{1,64}?:\d+ \[-?\d+\] \S+ ==> (.{0,64}?):(\d+) \[)"
)
_RAN = re.compile(
    r"^\s*(\d{1,10})\.(\d{1,9})\s+\[(\d{1,5})\]\s+(\S.{0,64}?)(?:\[[\d/]{1,24}\])?\s+\d+\.\d+\s+\d+\.\d+\s+(\d{1,9}\.\d+)\s*$"
)
_LOST = re.compile(r"LOST (\d{1,12}) EVENTS|lost (\d{1,12}) events", re.IGNORECASE)


def sniff(name: str, head: bytes) -> bool:
    return any(_SWITCH.search(line) or _RAN.match(line) for line in (text_head(head) or "").split("\n")[:500])


def read(source: Source) -> Found:
    found, use = Found(), _Use()
    for line_number, line in source.lines(found):
        if (switch := _SWITCH.search(line)) is not None:
            cpu, moment = int(switch[1]), _moment(switch[2], switch[3])
            name, task = (switch[4], switch[5]) if switch[5] else (switch[6], switch[7])
            use.switched(cpu, moment, name if task != "0" else None)
        elif (ran := _RAN.match(line)) is not None:
            end = _moment(ran[1], ran[2])
            use.ran(int(ran[3]), end - round(float(ran[5]) * MILLISECOND), end, ran[4])
        elif (lost := _LOST.search(line)) is not None:
            use.forget()
            found.lose("switches that the kernel lost", int(lost[1] or lost[2]))
        elif "sched_switch:" in line:
            found.damaged(source.path.name, line_number)
        if use.full:
            break
    samples, shift = Sampled(in_cpus=True), _shift(source, use.first)
    found.undated = shift == UNDATED_NS
    for step, place, metric, value in use.shares(source.place or "host"):
        samples.add((step + 1) * STEP + use.first + shift, STEP, place, metric, round(value, 9))
        if samples.full:
            break
    samples.into(found, source, "no CPU was traced in it for 50 ms")
    if found.undated:
        named = source.place or source.path.name
        found.notes.append(
            f"{source.path.name}: its times count from the start of the machine, and are dated 2000-01-01. Pass "
            f"--began {named}=MOMENT, the result of `{_STARTED}`"
        )
    if use.full:
        found.filled(source.path.name, use.most, "parts of steps")
    return found


def _moment(seconds: str, fraction: str) -> int:
    return int(seconds) * SECOND + int(fraction.ljust(9, "0"))


def _shift(source: Source, first: int) -> int:
    """What is added to the stamps: nothing if they are moments."""
    if first >= EARLIEST_NS:
        return 0
    return source.began[0] if source.began else UNDATED_NS


@dataclass
class _Cpu:
    """The task that runs, and since when; None is the idle task."""

    since: int
    task: str | None = None
    known: bool = True
    counted: int = 0
    """Until when its time was counted; it counts once, also where stamps go back."""


@dataclass
class _Use:
    """How long each CPU was known and busy, and each task ran, in each step."""

    first: int = 0
    last: int = 0
    cpus: dict[int, _Cpu] = field(default_factory=dict)
    _spent: dict[tuple[int, int | str], int] = field(default_factory=lambda: defaultdict(int))
    _known: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    _tasks: set[str] = field(default_factory=set)
    most: int = field(default_factory=lambda: Sampled().most // 4)

    @property
    def full(self) -> bool:
        return len(self._spent) + len(self._known) >= self.most

    def _see(self, moment: int, cpu: int) -> _Cpu:
        if not self.cpus:
            self.first = moment
        self.last = max(self.last, moment)
        return self.cpus.setdefault(cpu, _Cpu(self.first, known=False))

    def switched(self, cpu: int, moment: int, task: str | None) -> None:
        """From now on, this task runs."""
        state = self._see(moment, cpu)
        if state.known and 0 <= moment - state.since <= _SILENT:
            self._spend(cpu, max(state.since, state.counted), moment, state.task)
        self.cpus[cpu] = _Cpu(moment, task, counted=max(moment, state.counted))

    def ran(self, cpu: int, begin: int, end: int, task: str) -> None:
        """A task ran; before it, the CPU was idle."""
        state = self._see(end, cpu)
        since = max(state.since, state.counted)
        begin = max(begin, since)
        if state.known and 0 <= end - state.since <= _SILENT:
            self._spend(cpu, since, min(begin, end), None)
            self._spend(cpu, begin, end, task)
        self.cpus[cpu] = _Cpu(end, counted=max(end, state.counted))

    def forget(self) -> None:
        """Switches were lost."""
        for state in self.cpus.values():
            state.known = False

    def _spend(self, cpu: int, begin: int, end: int, task: str | None) -> None:
        if task is not None and task not in self._tasks:
            if len(self._tasks) >= NAMES:
                task = "(others)"
            self._tasks.add(task)
        at = begin
        while at < end:
            step = (at - self.first) // STEP
            until = min(end, self.first + (step + 1) * STEP)
            self._known[step, cpu] += until - at
            if task is not None:
                self._spent[step, cpu] += until - at
                self._spent[step, task] += until - at
            at = until

    def shares(self, host: str) -> Iterator[tuple[int, str, str, float]]:
        """Steps in which all CPUs are known: the shares of all, of each CPU, and of the tasks that ever used much."""
        known: dict[int, int] = defaultdict(int)
        for (step, _), length in self._known.items():
            known[step] += length == STEP
        steps = sorted(step for step, count in known.items() if count == len(self.cpus))
        large = {
            name for (_, name), length in self._spent.items() if isinstance(name, str) and length >= _SEEN_CORES * STEP
        }
        for step in steps:
            busy = {cpu: self._spent.get((step, cpu), 0) / STEP for cpu in self.cpus}
            yield step, host, "cpu_busy", sum(busy.values()) / len(busy)
            if len(busy) > 1:
                for cpu, share in sorted(busy.items()):
                    yield step, f"{host}/cpu{cpu}", "cpu_busy", share
            for name in sorted(large):
                yield step, f"process {name}", "cpu_busy", self._spent.get((step, name), 0) / STEP
