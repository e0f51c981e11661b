"""Sends JSON to a URL, with a bounded number of tries and without its secrets in any message."""

from __future__ import annotations

import json
import queue
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import unquote, urlsplit

from tailrace import foreign, web

TRIES = 5
"""With pauses of 1, 2, 4 and 8 s between them, which outlast a restart of the receiver."""
PATIENCE_S = 10
ANSWER_MAX = 1 << 16
"""Bytes that are read of an answer."""
_AGAIN = (408, 425, 429)
"""Answers below 500 after which another try may succeed (RFC 9110, RFC 8470, RFC 6585)."""


def is_url(text: str) -> bool:
    """Whether it is a whole URL of HTTP or HTTPS."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable() and " " not in text


def shown(url: str) -> str:
    """The URL without its secrets, which are in the path, the query or the user's part."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"


def signal(url: str, kind: str) -> str:
    """The URL of OTLP for a kind of content: `traces`, `metrics` or `logs`."""
    whole = urlsplit(url).path.rstrip("/").endswith(f"/v1/{kind}")
    return url.rstrip("/") if whole else web.below(url, f"v1/{kind}")


def attribute(key: str, value: int | str) -> dict[str, Any]:
    """An attribute of OTLP in JSON, in which a number of 64 bits is a text."""
    return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


def post(url: str, content: object) -> bytes:
    """The answer of a receiver that has accepted the content, as far as it comes within `PATIENCE_S` and fits into
    `ANSWER_MAX`. Raises OSError without an answer, and HTTPError for a refusal."""
    body = json.dumps(content).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "tailrace"}
    user, at, host = urlsplit(url).netloc.rpartition("@")
    if at:
        headers["Authorization"] = f"Basic {b64encode(unquote(user).encode()).decode()}"
        url = url.replace(f"{user}@{host}", host, 1)
    request = urllib.request.Request(url, body, headers, method="POST")
    with web.answer(request, PATIENCE_S) as answer:
        return _body(answer)


def _body(answer: HTTPResponse) -> bytes:
    """The content is accepted by now. A damaged or slow end of the answer does not change that."""
    read, end = b"", time.monotonic() + PATIENCE_S
    with suppress(OSError, HTTPException):
        while len(read) < ANSWER_MAX and time.monotonic() < end and (part := answer.read1(ANSWER_MAX - len(read))):
            read += part
    return read


def drained(said: queue.Queue[str] | queue.SimpleQueue[str]) -> list[str]:
    """What a thread has put into the queue until now."""
    found = []
    with suppress(queue.Empty):
        while True:
            found.append(said.get_nowait())
    return found


def tried(send: Callable[[], object], pause: Callable[[float], object], tries: int = TRIES) -> str | None:
    """Send, and try again after failures that may pass. Returns why it failed."""
    failure = None
    for number in range(tries):
        if number:
            pause(2 ** (number - 1))
        try:
            send()
            return None
        except urllib.error.HTTPError as error:
            failure = f"the answer is {error.code}"
            if error.code < 500 and error.code not in _AGAIN:
                return failure
        except (OSError, ValueError) as error:
            failure = foreign.sentence(str(getattr(error, "reason", error)))
    return f"{failure} ({tries} tries)"
