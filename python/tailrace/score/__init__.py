"""The examiner: is a diagnosis right? Only here is one compared with what really happened (docs/reference/score.md).

`stalls` reads the truth, `busy` and `blame` work out which stall each very slow request belongs to, `comparing` holds
the diagnosis against that. `drawing` and `graphs` make random systems with known `troubles`, `sweep` examines many
of them, and `without` simulates them again without their troubles.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from tailrace.dataset import Dataset
from tailrace.score.blame import blame
from tailrace.score.busy import record
from tailrace.score.comparing import Score, compare
from tailrace.score.stalls import read
from tailrace.score.told import read as read_diagnosis

__all__ = ["Score", "blame", "compare", "read", "read_diagnosis", "record", "score"]


def score(run: Dataset, told: Mapping[str, Any], truth: str | PathLike[str] | None = None) -> Score:
    """Compare a diagnosis (`diagnosis.json`, read) with the truth.toml of its run folder, or another one."""
    topology = run.topology
    stalls = read(run.path if truth is None else truth, topology)
    seen = record(run)
    return compare(seen, topology, blame(seen, stalls, int(told["threshold_ns"])), stalls, told)
