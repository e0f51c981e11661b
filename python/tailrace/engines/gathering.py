"""Two passes over many run folders, so that only little moves: where are the VLRT, and what happened around them?

```text
pass 1   each run folder: its number of requests, and when its VLRT were sent        (a few numbers move)
         the driver: spans around these moments, the ones with the most VLRT first
pass 2   each run folder: its rows in these spans                                     (minutes out of a day move)
         the driver: one run folder, which is diagnosed like any other
```
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import dataset, engines
from tailrace.dataset import TABLES, Dataset, Writer
from tailrace.engines.here import Engine as Here
from tailrace.errors import InputError
from tailrace.topology import Topology
from tailrace.units import SECOND, format_duration

AROUND_NS = 30 * SECOND
"""Calm time on either side of the VLRT, which the diagnosis compares with. A SYN that is lost four times is sent again
after 15 s, so its loss is in the span, too."""
SPANS_NS_MAX = 1800 * SECOND
"""Of all spans together."""
NUMBER_MAX = 1 << 62
MOMENTS_MAX = 100_000
"""Moments that one run folder reports; of more, every n-th."""
_NUMBERS = {"visit": "visit", "parent": "visit", "request": "request"}
"""Column → what its numbers count."""

Span = tuple[int, int]


@dataclass(frozen=True)
class Survey:
    """What pass 1 found."""

    folders: int
    requests: int
    vlrt: int
    moments: tuple[int, ...]
    threshold_ns: int


def survey(source: engines.Source, engine: str, threshold_ns: int | None = None) -> Survey:
    """Count the requests and the VLRT of all run folders of a source."""
    from tailrace.diagnosis.vlrt import THRESHOLD_NS  # workers do without the diagnosis

    threshold = THRESHOLD_NS if threshold_ns is None else threshold_ns
    tasks = [(folder, threshold) for folder in folders(source)]
    requests = vlrt = 0
    moments: list[int] = []
    for _, (count, slow, sent) in engines.answers(_mapping(engine), count_slow, tasks):
        requests, vlrt = requests + count, vlrt + slow
        moments += sent
    return Survey(len(tasks), requests, vlrt, tuple(sorted(moments)), threshold)


def gather(
    source: engines.Source, engine: str, found: Survey, out: str | PathLike[str], *, overwrite: bool = False
) -> Dataset:
    """Write the run folder `out` of the rows around the VLRT. The same rows come from every engine."""
    spans, left_out = around(found.moments)
    names = folders(source)
    tasks = [(folder, spans) for folder in names]
    shards: dict[int, dict[str, pl.DataFrame]] = {}
    for number, content in engines.answers(_mapping(engine), rows_of, tasks):
        shards[number] = {name: pl.read_ipc(io.BytesIO(table)) for name, table in content.items()}
    with dataset.create(out, overwrite) as writer:
        _write(writer, [shards[number] for number in range(len(tasks))])
        _describe(writer, [Dataset.open(name) for name in names], found, spans, left_out)
    return Dataset.open(out)


def folders(source: engines.Source) -> list[str]:
    """The run folders of a source."""
    return [str(Path(table).parent) for table in engines.files(source)]


def around(moments: Sequence[int]) -> tuple[list[Span], int]:
    """Spans around moments, which are sorted, and how many moments are in none because the spans would be too long
    together. Spans with the most moments come first; at equal numbers the earlier one."""
    spans: list[tuple[int, int, int]] = []
    for moment in moments:
        begin, end = moment - AROUND_NS, moment + AROUND_NS
        if spans and begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], end, spans[-1][2] + 1)
        else:
            spans.append((begin, end, 1))
    kept: list[Span] = []
    left, left_out = SPANS_NS_MAX, 0
    for begin, end, count in sorted(spans, key=lambda span: (-span[2], span[0])):
        # A span that is too long on its own is cut, so that an overload that lasts is diagnosed from its beginning.
        if left <= 2 * AROUND_NS:
            left_out += count
            continue
        kept.append((begin, min(end, begin + left)))
        left -= kept[-1][1] - begin
    return sorted(kept), left_out


def count_slow(task: tuple[int, tuple[str, int]]) -> tuple[int, tuple[int, int, list[int]]]:
    """Pass 1 of a run folder: its requests, its VLRT, and when these were sent."""
    number, (folder, threshold) = task
    run = Dataset.open(folder)
    requests = run.requests().select("sent", "end")
    slow = requests.filter(pl.col("end") - pl.col("sent") >= threshold).select("sent").collect()["sent"].sort()
    count = int(requests.select(pl.len()).collect().item())
    return number, (count, len(slow), slow.gather_every(max(1, -(-len(slow) // MOMENTS_MAX))).to_list())


def rows_of(task: tuple[int, tuple[str, list[Span]]]) -> tuple[int, dict[str, bytes]]:
    """Pass 2 of a run folder: its rows that overlap a span, by table."""
    number, (folder, spans) = task
    run = Dataset.open(folder)
    found = {}
    for name, table in TABLES.items():
        begin = pl.col("sent" if name == "visits" else table.begin)
        inside = pl.any_horizontal(
            pl.lit(False), *((begin < last) & (pl.col(table.end) >= first) for first, last in spans)
        )
        rows = getattr(run, name)().filter(inside).with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()
        if rows.height:
            into = io.BytesIO()
            rows.write_ipc(into, compression="zstd")
            found[name] = into.getvalue()
    return number, found


def _mapping(engine: str) -> engines.Mapping:
    return engines.mapping(engine, "read run folders") or Here()


def _write(writer: Writer, shards: Sequence[Mapping[str, pl.DataFrame]]) -> None:
    """The tables of all run folders; numbers of visits and requests begin after those of the folder before."""
    tables: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    after = Counter[str]()
    for shard in shards:
        moved = {name: pl.col(name) + pl.lit(after[of], pl.UInt64) for name, of in _NUMBERS.items()}
        for name, rows in shard.items():
            tables[name].append(rows.with_columns(moved[column] for column in _NUMBERS if column in rows.columns))
        for of in ("visit", "request"):
            columns = [column for column, counted in _NUMBERS.items() if counted == of]
            numbers = [rows[column].max() for rows in shard.values() for column in columns if column in rows.columns]
            after[of] += 1 + max((number for number in numbers if isinstance(number, int)), default=0)
            if after[of] >= NUMBER_MAX:
                raise InputError("visits.parquet", f"numbers of a {of} reach {after[of]}", "they must fit into 64 bits")
    for name, frames in tables.items():
        if frames:
            rows = pl.concat(frames, how="diagonal")
            if name == "visits":  # a caller may lie outside of the spans
                known = rows["visit"].implode()
                rows = rows.with_columns(pl.when(pl.col("parent").is_in(known)).then("parent").alias("parent"))
            writer.write_table(name, rows)


def _describe(writer: Writer, runs: Sequence[Dataset], found: Survey, spans: Sequence[Span], left_out: int) -> None:
    writer.maker = "tailrace diagnose --engine"
    writer.topology = _topology([run.topology for run in runs])
    for run in runs:
        for what, count in run.manifest.lost.items():
            writer.lose(what, count)
    length = format_duration(sum(end - begin for begin, end in spans))
    writer.notes.append(
        f"of {found.folders:,} run folders with {found.requests:,} requests, of which {found.vlrt:,} took "
        f"{format_duration(found.threshold_ns)} or longer, this is what happened around those: {length}"
    )
    if left_out:
        limit = format_duration(SPANS_NS_MAX)
        writer.notes.append(
            f"{left_out:,} VLRT are not in it, because at most {limit} are fetched, those with the most"
        )


def _topology(known: Sequence[Topology]) -> Topology:
    """The first one, with the servers and calls of the others that it does not have."""
    servers = {server.name: server for one in reversed(known) for server in one.servers}
    nodes = {node.name: node for one in reversed(known) for node in one.nodes}
    calls = {(call.caller, call.callee): call for one in reversed(known) for call in one.calls}
    places = {place: to for one in reversed(known) for place, to in one.places.items()}
    lists: dict[str, Mapping[Any, Any]] = {"servers": servers, "nodes": nodes, "calls": calls}
    parts = {key: tuple(named.values()) for key, named in lists.items()}
    return known[0].model_copy(update={**parts, "places": places})
