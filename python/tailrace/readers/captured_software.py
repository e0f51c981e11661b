"""What servers run, by what they say of it in captures: `Server`, `Via` and `X-Powered-By` of HTTP, and the versions in
greetings of databases.

A proxy passes on what the server behind it says, and a pool of database connections repeats the version of its
database. So what a server says counts only if no server that it calls says the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

DATABASES = {"mysql": "MySQL", "postgres": "PostgreSQL"}
"""Protocol → its usual server."""
OTHERS = re.compile(
    r"bouncer|clickhouse|cockroach|dolt|doris|maxscale|memsql|oceanbase|odyssey|pgcat|proxysql|singlestore|starrocks"
    r"|tidb|vitess|-yb-",
    re.IGNORECASE,
)
"""Other programs that speak the protocols of MySQL and PostgreSQL, and say so in their versions."""
INTERPRETERS = {
    "java": re.compile("coyote|tomcat|jetty|undertow|jboss|wildfly|servlet", re.IGNORECASE),
    "python": re.compile("gunicorn|uvicorn|uwsgi", re.IGNORECASE),
    "ruby": re.compile("puma", re.IGNORECASE),
}
"""Programs that run others, and what these say."""
_BEHIND_AJP = re.compile("coyote|tomcat|servlet", re.IGNORECASE)
_COMMENT = re.compile(r"\(([^()]+)\)\s*$")
_MARIADB = re.compile(r"(?:5\.5\.5-)?(\d[\w.]*)-mariadb", re.IGNORECASE)
"""Versions from 10 on have a prefix, because old clients read the first digit alone."""
_VERSION = re.compile(r"\d+(\.\d+)*")


def of(servers: Iterable[Mapping[str, Any]], calls: Iterable[tuple[str, str]]) -> dict[str, str]:
    """By name, the software of the servers in the engine's report that say it. `calls`: caller and callee."""
    by_name = {server["name"]: server for server in servers}
    callees: dict[str, list[Mapping[str, Any]]] = {name: [] for name in by_name}
    for caller, callee in calls:
        if caller in by_name and callee in by_name and caller != callee:
            callees[caller].append(by_name[callee])
    found: dict[str, str] = {}
    for name, server in by_name.items():
        one = _database if server.get("protocol") in DATABASES else _web
        if software := one(server, callees[name]):
            found[name] = software
    return found | _behind_fastcgi(by_name, callees)


def within(process: str, said: str | None) -> str:
    """The process that listens, unless it runs what the server says that it is."""
    known = next((words for name, words in INTERPRETERS.items() if process.lower().startswith(name)), None)
    return said if said and known and known.search(said) else process


def _said(server: Mapping[str, Any], source: str) -> str:
    return str((server.get("software") or {}).get(source) or "")


def _own(server: Mapping[str, Any], callees: Iterable[Mapping[str, Any]], source: str) -> str:
    """What the server says, unless it may pass that on."""
    said = _said(server, source)
    return "" if said in {_said(callee, source) for callee in callees} else said


def _web(server: Mapping[str, Any], callees: list[Mapping[str, Any]]) -> str:
    """A proxy that adds itself to `Via` may pass on `Server`, so only its comment in `Via` tells what it is. What PHP
    says of itself is not about the server that speaks HTTP."""
    if via := _own(server, callees, "via"):
        comment = _COMMENT.search(via)
        return comment[1].strip() if comment else ""
    if _said(server, "via"):
        return ""
    own = _own(server, callees, "server")
    if not _said(server, "server"):
        own = _own(server, callees, "powered_by")
        own = "" if own.lower().startswith("php") else own
    by_ajp = any(callee.get("protocol") == "ajp" for callee in callees)
    return "" if by_ajp and _BEHIND_AJP.search(own) else own


def _database(server: Mapping[str, Any], callees: list[Mapping[str, Any]]) -> str:
    protocol = server["protocol"]
    said = _said(server, "server")
    if not said or any(callee.get("protocol") == protocol for callee in callees):
        return ""
    if OTHERS.search(said):
        return said
    if maria := _MARIADB.match(said):
        return f"MariaDB {maria[1]}"
    version = _VERSION.match(said)
    return f"{DATABASES[protocol]} {version[0]}" if version else ""


def _behind_fastcgi(
    by_name: Mapping[str, Mapping[str, Any]], callees: Mapping[str, list[Mapping[str, Any]]]
) -> dict[str, str]:
    """The answers of a web server that calls one FastCGI server show what that one says: PHP names itself."""
    found = {}
    for name, server in by_name.items():
        behind = [callee["name"] for callee in callees[name] if callee.get("protocol") == "fastcgi"]
        powered = _own(server, [one for one in callees[name] if one.get("protocol") != "fastcgi"], "powered_by")
        if len(behind) == 1 and powered.lower().startswith("php"):
            found[behind[0]] = powered
    return found
