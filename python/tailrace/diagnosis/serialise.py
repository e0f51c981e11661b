"""A diagnosis as plain values and as JSON: `diagnosis.json` (docs/reference/diagnosis-json.md).

The schema is the dataclasses' own fields, so a field added there is a key here; `SCHEMA` says what must be there.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

from tailrace import foreign
from tailrace.diagnosis.finding import STEPS, Diagnosis

VERSION = 1
"""Raised when a key changes its meaning or goes; not when one is added."""


def as_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Dictionaries, lists, numbers, texts and None; keys in the order of the dataclasses."""
    plain = _plain(diagnosis)
    plain["histogram"] = [
        {"lower_ns": lower, "upper_ns": upper, "requests": n} for lower, upper, n in diagnosis.histogram
    ]
    return {"version": VERSION, **plain}


def to_json(diagnosis: Diagnosis) -> str:
    return foreign.json_text(as_dict(diagnosis)) + "\n"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        # JSON has no infinity; six digits are more than any of these figures is known to.
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


_TEXT, _COUNT, _MOMENT = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["integer", "null"]}
_NAME = {"type": ["string", "null"]}
_VERDICT = {"enum": ["found", "absent", "unknown"]}
_CTQO = {"enum": ["upstream", "downstream", "local", "soft-resource", "unknown", "none"]}
_NUMBERS = {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean", "null"]}}
_RATIO = {"type": ["number", "null"]}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, **more}


_FINDING = _object(
    step={"enum": list(STEPS)},
    verdict=_VERDICT,
    sentence=_TEXT,
    place=_NAME,
    begin=_MOMENT,
    end=_MOMENT,
    numbers=_NUMBERS,
    missing=_NAME,
)
_CAUSE = _object(
    cause=_TEXT,
    place=_NAME,
    verdict=_VERDICT,
    sentence=_TEXT,
    coverage=_RATIO,
    lift=_RATIO,
    p_value=_RATIO,
    lead_ns=_MOMENT,
    begin=_MOMENT,
    end=_MOMENT,
    numbers=_NUMBERS,
    missing=_NAME,
)
_WAVE = _object(
    server=_TEXT,
    rise=_MOMENT,
    full=_MOMENT,
    queue_length_max=_COUNT,
    queue_max=_MOMENT,
    limit_source={"enum": ["topology", "samples", "plateau", "unknown"]},
)
_CHAINS = _list(_object(dropper=_NAME, origin=_NAME, cause=_TEXT, ctqo=_CTQO, vlrt=_COUNT))
_SLOWEST = _object(
    request=_COUNT,
    sent={"type": "integer"},
    response_ns=_COUNT,
    lost_ns=_COUNT,
    queued_ns=_COUNT,
    transferred_ns=_COUNT,
    unaccounted_ns=_COUNT,
)
_ACCOUNT = _object(
    response_ns=_COUNT,
    lost_ns=_COUNT,
    queued_ns=_COUNT,
    transferred_ns=_COUNT,
    unaccounted_ns=_COUNT,
    vlrt_unexplained=_COUNT,
    unexplained_place=_NAME,
    slowest=_list(_SLOWEST, maxItems=20),
)
_EPISODE = _object(
    begin={"type": "integer"},
    end={"type": "integer"},
    vlrt=_COUNT,
    findings=_list(_FINDING, minItems=5, maxItems=5),
    dropper=_NAME,
    origin=_NAME,
    cause=_TEXT,
    ctqo=_CTQO,
    wave=_list(_WAVE),
    causes=_list(_CAUSE),
    chains=_CHAINS,
    account=_ACCOUNT,
)
_UNANSWERED = _object(
    server=_TEXT,
    how={"enum": ["refused", "reset", "timeout", "abandoned", "under-way"]},
    requests=_COUNT,
    longest_ns=_MOMENT,
)
_CONSTANT = _object(
    response_ns=_COUNT,
    shortest_ns=_COUNT,
    longest_ns=_COUNT,
    requests=_COUNT,
    place=_NAME,
    retransmission={"type": "boolean"},
)

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Tailrace diagnosis",
    **_object(
        version={"const": VERSION},
        requests=_COUNT,
        vlrt=_COUNT,
        threshold_ns=_COUNT,
        threshold_reason=_TEXT,
        explained={"type": "number", "minimum": 0, "maximum": 1},
        begin=_MOMENT,
        end=_MOMENT,
        window_ns=_COUNT,
        answer=_list(_TEXT, minItems=1, maxItems=5),
        summary=_CHAINS,
        episodes=_list(_EPISODE),
        modes=_list(_object(centre_ns=_COUNT, requests=_COUNT, retransmission_ns=_MOMENT, attempts_lost=_MOMENT)),
        histogram=_list(_object(lower_ns=_COUNT, upper_ns=_COUNT, requests=_COUNT)),
        unknown=_list(_object(what=_TEXT, datum=_TEXT)),
        unanswered=_list(_UNANSWERED),
        constants=_list(_CONSTANT),
        notes=_list(_TEXT),
    ),
}
