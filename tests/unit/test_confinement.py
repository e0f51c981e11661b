"""Which commands read the files of strangers: each works confined, in a process of its own, and the docs list it."""

from __future__ import annotations

import re
from pathlib import Path

from tailrace.cli import apart

ROOT = Path(__file__).parents[2]


def test_what_opens_foreign_files_is_confined_and_runs_apart() -> None:
    commands = {path.stem: path.read_text() for path in (ROOT / "python" / "tailrace" / "cli").glob("*.py")}
    opening = {name for name, text in commands.items() if re.search(r"\b(?:open_run|read_files)\(", text)}
    confining = {name for name, text in commands.items() if re.search(r"^    confine\(", text, re.MULTILINE)}
    assert opening - {"running"} == confining == apart.READING


def test_the_docs_list_them() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    [row] = re.findall(r"^\| (`read`.*?) \|", page, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == apart.READING
