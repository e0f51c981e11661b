"""nginx as a web server or proxy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.units import MILLISECOND

NAME, TITLE = "nginx", "nginx"
METHODS = {
    "least_connections": "least_conn;",
    "current_load": "least_conn;",
    "shortest_queue": "least_conn;",
    "power_of_two": "random two least_conn;",
    "random": "random;",
}


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier, "nginx.conf")
    match step.what:
        case "backlog":
            yield line(f"listen 80 backlog={step.now};", f"listen 80 backlog={step.then};")
        case "workers":
            yield line(f"worker_connections {step.now};", f"worker_connections {step.then};", "in events { }")
        case "kind":
            yield line("", "worker_processes auto;")
            yield line("", "worker_connections 4096;", "in events { }")
        case "policy" if step.then in METHODS:
            yield line(METHODS.get(step.now, ""), METHODS[step.then], f"in upstream {step.callee} {{ }}")
        case "policy" if step.then == "round_robin" and step.now in METHODS:
            yield line(METHODS[step.now], "", f"remove the method: upstream {step.callee} goes round")
        case "pool" | "skip":
            server = f"server {step.callee}:8080"
            yield line(f"{server};", f"{server} max_conns={step.then};", f"in upstream {step.callee} {{ }}")
        case "connect" if step.then:
            yield line("", f"proxy_connect_timeout {step.then // MILLISECOND}ms;", f"in the location of {step.callee}")
            again = "it also repeats requests whose answer takes longer than proxy_read_timeout"
            yield line("", "proxy_next_upstream error timeout;", again)
        case "kept" if step.callee:
            yield line("", "keepalive 64;", f"in upstream {step.callee} {{ }}, after the method")
            yield line("", "proxy_http_version 1.1;")
            yield line("", 'proxy_set_header Connection "";')
        case "kept":
            yield line("keepalive_timeout 0;", "keepalive_timeout 75s;")
        case "silence":
            yield line("", f"client_header_timeout {step.then // MILLISECOND}ms;", "in http { } or server { }")
        case "timeout":
            note = "in the location: time without any data"
            yield line("", f"proxy_read_timeout {step.then // MILLISECOND}ms;", note)
            yield line("", "proxy_next_upstream off;", "in the location: it gives up and sends nothing again")
        case "log":
            yield line("", "access_log /var/log/nginx/access.log combined buffer=64k flush=1s;", "or access_log off;")
