"""mod_proxy, Apache's proxy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.units import MILLISECOND

NAME, TITLE = "mod_proxy", "mod_proxy"
METHODS = {
    "total_request": "byrequests",
    "round_robin": "byrequests",
    "total_traffic": "bytraffic",
    "current_load": "bybusyness",
    "least_connections": "bybusyness",
}


def lines(step: Step) -> Iterator[Line]:
    member = f'BalancerMember "http://{step.callee}:8080"'
    line = partial(Line, TITLE, step.tier, "proxy.conf")
    match step.what:
        case "policy" if step.then in METHODS:
            yield line(*step.named("ProxySet lbmethod=", METHODS))
        case "pool":
            yield line(f"{member} max={step.now}", f"{member} max={step.then}", "per process of Apache")
        case "skip":
            yield line(member, f"{member} max={step.then} acquire=1", "acquire is in milliseconds")
        case "poll":
            yield line(member, f"{member} acquire={step.then // MILLISECOND}", "milliseconds")
        case "connect" if step.then:
            note = "milliseconds, and seconds until a member in error is tried again"
            yield line(member, f"{member} connectiontimeout={step.then // MILLISECOND}ms retry=1", note)
        case "kept" if step.callee:
            yield line(f"{member} disablereuse=on", f"{member} enablereuse=on")
