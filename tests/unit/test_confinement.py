"""Which commands read the files of strangers: each works confined, in a process of its own, and the docs list it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from doors import HTTP, run_folder, told
from tailrace.cli import apart

ROOT = Path(__file__).parents[2]


def test_what_opens_foreign_files_is_confined_and_runs_apart() -> None:
    commands = {path.stem: path.read_text() for path in (ROOT / "python" / "tailrace" / "cli").glob("*.py")}
    opening = {name for name, text in commands.items() if re.search(r"\b(?:open_run|read_files|listing\.of)\(", text)}
    confining = {name for name, text in commands.items() if re.search(r"^    confine\(", text, re.MULTILINE)}
    assert opening - {"running"} == confining == apart.READING


def test_the_docs_list_them() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    [row] = re.findall(r"^\| (`read`.*?) \|", page, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == apart.READING


@pytest.mark.parametrize(
    "words",
    [
        ("report", "RUN", "-o", "RUN/visits.parquet"),
        ("report", "RUN", "--perfetto", "RUN/manifest.json"),
        ("export", "RUN", "--pcap", "RUN/requests.parquet"),
        ("diagnose", "a=CAPTURE", "--report", "CAPTURE"),
        ("diagnose", "CAPTURE", "--perfetto", "OTHER"),
        ("gate", "RUN/diagnosis.json", "--no-drops", "--junit", "RUN/diagnosis.json"),
    ],
)
def test_no_input_is_replaced(tmp_path: Path, words: tuple[str, ...]) -> None:
    shutil.copytree(run_folder(), tmp_path / "run")
    shutil.copy(HTTP, tmp_path / "a.pcap")
    (tmp_path / "b.pcap").hardlink_to(tmp_path / "a.pcap")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    meant = {"RUN": tmp_path / "run", "CAPTURE": tmp_path / "a.pcap", "OTHER": tmp_path / "b.pcap"}
    for name, path in meant.items():
        words = tuple(word.replace(name, str(path)) for word in words)
    assert told(*words, "--quiet") == 2
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
