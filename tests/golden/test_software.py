"""The lines to change, for each software: one text with the lines of every kind of change.

`make golden` rewrites the expectations; review the diff. Where a server is installed, it checks its own lines.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tailrace.advise.software import SOFTWARE, Step, of_step
from tailrace.advise.software.steps import steps
from tailrace.experiment import Experiment, from_table

FOLDER = Path(__file__).parent / "software"
PAGE = {
    "page": {"at": {"web": {"compute": "1 ms", "calls": {"query": 1}}}},
    "query": {"at": {"app": {"compute": "1 ms"}}},
}
WEB: dict[str, Any] = {"workers": 100, "backlog": 128, "calls": {"app": {"pool": 50, "policy": "total_request"}}}
APP: dict[str, Any] = {"count": 2, "workers": 100, "quota": {"time": "100 ms"}, "heap": "jvm15", "log": "1 kB"}


def system(web: dict[str, Any], app: dict[str, Any], **others: Any) -> Experiment:
    call = WEB["calls"]["app"] | web.pop("call", {})
    nodes = {"app": {"governor": {}, "disk": {"writeback": {}}}}
    load = {"w": {"clients": 10, "interaction": "page"}}
    tiers = {"web": WEB | web | {"calls": {"app": call}}, "app": APP | app}
    return from_table({"tiers": tiers, "interactions": PAGE, "workloads": load, "nodes": nodes} | others)


def gone(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {"nodes": {"app": {name: value for name, value in table.items() if name != key}}}


NODE = {"governor": {}, "disk": {"writeback": {}}}
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
    "more cores": system({}, {}, nodes={"app": NODE | {"cores": 2.0}}),
    "the full clock rate": system({}, {}, **gone(NODE, "governor")),
    "a shorter period of the governor": system({}, {}, nodes={"app": NODE | {"governor": {"period": "100 ms"}}}),
    "smaller writes": system({}, {}, nodes={"app": NODE | {"disk": {"writeback": OFTEN}}}),
    "senders with a newer kernel": system({}, {}, kernel={"syn": "linux-6.5"}),
    "a limit by the gradient": system({}, {"limit": {}}),
    "a limit by late answers": system({}, {"limit": {"kind": "aimd", "timeout": "200 ms"}}),
    "calls that are sent a second time": system({"call": {"hedge": "200 ms"}}, {}),
    "clients that hedge": system({}, {}, workloads={"w": LOAD | {"hedge": "200 ms"}}),
    "clients that repeat": system({}, {}, workloads={"w": LOAD | RETRIED}),
    "senders that repeat early": system({}, {}, kernel={"syn": ["200 ms", "400 ms"]}),
}


def text_of(software: str) -> str:
    base = system({}, {})
    found = []
    for what, changed in CHANGES.items():
        own = [line for step in steps(base, changed) for line in of_step(software, step)]
        found += [f"{what}:"] * bool(own)
        for line in own:
            note = f"  ({line.note})" if line.note else ""
            found.append(f"  {line.file}: {line.now or '(nothing)'} -> {line.then or '(nothing)'}{note}")
    return "".join(f"{line}\n" for line in found)


@pytest.mark.parametrize("software", SOFTWARE)
def test_lines(software: str) -> None:
    text, file = text_of(software), FOLDER / f"{software}.txt"
    if os.environ.get("TAILRACE_GOLDEN") == "rewrite":
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), "if this is an improvement: make golden, and review the diff"


def then(software: str, *changes: str) -> list[str]:
    base = system({}, {})
    return [line.then for what in changes for step in steps(base, CHANGES[what]) for line in SOFTWARE[software](step)]


def accepted(command: list[str], file: Path, text: str) -> None:
    """The server itself finds no fault in a configuration with these lines."""
    if not shutil.which(command[0], path=f"{os.environ['PATH']}:/usr/sbin"):
        pytest.skip(f"{command[0]} is not installed")
    file.write_text(text)
    path = {"PATH": f"{os.environ['PATH']}:/usr/sbin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=path)
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"


def test_nginx_accepts_its_lines(tmp_path: Path) -> None:
    [listen] = then("nginx", "a longer backlog")
    [server] = then("nginx", "a larger pool")
    [log] = [line.replace("/var/log/nginx", str(tmp_path)) for line in logs("nginx")]
    methods = then("nginx", "the least busy candidate"), then("nginx", "the better of two candidates")
    kept = [line.then for line in SOFTWARE["nginx"](Step("kept", "web", False, True, "app"))]
    for [method] in methods:
        upstream = f"upstream app {{ {method} {server.replace('server app', 'server 127.0.0.1')} {kept[0]} }}"
        inside = f"{listen.replace('80', '8080', 1)} location / {{ proxy_pass http://app; {kept[1]} {kept[2]} }} {log}"
        processes, _ = then("nginx", "an asynchronous server")
        text = f"pid {tmp_path}/pid; error_log {tmp_path}/error.log; {processes} "
        text += f"events {{ {then('nginx', 'more workers')[0]} }} http {{ {upstream} server {{ {inside} }} }}"
        file = tmp_path / "nginx.conf"
        accepted(["nginx", "-t", "-e", f"{tmp_path}/error.log", "-p", str(tmp_path), "-c", str(file)], file, text)


def logs(software: str) -> list[str]:
    return [line.then for line in SOFTWARE[software](Step("log", "web", 1000, 0))]


def test_apache_accepts_its_lines(tmp_path: Path) -> None:
    modules = Path("/usr/lib/apache2/modules")
    needed = ("mpm_event", "proxy", "proxy_http", "proxy_balancer", "slotmem_shm", "lbmethod_bybusyness", "authz_core")
    text = [f'ServerRoot "{tmp_path}"', f"PidFile {tmp_path}/pid", "ServerName test", f"ErrorLog {tmp_path}/log"]
    text += [f"DefaultRuntimeDir {tmp_path}", "Listen 127.0.0.1:8099"]
    text += [f"LoadModule {name}_module {modules}/mod_{name}.so" for name in needed]
    text += [*then("apache", "a longer backlog", "more workers", "clients that keep connections"), *logs("apache")]
    [policy] = then("mod_proxy", "the least busy candidate")
    members = then("mod_proxy", "a larger pool", "no wait for a connection", "a shorter wait for a connection")
    inside = [member.replace("//app:", f"//app{number}:") for number, member in enumerate(members)]
    text += ["<Proxy balancer://b>", *inside, policy, "</Proxy>"]
    file = tmp_path / "apache2.conf"
    accepted(["apache2", "-t", "-f", str(file)], file, "\n".join(text) + "\n")


def test_haproxy_accepts_its_lines(tmp_path: Path) -> None:
    front = then("haproxy", "a longer backlog", "more workers", "clients that keep connections")
    for method in ("the least busy candidate", "the better of two candidates", "round robin"):
        for server in ("a larger pool", "no wait for a connection"):
            back = [
                *then("haproxy", method),
                *(line.replace(" app:", " 127.0.0.1:") for line in then("haproxy", server)),
            ]
            kept = [line.then for line in SOFTWARE["haproxy"](Step("kept", "web", False, True, "app"))]
            times = "timeout client 1s\n timeout server 1s\n timeout connect 1s"
            text = f"global\n maxconn 1000\ndefaults\n mode http\n {times}\nfrontend f\n bind 127.0.0.1:8098\n "
            text += "\n ".join([*front, "default_backend b"]) + "\nbackend b\n " + "\n ".join([*back, *kept]) + "\n"
            file = tmp_path / "haproxy.cfg"
            accepted(["haproxy", "-c", "-f", str(file)], file, text)


def test_mariadb_accepts_its_lines(tmp_path: Path) -> None:
    base = system({}, {})
    found = then("mysql", "a longer backlog", "more workers") + [
        line.then
        for what in ("fewer workers", "no access log")
        for step in steps(base, CHANGES[what])
        for line in SOFTWARE["mysql"](step)
        if not line.note.startswith("MySQL")
    ]
    assert len(found) == 5
    file = tmp_path / "my.cnf"
    accepted(
        ["mariadbd", f"--defaults-file={file}", "--verbose", "--help"], file, "[mysqld]\n" + "\n".join(found) + "\n"
    )


def test_php_fpm_accepts_its_lines(tmp_path: Path) -> None:
    if not (names := sorted(Path("/usr/sbin").glob("php-fpm*"))):
        pytest.skip("php-fpm is not installed")
    file = tmp_path / "fpm.conf"
    text = (
        f"[global]\npid = {tmp_path}/pid\nerror_log = {tmp_path}/log\n[www]\nlisten = 127.0.0.1:8097\nuser = nobody\n"
    )
    found = then("php-fpm", "a longer backlog", "more workers")
    accepted([names[-1].name, "-t", "-y", str(file)], file, text + "\n".join(found) + "\n")
