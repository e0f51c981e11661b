"""HAProxy: in TCP mode before databases (in C-JDBC's place, or as a gate that holds workers + backlog), in HTTP mode
before Tomcats.

HAProxy replaces C-JDBC, which has had no release since 2007: ProxySQL and MaxScale are in no release of Debian, and
ShardingSphere-Proxy has a connection pool and a parser of its own, a tier more than the papers have. HAProxy is
packaged everywhere and adds tens of µs. It balances connections, not statements: reads may go to several databases,
writes only to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tailrace.testbed.program import where
from tailrace.testbed.servers.kind import Kind, Refusal
from tailrace.testbed.servers.setting import Setting

METHODS = {
    "round_robin": "roundrobin",
    "least_connections": "leastconn",
    "random": "random(1)",
    "power_of_two": "random(2)",
}
DATABASES = ("mysql", "xmysql")


def _mode(setting: Setting) -> str:
    return "tcp" if setting.calls and setting.calls[0].tier.software in (*DATABASES, "cjdbc") else "http"


def _files(setting: Setting) -> Mapping[str, str]:
    [called] = setting.calls
    method = METHODS.get(called.call.policy or "", "leastconn")
    return {"haproxy.cfg": setting.render("haproxy.cfg.j2", called=called, mode=_mode(setting), method=method)}


def _refuses(setting: Setting) -> Iterator[Refusal]:
    if len(setting.calls) != 1:
        yield "calls", "HAProxy stands before one tier"
    for called in setting.calls:
        if called.call.policy not in METHODS:
            yield "calls.policy", f"HAProxy has {', '.join(METHODS)}"
        if _mode(setting) == "tcp" and len(called.candidates) > 1 and _writes(setting):
            yield "calls", "writes would have to go to all databases; use a browse-only walk or one database"


def _writes(setting: Setting) -> bool:
    loads = setting.experiment.workloads.values()
    return any((load.walk or "").startswith("read-write") for load in loads)


KIND = Kind(
    port=lambda setting: 3306 if _mode(setting) == "tcp" else 80,
    files=_files,
    command=lambda setting: [where("haproxy"), "-db", "-f", f"{setting.folder}/haproxy.cfg"],
    refuses=_refuses,
)
