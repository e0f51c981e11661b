"""Folders of the testbed are created, recognised, and removed; others with their names stay."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tailrace.errors import TailraceError
from tailrace.testbed import folders, undoing
from tailrace.testbed.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def test_a_folder_is_its_owners_alone_and_is_removed_with_all_in_it(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "files" / "run"
    folders.make(folder, ledger)
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o700, 0o700]
    (folder / "log").write_text("of a server")
    assert undoing.undo(ledger) == [("folder", str(folder))]
    assert list(folder.parent.iterdir()) == []


def test_an_existing_folder_is_not_used(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "of").mkdir(parents=True)
    with pytest.raises(TailraceError, match="no testbed made it; if you do not need it: `rm -r"):
        folders.make(folder, ledger)
    assert undoing.undo(ledger) == []
    assert (folder / "of").exists()


def test_a_folder_that_was_made_again_stays(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "files" / "run"
    folders.make(folder, ledger)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "log").write_text("of somebody else")
    assert undoing.undo(ledger) == []
    assert (folder / "log").exists()
    assert ledger.steps() == []


@pytest.mark.parametrize(("holds", "undone"), [((), 1), (("log",), 0)])
def test_an_unmarked_folder_goes_only_while_it_is_empty(
    ledger: Ledger, tmp_path: Path, holds: tuple[str, ...], undone: int
) -> None:
    folder = tmp_path / "run"
    ledger.note("folder", str(folder))
    folder.mkdir()
    for name in holds:
        (folder / name).write_text("")
    assert len(undoing.undo(ledger)) == undone
    assert folder.exists() == (not undone)


def test_a_link_in_the_place_of_the_testbeds_files_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "run").mkdir(parents=True)
    files = tmp_path / "files"
    files.symlink_to(elsewhere)
    with pytest.raises(TailraceError, match="not a folder that this user alone may write to"):
        folders.make(files / "run", ledger)
    files.unlink()
    files.mkdir()
    files.chmod(0o777)
    with pytest.raises(TailraceError, match="not a folder that this user alone may write to"):
        folders.make(files / "run", ledger)
    assert (elsewhere / "run").exists()
