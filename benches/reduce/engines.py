"""The same sums by several engines, each in a process of its own: `python engines.py ENGINE FILES WINDOW THREADS OUT`.

Every engine counts, per server and window: arrivals, departures, the exact queue area, VLRT, drops and the sum of
response times. Prints one line of JSON; writes the cells to OUT, so that `bench.py` can compare them.
"""

from __future__ import annotations

import json
import os
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


def sums(source: str, divided: str, integer: str) -> str:
    """The query in SQL. A time is `divided` by the window as whole numbers, and sums have the type `integer`."""
    arrived, departed = (f"({divided.format(time)})" for time in ("arrival", "departure"))
    long = f"case when departure - sent >= {VLRT_NS} then 1 else 0 end"
    total = ", ".join(
        f"cast(sum({one}) as {integer}) as {name}"
        for one, name in (
            ("came", "arrivals"),
            ("gone", "departures"),
            ("area", "area_ns"),
            ("late", "vlrt"),
            ("lost", "drops"),
            ("response", "response_ns"),
        )
    )
    return f"""
        select server, step, {total} from (
            select server, {arrived} as step, count(*) as came, 0 as gone,
                sum({arrived} + {{window}} - arrival) as area, sum({long}) as late, sum(drops) as lost, 0 as response
            from {source} group by server, {arrived}
            union all
            select server, {departed}, 0, count(*), -sum({departed} + {{window}} - departure), 0, 0,
                sum(departure - arrival) from {source} group by server, {departed})
        group by server, step"""


def duckdb(files: list[str], window_ns: int, threads: int) -> Any:
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    query = sums(f"read_parquet({files!r})", "{0} // {{window}} * {{window}}", "bigint").replace(
        " as window", ' "window"'
    )
    return lambda: connection.sql(query.format(window=window_ns)).to_arrow_table()


def clickhouse(files: list[str], window_ns: int, threads: int) -> Any:
    """ClickHouse in this process (chdb)."""
    import chdb
    import pyarrow as pa

    folder, names = Path(files[0]).parent, ",".join(Path(file).name for file in files)
    source = f"file('{folder}/{names if len(files) == 1 else f'{{{{{names}}}}}'}', Parquet)"
    query = sums(source, "intDiv({0}, {{window}}) * {{window}}", "Int64").format(window=window_ns)
    query += f" settings max_threads = {threads}"

    def work() -> Any:
        found: pa.Table = chdb.query(query, "ArrowTable")
        return found

    return work


def spark(files: list[str], window_ns: int, threads: int) -> Any:
    """Spark SQL, whose JVM is a process of its own."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(f"local[{threads}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.maxResultSize", "4g")
        .getOrCreate()
    )
    session.read.parquet(*files).createOrReplaceTempView("visits")
    OTHERS.extend(children(os.getpid()))
    query = sums("visits", "{0} div {{window}} * {{window}}", "bigint").format(window=window_ns)
    return lambda: session.sql(query).toArrow()


OTHERS: list[int] = []
"""Processes that work for an engine beside this one."""


def children(pid: int) -> list[int]:
    """All processes that a process started, and those that these started."""
    below = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [one for child in below for one in (child, *children(child))]


def cpu_s() -> float:
    """CPU time of this process and of OTHERS."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in OTHERS]
    return own.ru_utime + own.ru_stime + sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def memory_mb() -> float:
    """The most memory of this process and of OTHERS, each at its own time."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = [line for pid in OTHERS for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return (own + sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))) / 1024


DECODE = "decode only"
"""The same reader, the same columns, and nothing done with them: no reduction can be faster."""

ENGINES: dict[str, Callable[[list[str], int, int], Any]] = {
    DECODE: decode,
    "tailrace": tailrace,
    "tailrace + queue_max + percentiles": tailrace_order,
    "polars": polars,
    "duckdb": duckdb,
    "clickhouse": clickhouse,
    "spark": spark,
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
        frame = frame.with_columns(response_ns_mean=mean).rename({"step": "window"}, strict=False)
    return frame.with_columns(pl.col("server").cast(pl.String)).select(COLUMNS).sort("server", "window")


def main() -> None:
    engine, files, window, threads, out = sys.argv[1:]
    work = ENGINES[engine](json.loads(files), int(window), int(threads))
    before, began = cpu_s(), time.perf_counter()
    result = work()
    wall, cpu = time.perf_counter() - began, cpu_s() - before
    print(json.dumps({"wall_s": wall, "cpu_s": cpu, "rss_mb_max": memory_mb()}))
    if out and engine != DECODE:
        cells(result, int(window)).write_parquet(Path(out))


if __name__ == "__main__":
    main()
