"""Serves the metrics of a watch over HTTP, from a process without any rights.

The watch opens the socket and starts the process. It sends each new text through a pipe; the process ends when the pipe
does, however the watch has ended. So no byte from the network reaches a process that has rights.
"""

from __future__ import annotations

import ipaddress
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tailrace.errors import UsageError
from tailrace.watch.exposition import OPENMETRICS, PROMETHEUS

CONNECTIONS_MAX = 16
"""A further connection ends the oldest one. Prometheus uses one for each scrape."""
SILENT_S = 5
"""So long a client may be silent."""
_SERVE = "from tailrace.watch import serving; serving.serve()"


def listen(address: str, option: str = "--metrics") -> socket.socket:
    """A socket at `ADDR:PORT` or `[ADDR]:PORT`. Raises UsageError if there cannot be one."""
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise UsageError(f"{option} {address}: expected ADDR:PORT, like 127.0.0.1:9464")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        return socket.create_server(found[4][:2], family=found[0], backlog=CONNECTIONS_MAX)
    except OSError as error:
        raise UsageError(f"{option} {address}: {error.strerror or error}", advice="choose another address") from error


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address; a name counts as one only if it is `localhost`."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def shown(host: str, port: int, *, tls: bool = False) -> str:
    """The URL of an address; IPv6 has brackets in it."""
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


class Endpoint:
    """The process that serves, seen from the watch."""

    def __init__(self, listening: socket.socket) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-P", "-c", _SERVE, str(listening.fileno())),
            pass_fds=(listening.fileno(),),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        listening.close()
        self._texts: queue.Queue[bytes] = queue.Queue(maxsize=1)
        threading.Thread(target=self._send, daemon=True).start()

    def offer(self, openmetrics: str, prometheus: str) -> bool:
        """Serve these texts from now on. False if the process has ended. A text is left out while an earlier one is
        still on its way."""
        with suppress(queue.Full):
            self._texts.put_nowait(json.dumps([openmetrics, prometheus]).encode() + b"\n")
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _send(self) -> None:
        pipe = self._process.stdin
        if pipe is None:
            return
        with suppress(OSError):
            while True:
                pipe.write(self._texts.get())
                pipe.flush()


class _Server(ThreadingHTTPServer):
    """A connection has a thread; their number is bounded."""

    daemon_threads = True
    texts = ("", "")

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.connections: deque[Any] = deque()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        if len(self.connections) > CONNECTIONS_MAX:
            with suppress(OSError, IndexError):
                self.connections.popleft().shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with suppress(ValueError):
            self.connections.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error."""


class _Handler(BaseHTTPRequestHandler):
    timeout = SILENT_S
    server: _Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "see /metrics")
            return
        wants = "application/openmetrics-text" in self.headers.get("Accept", "")
        body = self.server.texts[0 if wants else 1].encode()
        self.send_response(200)
        self.send_header("Content-Type", OPENMETRICS if wants else PROMETHEUS)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A method without a function here is not allowed, rather than unknown (RFC 9110, section 15.5.6)."""
        if code != HTTPStatus.NOT_IMPLEMENTED:
            super().send_error(code, message, explain)
            return
        self.send_response(HTTPStatus.METHOD_NOT_ALLOWED)
        self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def version_string(self) -> str:
        return "tailrace"

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def serve() -> None:
    """The whole life of the process; the descriptor of its socket is the last word of the command."""
    from tailrace._core import give_up_rights

    server = _Server(socket.socket(fileno=int(sys.argv[-1])))
    give_up_rights()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for line in sys.stdin.buffer:
        openmetrics, prometheus = json.loads(line)
        server.texts = (openmetrics, prometheus)
    os._exit(0)
