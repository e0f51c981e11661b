"""The result of each reader for genuine and for awkward files: beside `file` is `file.expected.json`.

`make golden` rewrites the expectations; review the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tailrace import readers

CASES = sorted(
    path
    for path in (Path(__file__).parent / "readers").glob("*/*")
    if not path.name.endswith((".expected.json", ".toml"))
)
SAMPLES_SHOWN = 12
ROWS_SHOWN = 60


def summary(path: Path) -> dict[str, Any]:
    """Everything for a small file; for many rows the first, the last and their counts."""
    source = readers.Source(path)
    [reader] = [reader for reader in readers.READERS if reader.sniff(path.name, source.head())][:1]
    found = reader.read([source])
    shown: dict[str, Any] = {"reader": reader.name, "notes": found.notes, "lost": found.lost}
    shown["events"] = [list(row) for frame in found.events for row in frame.rows()]
    for frame in found.samples:
        rows = [list(row) for row in frame.select("time", "interval_ns", "place", "metric", "value").rows()]
        shown["samples"] = rows if len(rows) <= 2 * SAMPLES_SHOWN else [*rows[:SAMPLES_SHOWN], *rows[-SAMPLES_SHOWN:]]
        shown["samples_count"] = len(rows)
    for table in ("requests", "visits"):
        for frame in getattr(found, table):
            rows = [{key: value for key, value in row.items() if value is not None} for row in frame.to_dicts()]
            shown[table] = rows if len(rows) <= ROWS_SHOWN else [*rows[: ROWS_SHOWN // 2], *rows[-ROWS_SHOWN // 2 :]]
            if len(rows) > ROWS_SHOWN:
                shown[f"{table}_count"] = len(rows)
    return shown


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_reader(path: Path) -> None:
    found = json.loads(json.dumps(summary(path)))
    expected = path.with_name(path.name + ".expected.json")
    if os.environ.get("TAILRACE_GOLDEN") == "rewrite":
        expected.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(expected.read_text()), "if this is an improvement: make golden, and review the diff"
