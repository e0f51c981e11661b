"""A shard is a part of the source that one task reads: a run folder, here or in object storage, or a file of visits.

A file of visits has neither requests nor a topology. A visit without a caller is then a request, and the topology
is what the visits show.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tailrace.dataset import TABLES, Dataset
from tailrace.dataset.schema import VISITS, conform, shape_problem
from tailrace.engines import lake
from tailrace.errors import InputError
from tailrace.topology import Call, Server, Topology, distances

Span = tuple[int, int]
TEXTS = pl.col(pl.Categorical, pl.Enum).cast(pl.String)
"""Names as texts, so that the rows of several shards go together."""
MOMENTS_MAX = 100_000
"""Moments that one shard reports; of more, every n-th."""


@dataclass(frozen=True)
class Shard:
    """This holds what is fetched of a shard."""

    tables: dict[str, pl.DataFrame]
    topology: Topology | None = None
    """None means that it is unknown, and that the visits show it."""
    lost: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_bytes(self) -> dict[str, object]:
        content = {}
        for name, rows in self.tables.items():
            into = io.BytesIO()
            rows.write_ipc(into, compression="zstd")
            content[name] = into.getvalue()
        topology = None if self.topology is None else self.topology.model_dump_json(exclude_none=True)
        return {"tables": content, "topology": topology, "lost": self.lost}

    @classmethod
    def from_bytes(cls, content: dict[str, object]) -> Shard:
        given, topology, lost = content["tables"], content["topology"], content["lost"]
        if not (isinstance(given, dict) and isinstance(lost, dict)):
            raise InputError("workers", "a worker sent no rows", "install the same Tailrace everywhere")
        known = Topology.model_validate_json(topology) if isinstance(topology, str) else None
        return cls({name: pl.read_ipc(io.BytesIO(rows)) for name, rows in given.items()}, known, lost)


def count_slow(task: tuple[int, tuple[str, int]]) -> tuple[int, tuple[int, int, list[int]]]:
    """Pass 1: the shard's requests, its VLRT, and when these were sent."""
    number, (name, threshold) = task
    with _opened(name) as found:
        requests = (found.requests() if isinstance(found, Dataset) else requests_of(found)).select("sent", "end")
        slow = requests.filter(pl.col("end") - pl.col("sent") >= threshold).select("sent").collect()["sent"].sort()
        count = int(requests.select(pl.len()).collect().item())
    return number, (count, len(slow), slow.gather_every(max(1, -(-len(slow) // MOMENTS_MAX))).to_list())


def rows_of(task: tuple[int, tuple[str, Sequence[Span]]]) -> tuple[int, dict[str, object]]:
    """Pass 2: the shard's rows that overlap a span."""
    number, (name, spans) = task
    with _opened(name) as found:
        if not isinstance(found, Dataset):
            return number, Shard({"visits": _inside(found, "visits", spans)}).to_bytes()
        tables = {table: _inside(getattr(found, table)(), table, spans) for table in TABLES}
        kept = {table: rows for table, rows in tables.items() if rows.height}
        return number, Shard(kept, found.topology, dict(found.manifest.lost)).to_bytes()


def _inside(rows: pl.LazyFrame, name: str, spans: Sequence[Span]) -> pl.DataFrame:
    begin, end = extent(name)
    inside = [(pl.col(begin) < last) & (pl.col(end) >= first) for first, last in spans]
    found = rows.filter(pl.any_horizontal(pl.lit(False), *inside))
    return found.with_columns(TEXTS).collect()


def extent(name: str) -> tuple[str, str]:
    """The columns with the begin and the end of a row; a visit begins when it is sent."""
    table = TABLES[name]
    return ("sent" if name == "visits" else table.begin), table.end


@contextmanager
def _opened(name: str) -> Iterator[Dataset | pl.LazyFrame]:
    if lake.is_folder(name):
        with lake.local_folder(name) as folder:
            yield Dataset.open(folder)
    elif Path(name).is_dir():
        yield Dataset.open(name)
    else:
        with lake.local(name) as path:
            frame = pl.scan_parquet(path)
            schema = frame.collect_schema()
            if problem := shape_problem(schema, VISITS):
                raise InputError(name, problem[1], "docs/reference/dataset.md lists the columns", column=problem[0])
            if "parent" not in schema:
                found = "it is missing, so which visits are requests is unknown"
                raise InputError(name, found, "add the number of the visit that called, or null", column="parent")
            yield conform(frame, VISITS)


def requests_of(visits: pl.LazyFrame) -> pl.LazyFrame:
    """Requests as their first visits show them: those without a caller."""
    columns = ("server", "interaction", "sent", "status", "drops", "data_drops")
    roots = visits.filter(pl.col("parent").is_null())
    return roots.select(pl.coalesce("request", "visit").alias("request"), *columns, end="departure", bytes="bytes_out")


def topology_of(visits: pl.DataFrame) -> Topology:
    """The servers and calls that visits show."""
    texts = visits.select("visit", "parent", server=pl.col("server").cast(pl.String))
    counts: dict[str, int] = dict(texts.group_by("server").len().iter_rows())
    callers = texts.select(parent="visit", caller="server")
    pairs = texts.join(callers, on="parent").group_by("caller", "server").len().sort("caller", "server")
    calls = {(caller, callee): count for caller, callee, count in pairs.iter_rows()}
    tiers = distances(sorted(counts), calls)
    return Topology(
        servers=tuple(Server(name=name, tier=tiers.get(name)) for name in sorted(counts)),
        calls=tuple(
            Call(caller=caller, callee=callee, visits_mean=count / counts[caller])
            for (caller, callee), count in calls.items()
        ),
    )
