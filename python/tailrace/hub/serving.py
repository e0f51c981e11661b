"""Receives what hosts send: every request has the token, a length, and a time by which it must be complete."""

from __future__ import annotations

import json
import re
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socket import socket
from typing import Any

from tailrace.hub.admission import ANY, Admission
from tailrace.hub.desk import Desk
from tailrace.hub.wire import HOST, MESSAGE_BYTES, SEGMENT_BYTES, SILENT_S, Message, message
from tailrace.readers.receiving import BoundedServer

CONNECTIONS_MAX = 1_024
"""Each host has one; a further one waits."""
BODY_S = 120.0
"""A segment must arrive within this time: 64 MiB at 4.5 Mbit/s."""
_CHUNK = 1 << 16
_RECORDING = re.compile(r"/v1/recordings/([^/]+)/([^/]+)/([^/]+)")
_DONE = re.compile(r"/v1/done/([^/]+)/([^/]+)")


class _RefusedError(Exception):
    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Server(BoundedServer):
    def __init__(self, listening: socket, desk: Desk, admission: Admission, tls: ssl.SSLContext | None) -> None:
        super().__init__(listening, _Handler, CONNECTIONS_MAX)
        self.desk = desk
        self.admission = admission
        self._tls = tls

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the thread of the connection, so that a slow handshake holds up no other host."""
        request.settimeout(SILENT_S)
        if self._tls is not None:
            request = self._tls.wrap_socket(request, server_side=True)
        try:
            super().finish_request(request, client_address)
        finally:
            if self._tls is not None:
                with suppress(OSError):
                    request.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SILENT_S
    server: Server
    holder = ""
    """The host whose token the current request has."""

    def do_POST(self) -> None:
        self._guarded(self._posted)

    def do_PUT(self) -> None:
        self._guarded(self._put)

    def do_GET(self) -> None:
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except _RefusedError as refused:
            self._refuse(refused.status)

    def _posted(self) -> None:
        length = self._length(MESSAGE_BYTES)
        body = b"".join(self._chunks(length))
        try:
            heard = message(body)
        except ValueError:
            raise _RefusedError(HTTPStatus.BAD_REQUEST) from None
        self._admit(heard.host)
        self._answer(*self._heard(heard))

    def _put(self) -> None:
        length = self._length(SEGMENT_BYTES)
        found = _RECORDING.fullmatch(self.path)
        if not found or not HOST.fullmatch(found[2]):
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        self._admit(found[2])
        place = self.server.desk.place(found[1], found[2], found[3], length)
        if isinstance(place, HTTPStatus):
            raise _RefusedError(place)
        try:
            self._store(place, length, found[2])
        except OSError:
            raise _RefusedError(HTTPStatus.INSUFFICIENT_STORAGE) from None
        self._answer(HTTPStatus.CREATED)

    def _heard(self, heard: Message) -> tuple[HTTPStatus, dict[str, Any] | None]:
        desk, now = self.server.desk, time.monotonic()
        if self.path == "/v1/poll":
            wanted = desk.poll(heard, now)
            if isinstance(wanted, HTTPStatus):
                return wanted, None
            return HTTPStatus.OK, {"wanted": [asdict(one) for one in wanted]}
        if self.path == "/v1/notice":
            incident = desk.notice(heard, now)
            return (incident, None) if isinstance(incident, HTTPStatus) else (HTTPStatus.OK, {"incident": incident})
        done = _DONE.fullmatch(self.path)
        if done and done[2] == heard.host:
            return desk.done(done[1], done[2], heard, now), None
        return HTTPStatus.NOT_FOUND, None

    def _admit(self, host: str) -> None:
        """A host speaks for itself only."""
        if self.holder not in (ANY, host):
            raise _RefusedError(HTTPStatus.FORBIDDEN)

    def _length(self, most: int) -> int:
        """Of the body, before it is read."""
        holder = self.server.admission.holder(self.headers.get("Authorization") or "")
        if holder is None:
            raise _RefusedError(HTTPStatus.UNAUTHORIZED)
        self.holder = holder
        length = self.headers.get("Content-Length") or ""
        if not (length.isascii() and length.isdigit() and len(length) < 12):
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED)
        if int(length) > most:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return int(length)

    def _chunks(self, left: int) -> Iterator[bytes]:
        """The body, which must be complete in time."""
        deadline = time.monotonic() + BODY_S
        while left:
            try:
                chunk = self.rfile.read1(min(_CHUNK, left))
            except OSError:
                chunk = b""
            if not chunk or time.monotonic() > deadline:
                raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT)
            left -= len(chunk)
            yield chunk

    def _store(self, place: Path, length: int, host: str) -> None:
        """Written under a name of its own, which becomes the file's when it is complete."""
        part = place.with_name(f"{place.name}.{secrets.token_hex(8)}.tmp")
        try:
            with part.open("xb") as file:
                for chunk in self._chunks(length):
                    file.write(chunk)
                    self.server.desk.sends(host, time.monotonic())
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)

    def _refuse(self, status: HTTPStatus) -> None:
        """What is left of the body is not read."""
        self.close_connection = True
        self._answer(status)

    def _answer(self, status: HTTPStatus, content: dict[str, Any] | None = None) -> None:
        body = json.dumps(content if content is not None else {"status": status.phrase}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "tailrace"

    def log_message(self, format: str, *args: Any) -> None:
        """Only the command prints."""
