"""Asks servers over HTTP."""

from __future__ import annotations

import io
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
_SAID_BYTES_MAX, _SAID_S = 500, 10.0
_PART_BYTES = 1 << 20


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """The user chose the server. It may not name another one, which would get the password and the content."""


class _Limit:
    """The time until which a connection must have done its work; then nothing more comes from it. The timeout of a
    socket counts for each of its packets, and a server may send one byte in each."""

    def __init__(self, descriptor: int, left_s: float) -> None:
        self._late = False
        # It is of its own, because a socket of TLS must not be shut down by another thread.
        self._beside = socket.socket(fileno=os.dup(descriptor))
        self._timer = Timer(max(left_s, 0.0), self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        self._late = True
        with suppress(OSError), self._beside:
            self._beside.shutdown(socket.SHUT_RDWR)

    def stop(self) -> bool:
        """Whether the time was over before."""
        self._timer.cancel()
        self._timer.join()
        self._beside.close()
        return self._late


class _Patient(HTTPConnection):
    """A connection whose timeout counts for connecting, the handshake of TLS, all of a request, and the headers of its
    answer together."""

    _limit: _Limit | None = None
    _late = False

    def connect(self) -> None:
        begin, connection = time.monotonic(), cast(Any, self)
        create = connection._create_connection

        def created(*words: Any) -> socket.socket:
            made: socket.socket = create(*words)
            self._limit = _Limit(made.fileno(), cast(float, self.timeout) - (time.monotonic() - begin))
            return made

        connection._create_connection = created
        try:
            super().connect()
        except OSError:
            self._stop()
            self._say_if_late()
            raise
        finally:
            connection._create_connection = create

    def getresponse(self) -> HTTPResponse:
        try:
            return super().getresponse()
        finally:
            self._stop()
            self._say_if_late()

    def close(self) -> None:
        self._stop()
        super().close()

    def _stop(self) -> None:
        limit, self._limit = self._limit, None
        if limit is not None:
            self._late = limit.stop()

    def _say_if_late(self) -> None:
        if self._late:
            raise TimeoutError("timed out")


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
    content, left = io.BytesIO(), most if answer.length is None else min(most, answer.length)
    if not left:
        return b""
    limit = _Limit(answer.fileno(), most_s)
    try:
        while left and (part := answer.read1(min(left, _PART_BYTES))):
            left -= content.write(part)
    except HTTPException as error:
        raise OSError("the answer ends early") from error
    finally:
        if limit.stop() and left:
            raise TimeoutError(f"the answer has not ended after {most_s:.0f} s")
    if left and answer.length is not None:
        raise OSError("the answer ends early")
    return content.getvalue()


def below(url: str, path: str) -> str:
    """The URL of a path below another URL, whose query stays at the end."""
    parts = urlsplit(url)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{path}").geturl()


def said(error: HTTPError) -> str:
    """What an answer says that is no success: its code, and where it redirects to, or the first line of its text."""
    elsewhere = error.headers.get("Location")
    content = b""
    with suppress(OSError):
        content = body(cast(HTTPResponse, error.fp), _SAID_BYTES_MAX, _SAID_S)
    line = content.decode("utf-8", "replace").partition("\n")[0]
    return f"{error.code}: it redirects to {elsewhere}" if elsewhere else f"{error.code}: {line}"
