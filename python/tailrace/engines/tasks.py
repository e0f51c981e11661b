"""What a worker does, one file a task. Engines find this function by its name."""

from __future__ import annotations

from dataclasses import asdict

import polars as pl

from tailrace import _core
from tailrace.engines import lake
from tailrace.engines.parts import COLUMNS, Part, Plan

Numbered = tuple[int, tuple[str, Plan]]


def reduce_file(task: Numbered) -> tuple[int, bytes]:
    """The sums of a table of visits. The file is opened here, by the engine: rows that another library has decoded
    would cost more to hand over than to decode again."""
    number, (path, plan) = task
    with lake.local(path) as here:
        try:
            table = _core.partial([here], threads=1, **asdict(plan))
        except ValueError as error:
            raise ValueError(str(error).replace(here, path)) from error
    return number, Part(pl.DataFrame(table).cast(COLUMNS)).to_bytes()
