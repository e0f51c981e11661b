"""For gunicorn: each request asks the origin on a connection of its own, and its worker waits for the answer."""

import http.client
import os
from collections.abc import Callable, Iterable
from typing import Any

ORIGIN = os.environ["ORIGIN"]


def app(environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], Any]) -> Iterable[bytes]:
    connection = http.client.HTTPConnection(ORIGIN)
    try:
        connection.request("GET", environ["PATH_INFO"])
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    start_response(f"{answer.status} {answer.reason}", [("Content-Length", str(len(body)))])
    return [body]
