"""Asks servers over HTTP."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Timer
from typing import Any, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

BODY_S = 600.0
"""An answer is read for so long at most: a server may send a byte now and then."""
_SAID_BYTES_MAX = 500
_PART_BYTES = 1 << 20


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """The user chose the server. It may not name another one, which would get the password and the content."""


class _Patient(HTTPConnection):
    """A connection whose timeout counts for connecting, the handshake of TLS, all of a request, and the headers of its
    answer together. The timeout of a socket counts for each of its packets, and a server may send one byte in each."""

    _timer: Timer | None = None
    _late = False

    def connect(self) -> None:
        begin, connection = time.monotonic(), cast(Any, self)
        create = connection._create_connection

        def created(*words: Any) -> socket.socket:
            made: socket.socket = create(*words)
            self._begin(made, cast(float, self.timeout) - (time.monotonic() - begin))
            return made

        connection._create_connection = created
        try:
            super().connect()
        except OSError:
            self._stop()
            self._say_if_late()
            raise

    def getresponse(self) -> HTTPResponse:
        try:
            return super().getresponse()
        finally:
            self._stop()
            self._say_if_late()

    def close(self) -> None:
        self._stop()
        super().close()

    def _begin(self, made: socket.socket, left_s: float) -> None:
        # It is of its own, because a socket of TLS must not be shut down by another thread.
        beside = socket.socket(fileno=os.dup(made.fileno()))
        self._timer = Timer(max(left_s, 0.0), self._end, (beside,))
        self._timer.daemon = True
        self._timer.start()

    def _end(self, beside: socket.socket) -> None:
        self._late = True
        with suppress(OSError), beside:
            beside.shutdown(socket.SHUT_RDWR)

    def _say_if_late(self) -> None:
        if self._late:
            raise TimeoutError("timed out")

    def _stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            [beside] = timer.args
            beside.close()


class _Secure(_Patient, HTTPSConnection):
    pass


class _Http(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Patient, req)


class _Https(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Secure, req)


def answer(request: Request, timeout_s: float) -> HTTPResponse:
    """The server's answer. Raises HTTPError for a refusal and for a redirect, and OSError if the headers of an answer
    are not there within `timeout_s` seconds, or if what comes is not HTTP."""
    handlers: Any = (_NoRedirects, _Http, _Https)
    try:
        return cast(HTTPResponse, build_opener(*handlers).open(request, timeout=timeout_s))
    except HTTPException as error:  # its text may repeat what a stranger sent
        raise OSError(f"the answer is not HTTP ({type(error).__name__})") from error


def body(answer: HTTPResponse, most: int, most_s: float = BODY_S) -> bytes:
    """The content of an answer, at most so many bytes. Raises OSError if the answer ends before its end, or has not
    ended after `most_s` seconds."""
    parts, end = list[bytes](), time.monotonic() + most_s
    left = most if answer.length is None else min(most, answer.length)
    try:
        while left and (part := answer.read1(min(left, _PART_BYTES))):
            parts.append(part)
            left -= len(part)
            if time.monotonic() > end:
                raise TimeoutError(f"the answer has not ended after {most_s:.0f} s")
    except HTTPException as error:
        raise OSError("the answer ends early") from error
    if left and answer.length is not None:
        raise OSError("the answer ends early")
    return b"".join(parts)


def below(url: str, path: str) -> str:
    """The URL of a path below another URL, whose query stays at the end."""
    parts = urlsplit(url)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{path}").geturl()


def said(error: HTTPError) -> str:
    """What an answer says that is no success: its code, and where it redirects to, or the first line of its text."""
    elsewhere = error.headers.get("Location")
    content = b""
    with suppress(OSError, HTTPException):
        content = error.read(_SAID_BYTES_MAX)
    line = content.decode("utf-8", "replace").partition("\n")[0]
    return f"{error.code}: it redirects to {elsewhere}" if elsewhere else f"{error.code}: {line}"
