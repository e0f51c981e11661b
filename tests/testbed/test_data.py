"""Which builds of the bulletin board have the same data."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from tailrace.errors import TailraceError
from tailrace.testbed.servers import board
from tailrace.testbed.servers.data import contents

PARTS = {
    "tailrace/board/data/schema.sql": "CREATE TABLE stories",
    "tailrace/board/data/Rows.class": "rows",
    "tailrace/board/settings/Sizes.class": "1000 users",
    "tailrace/board/core/Html.class": "a page",
}


def jar(path: Path, parts: dict[str, str]) -> Path:
    with ZipFile(path, "w") as packed:
        for name, text in parts.items():
            packed.writestr(name, text)
    return path


@pytest.mark.parametrize("part", PARTS)
def test_data_are_named_by_what_makes_them(part: str, tmp_path: Path) -> None:
    before = contents(jar(tmp_path / "before.jar", PARTS))
    after = contents(jar(tmp_path / "after.jar", dict(reversed(({**PARTS, part: "other"}).items()))))
    assert (before == after) == (part == "tailrace/board/core/Html.class")


def test_a_board_that_is_not_built_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_BOARD", str(tmp_path / "board.jar"))
    with pytest.raises(TailraceError, match="is not built; run `make testbed-setup`"):
        board.built()


def test_an_incomplete_jar_is_reported(tmp_path: Path) -> None:
    (tmp_path / "board.jar").write_bytes(b"PK")
    with pytest.raises(TailraceError, match="not a complete jar"):
        contents(tmp_path / "board.jar")
