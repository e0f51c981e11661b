"""Metrics by the conventions of OpenTelemetry, and their text in the formats of OpenMetrics 1.0 and Prometheus (0.0.4).

A name is translated as OpenTelemetry specifies it: `tailrace.response.time` with the unit `s` is
`tailrace_response_time_seconds_total` (opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tailrace import foreign
from tailrace.units import SECOND

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(frozen=True)
class Exemplar:
    labels: Mapping[str, str]
    time: int
    trace: str | None = None
    span: str | None = None
    """A span that took part in it, by its ids in hexadecimal digits."""


Labels = Sequence[tuple[str, str]]
Row = tuple[Labels, float, Exemplar | None]


@dataclass(frozen=True)
class Family:
    """A metric with a row for each set of labels. Names have dots here, as OpenTelemetry has them. An `info` describes
    the sender; OpenTelemetry has it in the resource instead."""

    name: str
    kind: Literal["counter", "gauge", "info"]
    unit: str
    what: str
    rows: Sequence[Row]


def text(families: Iterable[Family], openmetrics: bool) -> str:
    """Only OpenMetrics has exemplars, units, and an end that shows that nothing was cut off."""
    lines: list[str] = []
    for family in families:
        base = _word(family.name) + ("_seconds" if family.unit == "s" else "")
        full = base + {"counter": "_total", "info": "_info"}.get(family.kind, "")
        named, kind = (base, family.kind) if openmetrics else (full, family.kind.replace("info", "gauge"))
        lines += (f"# TYPE {named} {kind}", f"# HELP {named} {family.what}")
        if openmetrics and family.unit == "s":
            lines.append(f"# UNIT {named} seconds")
        for labels, value, exemplar in family.rows:
            line = f"{full}{_labels(labels) if labels else ''} {_number(value)}"
            if openmetrics and exemplar is not None:
                about = {**exemplar.labels, **({"trace_id": exemplar.trace} if exemplar.trace else {})}
                line += f" # {_labels(tuple(about.items()))} 1 {exemplar.time / SECOND:.3f}"
            lines.append(line)
    if openmetrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _word(name: str) -> str:
    return name.replace(".", "_")


def _labels(labels: Labels) -> str:
    pairs = (f'{_word(key)}="{foreign.name(value).translate(_ESCAPES)}"' for key, value in labels)
    return f"{{{','.join(pairs)}}}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
