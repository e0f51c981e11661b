"""What is known of the twin of a recording. It is kept beside the twin, so that advice that was interrupted goes on
without learning the twin again.

The file names what it was made from: the recording, the code that learns, and the files of the twin. Where any of them
is another today, the twin is learnt again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tailrace import whole
from tailrace.advise.outcomes import NOTHING, Rest
from tailrace.advise.sampling import ALL, Sample
from tailrace.dataset import Dataset, tables
from tailrace.errors import InputError
from tailrace.study.runs import fingerprint
from tailrace.twin.gate import Compared
from tailrace.untrusted import read_inside

FILE = "learnt.json"
CODE = ("dataset", "timeline", "diagnosis", "experiment", "sim", "twin", "advise")
"""Modules whose code decides what is known, besides the engine."""
DECIDING = ("manifest.json", "topology.toml")
"""Of a run folder. The manifest has the checksums of its tables; a topology may be edited by hand."""


@dataclass(frozen=True)
class Facts:
    notes: tuple[str, ...] = ()
    protocols: Mapping[str, str] = field(default_factory=dict)
    """By tier of the twin, as the recording's topology has them."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """By tier of the twin, the program that it runs, where the recording's topology has it."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Key of the twin → where its value comes from."""
    compared: tuple[Compared, ...] = ()
    """Recorded beside reproduced."""
    unlimited: Mapping[str, int] = field(default_factory=dict)
    """Tiers of the twin whose number of workers the recording does not show, and the most requests in one of their
    servers."""
    opening: tuple[str, ...] = ()
    """Tiers of the twin of which the recording does not show whether calls to them open connections."""
    sharing: tuple[str, ...] = ()
    """Tiers of the twin of which the recording does not show whether callers have a pool for each of their servers."""
    governors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Tiers of the twin whose clock rates are as recorded, and the governor that set them in the recording."""
    more: Mapping[str, float] = field(default_factory=dict)
    """Such a tier → what its visits need with the governor, over what they need beside the recorded clock rates."""
    spread: float = 0.0
    """How much the twin's count of very long requests may be off, as a share."""
    rest: Rest = NOTHING
    """Recorded requests that the twin does not send."""
    sample: Sample = ALL
    """The part of its episodes that changes are tried on."""


@dataclass(frozen=True)
class _Kept:
    source: str
    """The recording and the code."""
    files: Mapping[str, str]
    """Checksums of the twin's files."""
    facts: Facts


_KEPT = TypeAdapter(_Kept)


def read(folder: Path, run: Dataset) -> Facts | None:
    """What was kept of the twin of this recording in the folder; None if there is none, or anything has changed."""
    try:
        kept = _KEPT.validate_json(read_inside(folder / FILE))
        same = kept.source == _source(run) and all(
            tables.sha256(folder / name) == sum_ for name, sum_ in kept.files.items()
        )
    except (InputError, ValidationError):
        return None
    return kept.facts if same else None


def keep(folder: Path, run: Dataset, names: tuple[str, ...], facts: Facts) -> None:
    """After the files of these names are written."""
    kept = _Kept(_source(run), {name: tables.sha256(folder / name) for name in names}, facts)
    whole.write(folder / FILE, _KEPT.dump_json(kept))


def _source(run: Dataset) -> str:
    said = [fingerprint(CODE), *(read_inside(run.path / name) for name in DECIDING if (run.path / name).exists())]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
