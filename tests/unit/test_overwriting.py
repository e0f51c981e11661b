"""Files of the user stay unchanged: what `--overwrite` may replace, and what a leftover is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import run, visits
from tailrace import dataset
from tailrace.dataset import Dataset
from tailrace.errors import UsageError


def _overwrite(path: Path) -> None:
    with dataset.create(path, overwrite=True) as writer:
        writer.write_table("visits", visits({}, {}))


def _extension(folder: Path) -> None:
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"manifest_version": 3, "name": "mine", "version": "1.0"}))
    (folder / "background.js").write_text("mine")


def _notes(folder: Path) -> None:
    run(folder, visits=visits({}))
    (folder / "notes.md").write_text("mine")


def _below(folder: Path) -> None:
    run(folder, visits=visits({}))
    (folder / "raw" / "web").mkdir(parents=True)
    (folder / "raw" / "web" / "app.log").write_text("mine")


def _link(folder: Path) -> None:
    run(folder, visits=visits({}))
    (folder / "report.html").symlink_to("../elsewhere")


def _claimed(folder: Path) -> None:
    """Its manifest says that Tailrace wrote the file."""
    run(folder, visits=visits({}))
    manifest = folder / "manifest.json"
    table = json.loads(manifest.read_text())
    table["checksums"]["thesis.tex"] = "0"
    manifest.write_text(json.dumps(table))
    (folder / "thesis.tex").write_text("mine")


def _newer(folder: Path) -> None:
    run(folder, visits=visits({}))
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 9}))


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (_extension, "not a run folder"),
        (_notes, "it holds notes.md, which Tailrace did not write"),
        (_below, "it holds raw/web/app.log, which"),
        (_link, "it holds report.html, which"),
        (_claimed, "it holds thesis.tex, which"),
        (_newer, "not a run folder"),
    ],
)
def test_a_folder_with_a_file_of_the_user_is_not_overwritten(
    tmp_path: Path, made: Callable[[Path], None], named: str
) -> None:
    made(tmp_path / "run")
    before = _content(tmp_path)
    with pytest.raises(UsageError, match=named):
        _overwrite(tmp_path / "run")
    assert _content(tmp_path) == before


def test_a_link_to_a_run_folder_is_not_overwritten(tmp_path: Path) -> None:
    run(tmp_path / "real", visits=visits({}))
    (tmp_path / "run").symlink_to("real")
    with pytest.raises(UsageError, match="a symbolic link"):
        _overwrite(tmp_path / "run")
    assert Dataset.open(tmp_path / "run").manifest.rows == {"visits": 1}


def test_a_run_folder_with_its_results_and_its_raw_files_is_overwritten(tmp_path: Path) -> None:
    with dataset.create(tmp_path / "run") as writer:
        (writer.folder / "raw" / "web").mkdir(parents=True)
        (writer.folder / "raw" / "web" / "httpd.conf").write_text("ours")
    for name in ("report.html", "diagnosis.json", "diagnosis.txt", "topology.toml"):
        (tmp_path / "run" / name).write_text("")
    _overwrite(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert Dataset.open(tmp_path / "run").manifest.rows == {"visits": 2}


def test_files_added_meanwhile_are_kept_and_reported(tmp_path: Path) -> None:
    run(tmp_path / "run", visits=visits({}))
    with dataset.create(tmp_path / "run", overwrite=True):
        (tmp_path / "run" / "notes.md").write_text("mine")
    [aside] = tmp_path.glob("run.old-*")
    assert _content(aside) == {"notes.md": "mine"}
    assert Dataset.open(tmp_path / "run").manifest.notes == (
        f"notes.md was in the old run folder; it is now in {aside.name}",
    )


def test_a_folder_that_only_looks_like_a_leftover_stays(tmp_path: Path) -> None:
    for name in ("run.tmp-backup", "run.tmp-4711-0123abcd"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".lock").write_text("")
        (tmp_path / name / "mine").write_text("mine")
    (tmp_path / "run.tmp-4711-0123abce").symlink_to("run.tmp-backup")
    before = _content(tmp_path)
    run(tmp_path / "run", visits=visits({}))
    assert before.items() <= _content(tmp_path).items()


def test_only_what_is_known_is_removed(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "1.parquet").write_text("theirs")
    (tmp_path / "inner" / "1.parquet").write_text("ours")
    (tmp_path / "inner" / "notes.md").write_text("mine")
    (tmp_path / "inner" / "link").symlink_to(tmp_path / "outside")
    assert not dataset.remove_known(tmp_path / "inner", lambda path: path.suffix == ".parquet")
    assert _content(tmp_path) == {"outside/1.parquet": "theirs", "inner/notes.md": "mine"}


def _content(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_text(errors="replace") for path in files}
