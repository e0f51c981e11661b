"""Receives traces and metrics over OTLP and keeps them as they come, in the form of the Collector's files (`frames`).

This module speaks HTTP; `receiving_grpc` speaks gRPC.

Nothing of what is sent is interpreted here, except its length and its compression: another process reads the file, and
has no rights.
"""

from __future__ import annotations

import gzip
import io
import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from typing import BinaryIO

from tailrace.bounds import OTLP_MESSAGE

CONNECTIONS_MAX = 64
"""Senders that are served at once; a further one waits for its turn."""
_SILENT_S = 30
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"


@dataclass
class Spool:
    """The messages that were received, each with its length before it, in a file for each signal."""

    files: Mapping[str, BinaryIO]
    most: int
    """Bytes of all files."""
    written: int = 0
    messages: int = 0
    refused: int = 0
    full: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, signal: str, message: bytes) -> bool:
        with self._lock:
            if self.written + len(message) > self.most:
                self.full = True
                self.refused += 1
                return False
            self.files[signal].write(len(message).to_bytes(4, "big") + message)
            self.written += len(message) + 4
            self.messages += 1
            return True

    def finish(self) -> None:
        """Take no more; a thread may still be writing a message."""
        with self._lock:
            self.most = 0
            for file in self.files.values():
                file.flush()


SIGNALS = ("traces", "metrics")


def path_of(folder: Path, signal: str) -> Path:
    return folder / f"{signal}.otlp"


def receive(
    listening: socket, folder: Path, most: int, wait: Callable[[Spool], None], grpc_at: str | None = None
) -> Spool:
    """Take what comes until `wait` returns; the folder then has a file for each signal. `grpc_at` is where gRPC is
    received besides."""
    with ExitStack() as open_now:
        files = {signal: open_now.enter_context(path_of(folder, signal).open("xb")) for signal in SIGNALS}
        spool = Spool(files, most)
        if grpc_at is not None:
            from tailrace.readers.receiving_grpc import serving

            open_now.enter_context(serving(grpc_at, spool))
        server = _Server(listening, spool)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            wait(spool)
        finally:
            server.shutdown()
            server.server_close()
            spool.finish()
    return spool


class BoundedServer(ThreadingHTTPServer):
    """A connection has a thread; their number is bounded."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket, handler: type[BaseHTTPRequestHandler], connections_max: int) -> None:
        self._free = threading.BoundedSemaphore(connections_max)
        super().__init__(listening.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening

    def process_request(self, request: object, client_address: object) -> None:
        self._free.acquire()
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks is its sender's affair."""


class _Server(BoundedServer):
    def __init__(self, listening: socket, spool: Spool) -> None:
        self.spool = spool
        super().__init__(listening, _Handler, CONNECTIONS_MAX)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _SILENT_S
    server: _Server

    def do_POST(self) -> None:
        kind = (self.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        length = self.headers.get("Content-Length") or ""
        if not (length.isascii() and length.isdigit() and len(length) < 12):
            return self._refuse(HTTPStatus.LENGTH_REQUIRED)
        if int(length) > OTLP_MESSAGE:
            return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        body = self.rfile.read(int(length))
        signal = self.path.partition("?")[0].removeprefix("/v1/")
        if signal not in SIGNALS:
            return self._refuse(HTTPStatus.NOT_FOUND)
        if kind not in (_JSON, _PROTOBUF):
            return self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        message = _unpacked(body, self.headers.get("Content-Encoding") or "")
        if len(body) < int(length) or message is None:
            return self._refuse(HTTPStatus.BAD_REQUEST)
        if message and not self.server.spool.add(signal, message):
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
        return self._answer(HTTPStatus.OK, kind, b"{}" if kind == _JSON else b"")

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        self._answer(status, "text/plain", status.phrase.encode() + b"\n")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Only the command prints."""


def _unpacked(body: bytes, encoding: str) -> bytes | None:
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        return None
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            message = file.read(OTLP_MESSAGE + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return None
    return message if len(message) <= OTLP_MESSAGE else None
