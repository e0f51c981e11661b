"""Envoy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step

NAME, TITLE = "envoy", "Envoy"
METHODS = {
    "least_connections": "LEAST_REQUEST",
    "current_load": "LEAST_REQUEST",
    "power_of_two": "LEAST_REQUEST",
    "round_robin": "ROUND_ROBIN",
    "random": "RANDOM",
}
"""LEAST_REQUEST compares two candidates that it draws, unless choice_count says otherwise."""


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "envoy.yaml")
    thresholds = f"in circuit_breakers.thresholds of cluster {step.callee}"
    match step.what:
        case "backlog":
            yield line(f"tcp_backlog_size: {step.now}", f"tcp_backlog_size: {step.then}", "in the listener")
        case "policy" if step.then in METHODS:
            yield line(*step.named("lb_policy: ", METHODS), f"in cluster {step.callee}")
        case "pool":
            yield line(f"max_connections: {step.now}", f"max_connections: {step.then}", thresholds)
        case "skip":
            yield line("", f"max_requests: {step.then}", thresholds)
            yield line("", "max_pending_requests: 1", thresholds)
