"""Rows of a CSV file that an experiment names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from tailrace.bounds import TRACE_BYTES
from tailrace.errors import InputError
from tailrace.untrusted import read_text


def read(file: str, columns: set[str], lacking: str, advice: str = "") -> Iterator[tuple[int, dict[str, str | None]]]:
    """The rows with their numbers. Raises InputError, with `lacking`, where the first line does not name these
    columns."""
    lines = csv.DictReader(io.StringIO(read_text(file, TRACE_BYTES), newline=""))
    try:
        if not columns <= set(lines.fieldnames or ()):
            raise InputError(file, lacking, advice)
        yield from enumerate(lines)
    except csv.Error as error:
        raise InputError(file, f"not CSV: {error}") from error
