"""The list of a watch's incidents, and its page."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from doors import run_folder, told
from systems import Slow, system
from tailrace.cli import perform
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.serialise import as_dict
from tailrace.watch import index, listing, remembered
from tailrace.watch.remembered import Memory

HOSTILE = "</script><img src=x onerror=alert(1)>"


def incident(folder: Path, name: str) -> Path:
    """A run folder with the diagnosis of another run in it."""
    shutil.copytree(run_folder(), folder / name)
    plain = as_dict(diagnose(system(Slow("app", 4.0, 4.6, cpu=1.0, always=True)).event("app", "gc", 4.0, 4.6)))
    (folder / name / "diagnosis.json").write_text(json.dumps(plain))
    return folder / name


def test_each_incident_is_listed_the_latest_first(tmp_path: Path) -> None:
    incident(tmp_path, "incident-2026-11-21T173144Z")
    later = incident(tmp_path, "incident-2026-11-22T000000Z")
    failed = tmp_path / "incident-2026-11-20T000000Z.recording"
    failed.mkdir()
    (failed / "errors.txt").write_text("a\ntailrace: the disk is full\n")
    (tmp_path / "recording").mkdir()
    first, second, third = listing.of(tmp_path)
    assert (first.name, first.cause, first.origin) == (later.name, "garbage-collection", "app")
    assert (second.name, second.vlrt > 0, second.report) == (
        "incident-2026-11-21T173144Z",
        True,
        "incident-2026-11-21T173144Z/report.html",
    )
    assert (third.failed, third.report) == ("tailrace: the disk is full", None)


def test_a_sparkline_counts_each_very_long_request_once(tmp_path: Path) -> None:
    run = run_folder()
    found = listing.one(run)
    assert found.slots == ()  # nothing was very long
    slow = as_dict(diagnose(Dataset.open(run), threshold_ns=1_000_000))
    shutil.copytree(run, tmp_path / "slow")
    (tmp_path / "slow" / "diagnosis.json").write_text(json.dumps(slow))
    found = listing.one(tmp_path / "slow")
    assert found.vlrt > 100
    assert (len(found.slots), sum(found.slots)) == (listing.SLOTS, found.vlrt)


def test_the_page_loads_nothing_and_shows_hostile_names_as_text(tmp_path: Path) -> None:
    made = listing.Incident(HOSTILE, 1, 2, 10, 3, HOSTILE, "a\x1bb", HOSTILE, "local", HOSTILE, (0, 3, 1))
    page = index.html([made, listing.Incident("x", failed=HOSTILE)])
    assert HOSTILE not in page
    assert "\x1b" not in page
    assert page.count("<rect x=") >= 2
    assert index.html([made]) == index.html([made])
    assert "No incident has been written yet." in index.html([])


def test_the_command_writes_the_page_and_prints_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    incident(tmp_path, "incident-2026-11-21T173144Z")
    assert perform(["incidents", str(tmp_path), "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert row["report"] in (tmp_path / "index.html").read_text()


def test_an_incident_that_has_not_changed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = incident(tmp_path, "incident-2026-11-21T173144Z")
    second = incident(tmp_path, "incident-2026-11-22T000000Z")
    assert perform(["incidents", str(tmp_path), "--quiet"]) == 0
    page = (tmp_path / "index.html").read_text()
    read: list[str] = []
    one = listing.one
    monkeypatch.setattr(listing, "one", lambda out: (read.append(out.name), one(out))[1])
    assert perform(["incidents", str(tmp_path), "--quiet"]) == 0
    assert (read, (tmp_path / "index.html").read_text()) == ([], page)
    answer = (second / "diagnosis.json").read_text()
    (second / "diagnosis.json").write_text(answer.replace("garbage-collection", "freeze"))
    shutil.rmtree(first)
    assert [each.cause for each in listing.of(tmp_path, Memory(tmp_path).known)] == ["freeze"]
    assert read == [second.name]


@pytest.mark.parametrize("damage", [b"", b"[" * 5000, b"{}", b'{"version":1,"shown":[{"stamp":[],"incident":7}]}'])
def test_a_damaged_memory_is_no_memory(tmp_path: Path, damage: bytes) -> None:
    incident(tmp_path, "incident-2026-11-21T173144Z")
    (tmp_path / remembered.FILE).write_bytes(damage)
    assert perform(["incidents", str(tmp_path), "--quiet"]) == 0
    assert [each.name for each in listing.of(tmp_path, Memory(tmp_path).known)] == ["incident-2026-11-21T173144Z"]
    assert "garbage-collection" in (tmp_path / remembered.FILE).read_text()


def test_what_lies_in_a_folder_of_a_stranger_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "incident-1").symlink_to(incident(tmp_path, "elsewhere"))
    (tmp_path / "incident-2.recording").mkdir()
    os.mkfifo(tmp_path / "incident-2.recording" / "errors.txt")
    (tmp_path / "incident-3").mkdir()
    os.mkfifo(tmp_path / "incident-3" / "diagnosis.json")
    (tmp_path / "incident-4").mkdir()
    (tmp_path / "incident-4" / "diagnosis.json").write_text("[" * 5000)
    found = {each.name: each.failed for each in listing.of(tmp_path)}
    assert set(found) == {"incident-2.recording", "incident-3", "incident-4"}
    assert all(found.values())
    assert all("not a file" in failed for name, failed in found.items() if failed and name != "incident-4")
    assert told("incidents", tmp_path / "missing") == 2
