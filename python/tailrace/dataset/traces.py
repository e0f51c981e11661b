"""The trace ids of long visits, which captures have in events of the kind `trace`.

The event lasts as long as its visit. Its detail is the id of the trace and that of the caller's span, which is 0 where
it is unknown: `4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from tailrace.dataset.reading import Dataset

KIND = "trace"
TRACES_MAX = 128
"""OpenTelemetry keeps so many links of a span unless told otherwise."""
_ROWS_MAX = 100_000
"""Events that are read: the first ones."""
_DETAIL = re.compile(r"([0-9a-f]{32})-([0-9a-f]{16})")


@dataclass(frozen=True)
class Traced:
    """A long visit whose headers named a trace. Times are in nanoseconds."""

    begin: int
    end: int
    trace: str
    span: str | None
    """The caller's."""


def traces(dataset: Dataset, least_ns: int) -> list[Traced]:
    """Those of the first `_ROWS_MAX` visits that last `least_ns` or longer: one for each trace, its longest visit; the
    longest first.
    Details that are no ids are left out, because a run folder may come from a stranger."""
    lasted = pl.col("end") - pl.col("begin")
    rows = (
        dataset.events()
        .filter(pl.col("kind").cast(pl.String) == KIND, lasted >= least_ns)
        .select("begin", "end", pl.col("detail").cast(pl.String))
        .head(_ROWS_MAX)
        .collect()
        .sort(lasted, descending=True, maintain_order=True)
    )
    found: dict[str, Traced] = {}
    for begin, end, detail in rows.iter_rows():
        ids = _DETAIL.fullmatch(detail or "")
        if ids is not None and ids[1].strip("0"):
            found.setdefault(ids[1], Traced(begin, end, ids[1], ids[2] if ids[2].strip("0") else None))
    return list(found.values())
