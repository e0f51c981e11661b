"""Rows that a reader collects: in memory while they are few, and in files of a scratch folder from then on.

A scratch folder lies in the run folder that is being written (`Source.scratch`). It is removed with everything else if
the program is interrupted, and the next writer of the same run removes what a killed one left.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace import whole

IN_MEMORY = 1 << 17
"""Rows of a table that stay in memory: some 10 MB."""
Table = NDArray[np.void]
"""Rows of a structured type."""


class Scratch:
    """New files in a folder, which is made for the first of them. Without `beside`, the folder is a temporary one that
    is removed with this object."""

    def __init__(self, beside: Path | None = None) -> None:
        self._folder = beside

    def new(self) -> Path:
        """A path that no file has."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="tailrace-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._folder.mkdir(whole.folder_mode(), exist_ok=True)
        return self._folder / secrets.token_hex(8)


class Rows:
    """Rows of one type, in the order in which they came; they can be read any number of times. `most` stay in
    memory."""

    def __init__(self, scratch: Scratch, dtype: np.dtype[Any], most: int = IN_MEMORY) -> None:
        self.count = 0
        self._scratch, self._dtype, self._most = scratch, dtype, most
        self._kept: list[Table] = []
        self._held = 0
        self._path: Path | None = None

    def add(self, rows: Table) -> None:
        self._kept.append(rows)
        self._held += len(rows)
        self.count += len(rows)
        if self._held > self._most:
            self.spill()

    def spill(self) -> None:
        """Keep no rows in memory."""
        self._path = self._path or self._scratch.new()
        with self._path.open("ab") as file:
            for rows in self._kept:
                rows.tofile(file)
        self._kept, self._held = [], 0

    def blocks(self, size: int | None = None) -> Iterator[Table]:
        """The rows in blocks, of at most `size` rows (else `most`) where they come from a file."""
        size = size or max(self._most, 1)
        if self._path is not None:
            with self._path.open("rb") as file:
                while len(rows := np.fromfile(file, self._dtype, size)):
                    yield rows
        yield from self._kept

    def empty(self) -> Table:
        """No rows, of the same type."""
        return np.empty(0, self._dtype)

    def remove(self) -> None:
        """Free what they take; nothing can be read afterwards."""
        if self._path is not None:
            self._path.unlink()
        self._kept = []
