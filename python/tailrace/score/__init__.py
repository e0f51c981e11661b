"""The examiner: is a diagnosis right? Only here is one compared with what really happened (docs/reference/score.md).

`stalls` reads the truth, `busy` and `blame` work out which stall each very slow request belongs to, `comparing` holds
the diagnosis against that. `drawing` and `graphs` make random systems with known `troubles`, `sweep` examines many
of them, and `without` simulates them again without their troubles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from tailrace.dataset import Dataset
from tailrace.errors import InputError, cannot_read
from tailrace.score.blame import blame
from tailrace.score.busy import record
from tailrace.score.comparing import Score, compare
from tailrace.score.stalls import read

__all__ = ["Score", "blame", "compare", "read", "read_diagnosis", "record", "score"]


def score(run: Dataset, told: Mapping[str, Any], truth: str | PathLike[str] | None = None) -> Score:
    """Compare a diagnosis (`diagnosis.json`, read) with the truth.toml of its run folder, or another one."""
    topology = run.topology
    stalls = read(run.path if truth is None else truth, topology)
    seen = record(run)
    return compare(seen, topology, blame(seen, stalls, int(told["threshold_ns"])), stalls, told)


def read_diagnosis(path: str | PathLike[str]) -> dict[str, Any]:
    """A diagnosis.json with the keys that are needed here."""
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise cannot_read(path, error) from error
    except ValueError as error:
        raise InputError(path, f"not JSON ({error})", "give what `tailrace diagnose --json` prints") from error
    episodes = told.get("episodes") if isinstance(told, dict) else None
    if episodes is None or "threshold_ns" not in told or any("chains" not in episode for episode in episodes):
        raise InputError(path, "not a diagnosis that can be scored", "write it anew with `tailrace diagnose --json`")
    return dict(told)
