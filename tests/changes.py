"""Changes of one system, and the lines that each needs in a software."""

from __future__ import annotations

from typing import Any

from tailrace.advise.software import SOFTWARE, Step
from tailrace.advise.software.steps import steps
from tailrace.experiment import Experiment, from_table

PAGE = {
    "page": {"at": {"web": {"compute": "1 ms", "calls": {"query": 1}}}},
    "query": {"at": {"app": {"compute": "1 ms"}}},
}
NODE = {"governor": {}, "disk": {"writeback": {}}, "cores": 2.0}
WEB: dict[str, Any] = {"workers": 100, "backlog": 128, "calls": {"app": {"pool": 50, "policy": "total_request"}}}
APP: dict[str, Any] = {"count": 2, "workers": 100, "quota": {"time": "100 ms"}, "heap": "jvm15", "log": "1 kB"}


def _early(wait: str) -> dict[str, Any]:
    return {"silent": True, "at": {"web": {"wait": wait}}}


def system(web: dict[str, Any], app: dict[str, Any], **others: Any) -> Experiment:
    call = WEB["calls"]["app"] | web.pop("call", {})
    nodes = {"app": NODE}
    load = {"w": {"clients": 10, "interaction": "page"}}
    pages = {"interactions": PAGE | {"early": _early("5 s")}}
    tiers = {"web": WEB | web | {"calls": {"app": call}}, "app": APP | app}
    return from_table({"tiers": tiers, "workloads": load, "nodes": nodes} | pages | others)


def gone(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {"nodes": {"app": {name: value for name, value in table.items() if name != key}}}


CHEAP = {"base": "170 ms", "per_live": "0.1 ms"}
HEAP = {"young": "64 MiB", "per_visit": "26 kB", "threads": 1.0, "young_collection": CHEAP}
KEPT = {"w": {"clients": 10, "interaction": "page", "kept": True}}
LOAD = {"clients": 10, "interaction": "page"}
RETRIED = {"timeout": "400 ms", "retries": 3, "retry_budget": 0.2, "retried_as_one": True}
OFTEN = {"expire": "1 s", "period": "500 ms"}
CHANGES: dict[str, Experiment] = {
    "a longer backlog": system({"backlog": 512}, {}),
    "more workers": system({"workers": 256}, {}),
    "fewer workers": system({"workers": 16}, {}),
    "an asynchronous server": system({"kind": "async", "workers": 0}, {}),
    "a larger pool": system({"call": {"pool": 100}}, {}),
    "the least busy candidate": system({"call": {"policy": "current_load"}}, {}),
    "the better of two candidates": system({"call": {"policy": "power_of_two"}}, {}),
    "round robin": system({"call": {"policy": "round_robin"}}, {}),
    "no wait for a connection": system({"call": {"endpoint": "modified"}}, {}),
    "a shorter wait for a connection": system({"call": {"endpoint_timeout": "100 ms"}}, {}),
    "a short wait for a new connection": system({"call": {"connect_timeout": "100 ms", "recover_time": "1 s"}}, {}),
    "a pool for each servlet": system({"call": {"pool_per": ["interaction"]}}, {}),
    "clients that keep connections": system({}, {}, workloads=KEPT),
    "a larger quota": system({}, {"quota": {"time": "200 ms"}}),
    "a shorter period of the quota": system({}, {"quota": {"time": "10 ms", "period": "10 ms"}}),
    "a quota with a burst": system({}, {"quota": {"time": "100 ms", "burst": "50 ms"}}),
    "no quota": system({}, {"quota": None}),
    "more CPU weight": system({}, {"weight": 4.0}),
    "a larger young generation": system({}, {"heap": HEAP | {"young": "256 MiB"}}),
    "more threads that collect": system({}, {"heap": HEAP | {"threads": 4.0}}),
    "a newer JVM": system({}, {"heap": "jvm16"}),
    "no pauses of the collector": system({}, {"heap": None}),
    "no access log": system({}, {"log": 0}),
    "one more replica": system({}, {"count": 3}),
    "more cores": system({}, {}, nodes={"app": NODE | {"cores": 4.0}}),
    "the full clock rate": system({}, {}, **gone(NODE, "governor")),
    "a shorter period of the governor": system({}, {}, nodes={"app": NODE | {"governor": {"period": "100 ms"}}}),
    "smaller writes": system({}, {}, nodes={"app": NODE | {"disk": {"writeback": OFTEN}}}),
    "senders with a newer kernel": system({}, {}, kernel={"syn": "linux-6.5"}),
    "a limit by the gradient": system({}, {"limit": {}}),
    "a limit by late answers": system({}, {"limit": {"kind": "aimd", "timeout": "200 ms"}}),
    "calls that are sent a second time": system({"call": {"hedge": "200 ms"}}, {}),
    "clients that hedge": system({}, {}, workloads={"w": LOAD | {"hedge": "200 ms"}}),
    "clients that repeat": system({}, {}, workloads={"w": LOAD | RETRIED}),
    "clients that give up": system({}, {}, workloads={"w": LOAD | {"timeout": "400 ms"}}),
    "quota periods at different times": system({}, {"quota": {"time": "100 ms", "phases": "even"}}),
    "CPUs of its own": system({}, {}, nodes={"app": NODE | {"cores": 1.0}}),
    "silent clients that are cut off": system({}, {}, interactions=PAGE | {"early": _early("500 ms")}),
    "light calls first": system({"call": {"priority": 4}}, {}),
    "light requests first": system({}, {"order": "lightest"}),
    "peak EWMA": system({"call": {"policy": "peak_ewma"}}, {}),
    "senders that repeat early": system({}, {}, kernel={"syn": ["200 ms", "400 ms"]}),
}


def then(software: str, *changes: str) -> list[str]:
    base = system({}, {})
    return [line.then for what in changes for step in steps(base, CHANGES[what]) for line in SOFTWARE[software](step)]


def of_step(software: str, *step: Any) -> list[str]:
    return [line.then for line in SOFTWARE[software](Step(*step))]
