"""Special files in the place of a file: they are refused with a sentence, without waiting."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from doors import HTTP, ROOT, SIMULATED, run_folder, told
from tailrace import untrusted
from tailrace.errors import InputError
from tailrace.score import stalls

BASE = ROOT / "experiments" / "rpc-vs-async" / "base"


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "empty": lambda path: path.symlink_to("/dev/null"),
    "socket": _socket,
    "folder": Path.mkdir,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path),
}
LOAD = ("load", "http://127.0.0.1:9", "--interaction", "Browse", "--rate", "9")
NAMED = {
    "samples.csv": ("diagnose", HTTP, "FILE", "-o", "OUT"),
    "gc.log": ("diagnose", HTTP, "web=FILE", "-o", "OUT"),
    "packets.pcap": ("diagnose", "FILE", "-o", "OUT"),
    "topology.toml": ("read", HTTP, "--topology", "FILE", "-o", "OUT"),
    "rules.toml": ("read", HTTP, "--interactions", "FILE", "-o", "OUT"),
    "experiment.toml": ("run", "FILE", "--set", "duration=1s", "-o", "OUT"),
    "truth.toml": ("score", "RUN", "--truth", "FILE"),
    "diagnosis.json": ("score", "RUN", "--truth", ROOT / "demo" / "truth.toml", "--diagnosis", "FILE"),
    "our.key": ("anonymise", "RUN", "--key", "FILE", "-o", "OUT"),
    "arrivals.csv": (
        *("run", BASE / "experiment.toml", "--set", "duration=1s", "--add", "--set", 'workloads.w.kind="trace"'),
        *("--set", 'workloads.w.file="FILE"', "-o", "OUT"),
    ),
    "paths.csv": (*LOAD, "--duration", "1ms", "--paths", "FILE", "-o", "OUT"),
}
INSIDE = {
    "manifest.json": ("info", "FOLDER"),
    "topology.toml": ("info", "FOLDER"),
    "visits.parquet": ("info", "FOLDER"),
    "truth.toml": ("score", "FOLDER"),
}


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "PIPE_SECONDS", 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMED)
def test_a_name_that_the_user_gives(tmp_path: Path, name: str, kind: str) -> None:
    KINDS[kind](tmp_path / name)
    meant = {"FILE": str(tmp_path / name), "OUT": str(tmp_path / "run"), "RUN": str(run_folder())}
    code = told(*(_meant(str(word), meant) for word in NAMED[name]), "--quiet")
    assert code == 2 or kind == "empty"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", INSIDE)
def test_a_name_in_a_folder_of_a_stranger(tmp_path: Path, name: str, kind: str) -> None:
    shutil.copytree(run_folder(), tmp_path / "run")
    (tmp_path / "run" / name).unlink(missing_ok=True)
    KINDS[kind](tmp_path / "run" / name)
    assert told(*(str(tmp_path / "run") if word == "FOLDER" else word for word in INSIDE[name])) == 2


@pytest.mark.parametrize("name", INSIDE)
def test_a_link_to_a_good_file_in_a_folder_of_a_stranger_is_refused(tmp_path: Path, name: str) -> None:
    shutil.copytree(run_folder(), tmp_path / "run")
    file = tmp_path / "run" / name
    if not file.exists():
        file.write_bytes(SIMULATED)
    file.symlink_to(file.rename(tmp_path / name))
    assert told(*(str(tmp_path / "run") if word == "FOLDER" else word for word in INSIDE[name])) == 2


def test_a_linked_truth_is_not_simulated(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_bytes(SIMULATED)
    (tmp_path / "truth.toml").symlink_to(tmp_path / "elsewhere.toml")
    with pytest.raises(InputError, match=r"truth\.toml: it is a symbolic link, not a file"):
        stalls.simulated(tmp_path)


def _meant(word: str, meant: dict[str, str]) -> str:
    for short, long in meant.items():
        word = word.replace(short, long)
    return word


def test_a_link_that_the_user_names_leads_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "link.pcap").symlink_to(HTTP)
    assert told("read", tmp_path / "link.pcap", "-o", tmp_path / "run", "--quiet") == 0


def test_a_pipe_into_which_somebody_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "PIPE_SECONDS", 60)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("x" * 100_000,))
    writer.start()
    assert untrusted.read_text(tmp_path / "pipe") == "x" * 100_000
    writer.join()


def test_a_pipe_is_no_capture(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="it is a named pipe, not a file; a capture may come through standard input"):
        untrusted.refuse_unusual(tmp_path / "pipe")
