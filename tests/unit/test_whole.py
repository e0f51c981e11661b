"""However writing ends, no half-written file remains; and a link is never followed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tailrace import whole
from tailrace.errors import OutputError, UsageError


@pytest.mark.parametrize(
    ("ending", "told"), [(OSError(errno.ENOSPC, "no"), OutputError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_the_file_before_stays_when_writing_ends_early(
    tmp_path: Path, ending: BaseException, told: type[BaseException]
) -> None:
    whole.write(tmp_path / "page.html", b"before")
    with pytest.raises(told), whole.replacing(tmp_path / "page.html") as file:
        file.write(b"af")
        raise ending
    assert (tmp_path / "page.html").read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist; create it first"):
        whole.write(tmp_path / "none" / "page.html", b"x")


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("theirs")
    (tmp_path / "page.html").symlink_to("keys")
    whole.write(tmp_path / "page.html", b"ours")
    assert (tmp_path / "keys").read_text() == "theirs"
    assert (tmp_path / "page.html").read_bytes() == b"ours"
    assert not (tmp_path / "page.html").is_symlink()


def test_no_name_that_can_be_foreseen_is_written(tmp_path: Path) -> None:
    for trap in ("page.html.tmp", ".page.html.tmp", "page.tmp"):
        (tmp_path / trap).symlink_to("keys")
    names: set[str] = set()
    for _ in range(2):
        with whole.replacing(tmp_path / "page.html"):
            names |= {path.name for path in tmp_path.iterdir() if whole.PARTIAL.fullmatch(path.name)}
    assert len(names) == 2
    assert not (tmp_path / "keys").exists()


def test_only_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path, what in ((tmp_path / "pipe", "a named pipe"), (tmp_path / "folder", "a folder"), ("/dev/null", "device")):
        with pytest.raises(UsageError, match=what):
            whole.write(Path(path), b"x")
    assert not Path("/dev/null").is_file()


def test_an_output_that_the_user_names_may_not_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "latest.html").symlink_to("friday.html")
    with pytest.raises(UsageError, match="name the file that it leads to"):
        whole.refuse_unusual(None, tmp_path / "latest.html")
    whole.refuse_unusual(tmp_path / "monday.html")
