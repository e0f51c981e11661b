"""Finds the damaged table of a run folder after a command has failed.

Tables are decoded only when they are used, so that a run opens fast. The error of Polars then names no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tailrace.dataset import TABLES, is_run, tables
from tailrace.errors import InputError


def damaged_table(words: Sequence[str]) -> InputError | None:
    """The first table that cannot be decoded in the run folders among the words of a command."""
    for folder in filter(is_run, map(Path, words)):
        for path in (folder / table.file for table in TABLES.values()):
            try:
                if path.exists():
                    tables.scan(path).select(pl.all().hash().max()).collect(engine="streaming")
            except tables.FAULTS as error:
                return tables.unreadable(path, error)
    return None
