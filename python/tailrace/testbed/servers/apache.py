"""Apache httpd with the worker MPM and mod_jk: a thread waits until the page has arrived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tailrace.testbed.program import where
from tailrace.testbed.servers.kind import Kind, Refusal
from tailrace.testbed.servers.setting import Setting
from tailrace.units import MILLISECOND, SECOND

METHODS = {"total_request": "R", "total_traffic": "T", "current_load": "B", "sessions": "S"}
"""Policies that mod_jk has: Request, Traffic, Busyness, Session."""
_PATIENT_MS = 300_000


def _files(setting: Setting) -> Mapping[str, str]:
    [called] = setting.calls
    processes = processes_max(setting)
    several = len(called.candidates) > 1
    threads = setting.tier.workers or 0
    pool = called.call.pool or threads
    skips = called.endpoint == "modified"
    worker = "tomcats" if several else called.candidates[0].name
    return {
        "apache.conf": setting.render("apache.conf.j2", processes=processes, worker=worker),
        "workers.properties": setting.render(
            "workers.properties.j2",
            called=called,
            worker=worker,
            pool=threads if skips else pool,  # mod_jk counts a busy candidate only after it has a connection
            recover_s=called.recover_time // SECOND,
            method=METHODS.get(called.call.policy or "", "R"),
            acquire_ms=_PATIENT_MS if called.endpoint == "wait" else called.call.endpoint_timeout // MILLISECOND,
            busy_limit=pool * setting.tier.processes if skips else 0,
        ),
    }


def processes_max(setting: Setting) -> int:
    tier = setting.tier
    return tier.spawn.processes_max if tier.spawn else tier.processes


def _refuses(setting: Setting) -> Iterator[Refusal]:
    tier = setting.tier
    if len(setting.calls) != 1:
        yield "calls", "the testbed's Apache passes all pages to one tier of Tomcats"
    if tier.kind != "sync":
        yield "kind", "Apache's worker MPM is synchronous; use nginx"
    if not tier.workers:
        yield "workers", "Apache needs a fixed number of threads"
    for called in setting.calls:
        if called.tier.software not in ("tomcat", "xtomcat"):
            yield "calls", "mod_jk speaks only to Tomcat"
        if len(called.candidates) > 1 and called.call.policy not in METHODS:
            yield "calls.policy", f"mod_jk has {', '.join(METHODS)}"
        recover_time = called.call.recover_time
        if recover_time is not None and (recover_time < SECOND or recover_time % SECOND):
            yield "calls.recover_time", "mod_jk takes whole seconds, at least one"


KIND = Kind(
    port=lambda setting: 80,
    files=_files,
    command=lambda setting: [where("apache2"), "-DFOREGROUND", "-f", f"{setting.folder}/apache.conf"],
    refuses=_refuses,
)
