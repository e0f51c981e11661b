"""The trace ids of long visits, which captures have in events of the kind `trace`.

The event lasts as long as its visit. Its detail is the id of the trace and that of the caller's span, which is 0 where
it is unknown: `4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7`.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tailrace.dataset.reading import Dataset

KIND = "trace"
TRACES_MAX = 128
"""OpenTelemetry keeps so many links of a span unless told otherwise."""
TRACED_MAX = 100_000
_AT_ONCE = 100_000
"""Events that are compared at a time."""
_DETAIL = "^[0-9a-f]{32}-[0-9a-f]{16}$"


@dataclass(frozen=True)
class Traced:
    """A long visit whose headers named a trace. Times are in nanoseconds."""

    begin: int
    end: int
    trace: str
    span: str | None
    """The caller's."""


def traces(dataset: Dataset, least_ns: int) -> list[Traced]:
    """One for each trace, its longest visit that lasts `least_ns` or longer; the `TRACED_MAX` longest, the longest
    first. Details that are no ids are left out, because a run folder may come from a stranger."""
    lasted, trace = pl.col("end") - pl.col("begin"), pl.col("detail").str.head(32)
    rows = (
        dataset.events()
        .filter(pl.col("kind").cast(pl.String) == KIND, lasted >= least_ns)
        .select("begin", "end", pl.col("detail").cast(pl.String))
        .filter(pl.col("detail").str.contains(_DETAIL), trace.str.strip_chars("0") != "")
    )
    longest = rows.clear().collect()
    for batch in rows.collect_batches(chunk_size=_AT_ONCE, maintain_order=True):
        ordered = pl.concat([longest, batch]).sort(lasted, descending=True, maintain_order=True)
        longest = ordered.unique(trace, keep="first", maintain_order=True).head(TRACED_MAX)
    return [
        Traced(begin, end, detail[:32], detail[33:] if detail[33:].strip("0") else None)
        for begin, end, detail in longest.iter_rows()
    ]
