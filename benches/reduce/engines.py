"""The same sums by three engines, each in a process of its own: `python engines.py ENGINE FILES WINDOW THREADS OUT`.

Every engine counts, per server and window: arrivals, departures, the exact queue area, VLRT, drops and the sum of
response times. Prints one line of JSON; writes the cells to OUT, so that `bench.py` can compare them.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

VLRT_NS = 1_000_000_000
COLUMNS = ["server", "window", "arrivals", "departures", "area_ns", "vlrt", "drops", "response_ns_mean"]


def tailrace(files: list[str], window_ns: int, threads: int, *, order: bool = False) -> Any:
    from tailrace import _core

    options = {"vlrt_ns": VLRT_NS, "queue_max": order, "percentiles": order, "threads": threads}
    return lambda: _core.reduce(files, window_ns, **options)


def tailrace_order(files: list[str], window_ns: int, threads: int) -> Any:
    return tailrace(files, window_ns, threads, order=True)


def decode(files: list[str], window_ns: int, threads: int) -> Any:
    from tailrace import _core

    return lambda: _core._decode_visits(files, threads)


def polars(files: list[str], window_ns: int, threads: int) -> Any:
    import polars as pl

    assert pl.thread_pool_size() == threads
    visits = pl.scan_parquet(files)
    arrival, departure = pl.col("arrival"), pl.col("departure")
    arrived, departed = arrival - arrival % window_ns, departure - departure % window_ns
    arrivals = visits.group_by("server", window=arrived).agg(
        arrivals=pl.len().cast(pl.Int64),
        departures=pl.lit(0, pl.Int64),
        area_ns=(arrived + window_ns - arrival).sum(),
        vlrt=(departure - pl.col("sent") >= VLRT_NS).sum().cast(pl.Int64),
        drops=pl.col("drops").cast(pl.Int64).sum(),
        response_ns=pl.lit(0, pl.Int64),
    )
    departures = visits.group_by("server", window=departed).agg(
        arrivals=pl.lit(0, pl.Int64),
        departures=pl.len().cast(pl.Int64),
        area_ns=-(departed + window_ns - departure).sum(),
        vlrt=pl.lit(0, pl.Int64),
        drops=pl.lit(0, pl.Int64),
        response_ns=(departure - arrival).sum(),
    )
    cells = pl.concat([arrivals, departures]).group_by("server", "window").sum()
    return lambda: cells.collect(engine="streaming")


def duckdb(files: list[str], window_ns: int, threads: int) -> Any:
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    arrived, departed = (f"({t} // {window_ns} * {window_ns})" for t in ("arrival", "departure"))
    query = f"""
        select server, "window", sum(arrivals)::bigint arrivals, sum(departures)::bigint departures,
            sum(area)::bigint area_ns, sum(vlrt)::bigint vlrt, sum(drops)::bigint drops,
            sum(response)::bigint response_ns
        from (
            select server, {arrived} "window", count(*) arrivals, 0 departures,
                sum({arrived} + {window_ns} - arrival) area, count(*) filter (departure - sent >= {VLRT_NS}) vlrt,
                sum(drops) drops, 0 response
            from read_parquet({files!r}) group by all
            union all
            select server, {departed}, 0, count(*), -sum({departed} + {window_ns} - departure), 0, 0,
                sum(departure - arrival)
            from read_parquet({files!r}) group by all)
        group by all"""
    return lambda: connection.sql(query).to_arrow_table()


DECODE = "decode only"
"""The same reader, the same columns, and nothing done with them: no reduction can be faster."""

ENGINES: dict[str, Callable[[list[str], int, int], Any]] = {
    DECODE: decode,
    "tailrace": tailrace,
    "tailrace + queue_max + percentiles": tailrace_order,
    "polars": polars,
    "duckdb": duckdb,
}


def cells(result: Any, window_ns: int) -> Any:
    """The result as a frame of COLUMNS, one row per cell with an event, sorted."""
    import polars as pl

    frame = pl.DataFrame(result)
    if "queue_area_ns" in frame.columns:
        area = pl.col("queue_area_ns") - pl.col("queue_start") * window_ns
        frame = frame.with_columns(area_ns=area).filter((pl.col("arrivals") > 0) | (pl.col("departures") > 0))
    else:
        mean = pl.when(pl.col("departures") > 0).then(pl.col("response_ns") / pl.col("departures"))
        frame = frame.with_columns(response_ns_mean=mean)
    return frame.with_columns(pl.col("server").cast(pl.String)).select(COLUMNS).sort("server", "window")


def main() -> None:
    engine, files, window, threads, out = sys.argv[1:]
    work = ENGINES[engine](json.loads(files), int(window), int(threads))
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = work()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"wall_s": wall, "cpu_s": cpu, "rss_mb_max": after.ru_maxrss / 1024}))
    if out and engine != DECODE:
        cells(result, int(window)).write_parquet(Path(out))


if __name__ == "__main__":
    main()
