"""Cut some seconds out of a run folder: `crop.py RUN TARGET FROM TO` (seconds after the first request).

Requests are cut by the time at which they were sent, with all of their visits; visits that belong to no request of a
client, samples and events are cut by time. The columns of sizes, which no diagnosis reads, are left empty, so that the
folder is small enough to come with the project.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import polars as pl

from tailrace import dataset
from tailrace.dataset import Dataset
from tailrace.experiment import truth
from tailrace.units import SECOND

SIZES = ("bytes", "bytes_in", "bytes_out")
LEVEL = 19


def main(source: Path, target: Path, seconds: tuple[float, float]) -> None:
    run = Dataset.open(source)
    first = run.requests().select(pl.col("sent").min()).collect().item()
    begin, end = (first + round(second * SECOND) for second in seconds)
    requests = run.requests().filter(pl.col("sent").is_between(begin, end)).collect()
    last = int(str(requests["end"].max()))
    of_clients = pl.col("request").is_in(requests["request"].implode())
    of_others = ~pl.col("request").is_in(run.requests().select("request").collect()["request"].implode())
    of_others = of_others.fill_null(True) & pl.col("sent").is_between(begin, end)
    visits = run.visits().filter(of_clients | of_others).collect()
    with dataset.create(target, overwrite=True) as writer:
        writer.maker, writer.topology = run.manifest.maker, run.topology
        writer.write_table("requests", _without_sizes(requests))
        writer.write_table("visits", _without_sizes(visits))
        writer.write_table("samples", run.samples().filter(pl.col("time").is_between(begin, last)))
        writer.write_table("events", run.events().filter((pl.col("end") >= begin) & (pl.col("begin") <= last)))
        for table in dataset.TABLES.values():
            path = writer.folder / table.file
            pl.read_parquet(path).write_parquet(path, compression="zstd", compression_level=LEVEL)
        if (source / truth.FILE).is_file():
            shutil.copy(source / truth.FILE, writer.folder / truth.FILE)


def _without_sizes(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.lit(None).alias(name) for name in SIZES if name in table.columns)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), (float(sys.argv[3]), float(sys.argv[4])))
