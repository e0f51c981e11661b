"""What crosses processes: what to reduce to, and integer sums. Sums are merged in any order, with the same bits."""

from __future__ import annotations

import io
from dataclasses import dataclass

import polars as pl

from tailrace.errors import InputError
from tailrace.units import SECOND

VERSION = 1
"""Of the columns; a worker with another version of Tailrace is refused."""
SUM = pl.Decimal(38, 0)
COLUMNS = pl.Schema(
    {
        "server": pl.String(),
        "interaction": pl.String(),
        "window": pl.Int64(),
        "arrivals": pl.Int64(),
        "departures": pl.Int64(),
        "vlrt": pl.Int64(),
        "drops": pl.Int64(),
        "area_ns": SUM,
        "response_ns": SUM,
    }
)
"""A row for each server and window; with a null window, `arrivals` are visits that came before the first window."""


@dataclass(frozen=True)
class Plan:
    window_ns: int
    by_interaction: bool = False
    begin: int | None = None
    end: int | None = None
    vlrt_ns: int = SECOND


@dataclass(frozen=True)
class Part:
    frame: pl.DataFrame

    def to_bytes(self) -> bytes:
        into = io.BytesIO()
        self.frame.write_ipc(into, compression="zstd")
        return VERSION.to_bytes(2, "big") + into.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Part:
        version = int.from_bytes(content[:2], "big")
        if version != VERSION:
            found = f"a worker sent sums of version {version}, this Tailrace reads {VERSION}"
            raise InputError("workers", found, "install the same Tailrace everywhere")
        return cls(pl.read_ipc(io.BytesIO(content[2:])))
