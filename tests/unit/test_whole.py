"""What ends the writing of a file leaves nothing half-written."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tailrace import whole
from tailrace.errors import OutputError


@pytest.mark.parametrize(
    ("ending", "told"), [(OSError(errno.ENOSPC, "no"), OutputError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_the_file_before_stays_when_writing_ends_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: BaseException, told: type[BaseException]
) -> None:
    whole.write(tmp_path / "page.html", b"before")

    def half(path: Path, content: bytes) -> int:
        path.open("wb").write(content[:2])
        raise ending

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(told):
        whole.write(tmp_path / "page.html", b"after")
    assert (tmp_path / "page.html").read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist; create it first"):
        whole.write(tmp_path / "none" / "page.html", b"x")
