"""The full recordings: beside the project, or at TAILRACE_CAPTURES. Tests are skipped without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "captures"


def recording(name: str) -> Path:
    """The folder of a full recording, or skip the test."""
    folder = Path(os.environ.get("TAILRACE_CAPTURES", _BESIDE)) / name
    if not folder.is_dir():
        pytest.skip(f"the recording {name} is not here; set TAILRACE_CAPTURES to the folder that holds it")
    return folder
