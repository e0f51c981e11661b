"""Asks servers over HTTP."""

from __future__ import annotations

from http.client import HTTPException, HTTPResponse
from typing import cast
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

_SAID_BYTES_MAX = 500


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """The user chose the server. It may not name another one, which would get the password and the content."""


def answer(request: Request, timeout_s: float) -> HTTPResponse:
    """The server's answer. Raises HTTPError for a refusal and for a redirect, and OSError if there is no answer within
    `timeout_s` seconds, or if what comes is not HTTP."""
    try:
        return cast(HTTPResponse, build_opener(_NoRedirects).open(request, timeout=timeout_s))
    except HTTPException as error:  # its text may repeat what a stranger sent
        raise OSError(f"the answer is not HTTP ({type(error).__name__})") from error


def said(error: HTTPError) -> str:
    """What an answer says that is no success: its code, and where it redirects to, or the first line of its text."""
    elsewhere = error.headers.get("Location")
    line = error.read(_SAID_BYTES_MAX).decode("utf-8", "replace").partition("\n")[0]
    return f"{error.code}: it redirects to {elsewhere}" if elsewhere else f"{error.code}: {line}"
