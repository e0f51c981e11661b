"""Linux: sysctl settings and the clock rate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.units import MICROSECOND, MILLISECOND

NAME, TITLE = "linux", "Linux"
SOMAXCONN = 4096
"""Since Linux 5.4; 128 before."""
CENTISECOND = 10 * MILLISECOND


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier)
    match step.what:
        case "backlog":
            least = max(step.then, SOMAXCONN)
            note = "the kernel cuts a longer backlog down to it, and Linux before 5.4 has 128"
            yield line("sysctl.conf", "", f"net.core.somaxconn = {least}", note)
            yield line("sysctl.conf", "", f"net.ipv4.tcp_max_syn_backlog = {least}")
        case "quota" if step.now and step.then and step.now.phases != step.then.phases:
            note = "its timers of quotas begin at random moments; those of older kernels expire together"
            yield line("kernel", "", "6.4 or later", note)
        case "retransmission":
            yield from _retransmission(step)
        case "governor":
            if step.then is None:
                yield line("shell", "", "cpupower frequency-set -g performance", "and the BIOS must leave it to Linux")
            else:
                rate = f"sampling_rate = {step.then.period // MICROSECOND}"
                yield line("/sys/devices/system/cpu/cpufreq/ondemand", "", rate, "microseconds")
        case "disk" if step.then and step.then.writeback:
            yield from _writeback(step, step.now.writeback, step.then.writeback)


def _retransmission(step: Step) -> Iterator[Line]:
    if isinstance(step.then.syn, str):
        note = "it comes with the kernel; tcp_syn_linear_timeouts = 4 since Linux 6.5"
        yield Line(TITLE, step.tier, "kernel of the senders", str(step.now.syn), f"{step.then.syn} or later", note)
    else:
        first = step.then.syn[0] // MILLISECOND
        note = f"a BPF program of type SOCK_OPS returns {first} ms in jiffies"
        yield Line(TITLE, step.tier, "BPF at the senders", "", "BPF_SOCK_OPS_TIMEOUT_INIT", note)


def _writeback(step: Step, now: object, then: object) -> Iterator[Line]:
    for key, name in (("expire", "vm.dirty_expire_centisecs"), ("period", "vm.dirty_writeback_centisecs")):
        old, new = (getattr(one, key) // CENTISECOND for one in (now, then))
        if old != new:
            yield Line(TITLE, step.tier, "sysctl.conf", f"{name} = {old}", f"{name} = {new}")
