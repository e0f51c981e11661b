"""Two passes over many run folders, so that only little moves: where are the VLRT, and what happened around them?

```text
pass 1   each shard: its number of requests, and when its VLRT were sent        (a few numbers move)
         the driver: spans around these moments, the ones with the most VLRT first
pass 2   each shard: its rows in these spans                                     (minutes out of a day move)
         the driver: one run folder, which is diagnosed like any other
```

A shard is a run folder, a file of visits (`shards`), or a run in a database (`database`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import dataset, engines
from tailrace.dataset import TABLES, Dataset, Writer
from tailrace.engines import lake
from tailrace.engines.database import Database
from tailrace.engines.here import Engine as Here
from tailrace.engines.parts import Plan
from tailrace.engines.shards import MOMENTS_MAX, Shard, Span, count_slow, requests_of, rows_of, topology_of
from tailrace.errors import InputError
from tailrace.lakes import is_lake
from tailrace.topology import Topology
from tailrace.units import SECOND, format_duration

AROUND_NS = 30 * SECOND
"""Calm time on either side of the VLRT, which the diagnosis compares with. A SYN that is lost four times is sent again
after 15 s, so its loss is in the span, too."""
SPANS_NS_MAX = 1800 * SECOND
"""All spans together have at most this length."""
NUMBER_MAX = 1 << 62
_NUMBERS = {"visit": "visit", "parent": "visit", "request": "request"}
"""Column → what its numbers count."""


@dataclass(frozen=True)
class Survey:
    """What pass 1 found."""

    folders: int
    requests: int
    vlrt: int
    moments: tuple[int, ...]
    threshold_ns: int
    of: str = "run folders"
    """What `folders` counts."""


def survey(source: engines.Source, engine: str, threshold_ns: int | None = None) -> Survey:
    """Count the requests and the VLRT of all shards of a source."""
    from tailrace.diagnosis.vlrt import THRESHOLD_NS  # workers do without the diagnosis

    threshold = THRESHOLD_NS if threshold_ns is None else threshold_ns
    one = _opened(engine)
    if isinstance(one, Database):
        tables = engines.named(source)
        counted = [one.count_slow(table, threshold, MOMENTS_MAX) for table in tables]
        of = "tables"
    else:
        tasks = [(name, threshold) for name in shards(source)]
        counted = [found for _, found in engines.answers(one, count_slow, tasks)]
        of = "files of visits" if any(_is_file(name) for name, _ in tasks) else "run folders"
    moments = sorted(moment for _, _, sent in counted for moment in sent)
    requests, vlrt = sum(count for count, _, _ in counted), sum(slow for _, slow, _ in counted)
    return Survey(len(counted), requests, vlrt, tuple(moments), threshold, of)


def gather(
    source: engines.Source, engine: str, found: Survey, out: str | PathLike[str], *, overwrite: bool = False
) -> Dataset:
    """Write the run folder `out` of the rows around the VLRT. The same rows come from every engine."""
    spans, left_out = around(found.moments)
    one = _opened(engine)
    if isinstance(one, Database):
        fetched = [shard for table in engines.named(source) for shard in one.around(table, spans)]
    else:
        plan = Plan(SECOND, begin=spans[0][0], end=spans[-1][1]) if spans else None
        names = shards(source, plan)
        tasks = [(name, spans) for name in names]
        content = dict(engines.answers(one, rows_of, tasks))
        fetched = list(_united([(name, Shard.from_bytes(content[number])) for number, name in enumerate(names)]))
    with dataset.create(out, overwrite) as writer:
        _write(writer, [_complete(shard) for shard in fetched])
        _describe(writer, fetched, found, spans, left_out)
    return Dataset.open(out)


def shards(source: engines.Source, plan: Plan | None = None) -> list[str]:
    """The run folders of a source, and files of visits of a lake."""
    if is_lake(source):
        return lake.shards(source, plan)
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


def _opened(engine: str) -> engines.Mapping | Database:
    one = Here() if engine == engines.LOCAL else engines.opened(engine)
    return Database(one) if isinstance(one, engines.Reducing) else one


def _is_file(name: str) -> bool:
    return not lake.is_folder(name) and not Path(name).is_dir()


def _united(named: Sequence[tuple[str, Shard]]) -> Iterator[Shard]:
    """Run folders are shards of their own. The files of one table share their numbers, so they are one shard; if
    numbers repeat, each file has its own."""
    files = [shard.tables["visits"] for name, shard in named if _is_file(name)]
    united = pl.concat(files, how="diagonal") if files else pl.DataFrame()
    if files and united["visit"].is_unique().all():
        yield from (shard for name, shard in named if not _is_file(name))
        yield Shard({"visits": united})
    else:
        yield from (shard for _, shard in named)


def _complete(shard: Shard) -> Mapping[str, pl.DataFrame]:
    """Return its tables. If it has neither requests nor a topology that shows where they enter, the requests are those
    that its visits show."""
    if shard.topology is not None or "requests" in shard.tables or "visits" not in shard.tables:
        return shard.tables
    visits = shard.tables["visits"]
    numbered = visits.with_columns(
        pl.when(pl.col("parent").is_null()).then(pl.coalesce("request", "visit")).otherwise("request").alias("request")
    )
    return {**shard.tables, "visits": numbered, "requests": requests_of(visits.lazy()).collect()}


def _write(writer: Writer, shards: Sequence[Mapping[str, pl.DataFrame]]) -> None:
    """The tables of all shards; numbers of visits and requests begin after those of the shard before."""
    tables: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    after = Counter[str]()
    for shard in shards:
        moved = {name: pl.col(name) + pl.lit(after[of], pl.UInt64) for name, of in _NUMBERS.items()}
        for name, rows in shard.items():
            tables[name].append(rows.with_columns(moved[column] for column in _NUMBERS if column in rows.columns))
        for of in ("visit", "request"):
            columns = [column for column, counted in _NUMBERS.items() if counted == of]
            largest = [rows[column].max() for rows in shard.values() for column in columns if column in rows.columns]
            if numbers := [number for number in largest if isinstance(number, int)]:
                after[of] += 1 + max(numbers)
            if after[of] >= NUMBER_MAX:
                raise InputError("visits.parquet", f"numbers of a {of} reach {after[of]}", "they must fit into 64 bits")
    for name, frames in tables.items():
        if frames:
            rows = pl.concat(frames, how="diagonal")
            if name == "visits":  # a caller may lie outside of the spans
                known = rows["visit"].implode()
                rows = rows.with_columns(pl.when(pl.col("parent").is_in(known)).then("parent").alias("parent"))
            writer.write_table(name, rows)


def _describe(writer: Writer, fetched: Sequence[Shard], found: Survey, spans: Sequence[Span], left_out: int) -> None:
    writer.maker = "tailrace diagnose --engine"
    shown = [
        topology_of(shard.tables["visits"]) if shard.topology is None else shard.topology
        for shard in fetched
        if shard.topology is not None or "visits" in shard.tables
    ]
    writer.topology = _topology(shown) if shown else Topology()
    for shard in fetched:
        for what, count in shard.lost.items():
            writer.lose(what, count)
        writer.notes += shard.notes
    length = format_duration(sum(end - begin for begin, end in spans))
    writer.notes.append(
        f"of {found.folders:,} {found.of} with {found.requests:,} requests, of which {found.vlrt:,} took "
        f"{format_duration(found.threshold_ns)} or longer, this is what happened around those: {length}"
    )
    if left_out:
        limit = format_duration(SPANS_NS_MAX)
        writer.notes.append(
            f"{left_out:,} VLRT are not in it, because at most {limit} are fetched, those with the most"
        )


def _topology(known: Sequence[Topology]) -> Topology:
    """The first one, with the servers and calls of the others that it does not have."""
    known = [one.apart() for one in known] if len(known) > 1 else known
    servers = {server.name: server for one in reversed(known) for server in one.servers}
    nodes = {node.name: node for one in reversed(known) for node in one.nodes}
    calls = {(call.caller, call.callee): call for one in reversed(known) for call in one.calls}
    places = {place: to for one in reversed(known) for place, to in one.places.items()}
    lists: dict[str, Mapping[Any, Any]] = {"servers": servers, "nodes": nodes, "calls": calls}
    parts = {key: tuple(named.values()) for key, named in lists.items()}
    return known[0].model_copy(update={**parts, "places": places})
