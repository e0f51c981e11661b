"""Envoy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.units import SECOND

NAME, TITLE = "envoy", "Envoy"
CLIENT = "in the route of the Envoy that sends the requests; retry_policy needs retry_on: 5xx"
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
        case "connect" if step.then:
            yield line("", f"connect_timeout: {_seconds(step.then)}", f"in cluster {step.callee}")
            yield line("", "retry_on: connect-failure", "in retry_policy of the route")
        case "limit" if step.then:
            yield line("", "name: envoy.filters.http.adaptive_concurrency", "with its gradient_controller_config")
        case "hedge" if step.then.hedge:
            yield from _hedged(line, step.then.hedge)
        case "second" if step.then:
            yield from _hedged(line, step.then)
            previous = "retry_host_predicate: [{ name: envoy.retry_host_predicates.previous_hosts }]"
            yield line("", previous, "another candidate; in the same retry_policy")
        case "timeout":
            yield line("", f"timeout: {_seconds(step.then)}", "in the route of the Envoy that sends the requests")
        case "retries" if step.then.retries:
            if step.then.timeout:
                yield line("", f"per_try_timeout: {_seconds(step.then.timeout)}", CLIENT)
                yield line("", f"num_retries: {step.then.retries}", CLIENT)
            if step.then.retry_budget is not None:
                percent = f"budget_percent: {{ value: {100 * step.then.retry_budget:g} }}"
                yield line("", f"retry_budget: {{ {percent} }}", "in circuit_breakers.thresholds of the cluster")


def _hedged(line: Callable[..., Line], after: int) -> Iterator[Line]:
    yield line("", f"per_try_timeout: {_seconds(after)}", CLIENT)
    yield line("", "hedge_policy: { hedge_on_per_try_timeout: true }", CLIENT)


def _seconds(time: int) -> str:
    return f"{time / SECOND:g}s"
