"""nginx: event loops, which hold no thread while a request waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tailrace.testbed.program import where
from tailrace.testbed.servers.kind import Kind, Refusal
from tailrace.testbed.servers.setting import Setting

METHODS = {
    "round_robin": "",
    "least_connections": "least_conn",
    "random": "random",
    "power_of_two": "random two least_conn",
}


def _files(setting: Setting) -> Mapping[str, str]:
    [called] = setting.calls
    method = METHODS.get(called.call.policy or "", "")
    return {"nginx.conf": setting.render("nginx.conf.j2", called=called, method=method, upstream="called")}


def _refuses(setting: Setting) -> Iterator[Refusal]:
    if len(setting.calls) != 1:
        yield "calls", "the testbed's nginx passes all pages to one tier"
    if setting.tier.kind == "sync":
        yield "kind", "nginx is asynchronous; use apache"
    for called in setting.calls:
        if called.tier.software not in ("tomcat", "xtomcat", "haproxy"):
            yield "calls", "nginx speaks HTTP here, to Tomcat or HAProxy"
        if called.call.policy not in METHODS:
            yield "calls.policy", f"nginx has {', '.join(METHODS)}"


KIND = Kind(
    port=lambda setting: 80,
    files=_files,
    command=lambda setting: [where("nginx"), "-c", f"{setting.folder}/nginx.conf"],
    refuses=_refuses,
)
