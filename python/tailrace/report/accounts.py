"""Tables of the page: where the time of very slow requests went, and which requests had no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailrace.diagnosis.finding import Accounted, Diagnosis
from tailrace.report import words

PARTS = (
    ("lost_ns", "until a lost packet was sent again"),
    ("queued_ns", "while queues were long"),
    ("transferred_ns", "after the first byte of the response"),
    ("unaccounted_ns", "nothing recorded accounts for it"),
)
ENDS = {
    "refused": "refused",
    "reset": "cut off before a complete answer",
    "timeout": "never answered",
    "abandoned": "given up by clients",
    "under-way": "under way when the recording ended",
    "connecting": "waiting for a connection when the recording ended",
}


def account(
    told: Accounted | None, traces: Mapping[tuple[int, int], str], *, unheard: bool = False
) -> dict[str, Any] | None:
    """The sums of an episode and a row for each of its slowest requests; None where they are not known. `unheard`: some
    lost packets were not sent again."""
    if told is None or told.response_ns <= 0:
        return None
    named = dict(PARTS) | ({"lost_ns": f"{dict(PARTS)['lost_ns']}, or the client gave up"} if unheard else {})
    parts = [(what, getattr(told, key) / told.response_ns) for key, what in named.items()]
    ids = [traces.get((one.sent, one.sent + one.response_ns), "") for one in told.slowest]
    return {
        "whole": words.duration(told.response_ns),
        "parts": [{"what": what, "share": words.share(part), "percent": f"{100 * part:.2f}"} for what, part in parts],
        "rows": [
            {
                "request": words.count(one.request),
                "trace": trace or "–",
                "times": [_time(ns) for ns in (one.response_ns, *(getattr(one, key) for key, _ in PARTS))],
            }
            for one, trace in zip(told.slowest, ids, strict=True)
        ],
        "traced": any(ids),
    }


def _time(ns: int) -> str:
    return words.duration(ns) if ns else "–"


def unanswered(diagnosis: Diagnosis) -> list[dict[str, str]]:
    return [
        {
            "server": words.name(one.server),
            "how": ENDS[one.how],
            "requests": words.count(one.requests),
            "longest": "–" if one.longest_ns is None else words.duration(one.longest_ns),
        }
        for one in diagnosis.unanswered
    ]
