"""Asks a Prometheus (or VictoriaMetrics, Mimir, Thanos) for what it stored during an interval.

One instant query with a range returns the stored values themselves, so nothing is averaged. The metrics are those that
`counters` knows: of node_exporter, cAdvisor, JVMs and connection pools.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from tailrace import web
from tailrace.bounds import ANSWER_BYTES
from tailrace.errors import InputError, UsageError
from tailrace.readers import counters
from tailrace.units import SECOND

_TIMEOUT_S = 60
_BEFORE_NS = 120 * SECOND
"""Counters need a value before the interval; scrapes are usually 15 or 60 s apart."""


def query(begin: int, end: int) -> dict[str, str]:
    """The words of the request for all known metrics from `begin` to `end`."""
    names = "|".join(sorted(name for name in counters.NAMES if not name.startswith(("system_", "nstat_", "diskio_"))))
    seconds = -(-(end - begin + _BEFORE_NS) // SECOND)
    return {"query": f'{{__name__=~"(?i:{names})"}}[{seconds}s]', "time": f"{end / SECOND:.3f}"}


def fetch(url: str, begin: int, end: int) -> tuple[bytes, int]:
    """The answer, and the number of series in it."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"{url}: expected the URL of a Prometheus", advice="like http://localhost:9090")
    words = urllib.parse.urlencode(query(begin, end)).encode()
    request = urllib.request.Request(web.below(url, "api/v1/query"), data=words)
    try:
        with web.answer(request, _TIMEOUT_S) as answer:
            body = web.body(answer, ANSWER_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise InputError(url, f"it answered {web.said(error)}", "check the URL") from error
    except (OSError, ValueError) as error:
        raise InputError(url, f"it did not answer ({error})", "check the URL, and that it can be reached") from error
    if len(body) > ANSWER_BYTES:
        raise InputError(url, f"its answer has more than {ANSWER_BYTES >> 20} MiB", "choose a shorter interval")
    return body, _series(url, body)


def _series(url: str, body: bytes) -> int:
    try:
        answer: Any = json.loads(body)
        data = answer["data"]
        if answer["status"] == "success" and data["resultType"] == "matrix":
            return len(data["result"])
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InputError(url, "its answer is not that of a Prometheus", "check the URL")
