"""The recorder's losses decide whether a run is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tailrace import _core
from tailrace.errors import OutputError
from tailrace.testbed import recording


def record(monkeypatch: pytest.MonkeyPatch, folder: Path, lost: dict[str, int]) -> None:
    monkeypatch.setattr(recording, "plan", lambda system: {})
    monkeypatch.setattr(_core, "record", lambda options, folder, say: json.dumps({"lost": lost}))
    with recording.recording(cast(Any, None), folder):
        pass


def test_a_run_whose_rows_could_not_be_written_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = {"rows of packets.pcap: a/00000002.packets.pcap: No space left on device (os error 28)": 812}
    with pytest.raises(OutputError, match="the disk is full; free some space"):
        record(monkeypatch, tmp_path / "recording", lost)


def test_a_run_of_which_a_slow_disk_lost_rows_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch, tmp_path / "recording", {"rows of samples.parquet: the disk was too slow": 4})
