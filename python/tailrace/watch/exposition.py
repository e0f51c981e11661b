"""Writes metrics in the text formats of OpenMetrics 1.0 and of Prometheus (0.0.4)."""

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


Labels = Sequence[tuple[str, str]]
Row = tuple[Labels, float, Exemplar | None]


@dataclass(frozen=True)
class Family:
    """A metric with a row for each set of labels; the rows of a counter get the suffix `_total`."""

    name: str
    kind: Literal["counter", "gauge"]
    what: str
    rows: Sequence[Row]


def text(families: Iterable[Family], openmetrics: bool) -> str:
    """Only OpenMetrics has exemplars, and an end that shows that nothing was cut off."""
    lines: list[str] = []
    for family in families:
        suffix = "_total" if family.kind == "counter" else ""
        named = family.name if openmetrics else family.name + suffix
        lines += (f"# TYPE {named} {family.kind}", f"# HELP {named} {family.what}")
        for labels, value, exemplar in family.rows:
            line = f"{family.name}{suffix}{_labels(labels) if labels else ''} {_number(value)}"
            if openmetrics and exemplar is not None:
                line += f" # {_labels(tuple(exemplar.labels.items()))} 1 {exemplar.time / SECOND:.3f}"
            lines.append(line)
    if openmetrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    pairs = (f'{key}="{foreign.name(value).translate(_ESCAPES)}"' for key, value in labels)
    return f"{{{','.join(pairs)}}}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
