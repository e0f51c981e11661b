"""Commands that a process with loaded libraries forks: they do what a started command does, and none is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tailrace.cli import warm as forking
from tailrace.hub.warm import Warm, _Forked
from tailrace.watch import incidents

SERVER = Path(__file__).parents[1] / "golden" / "hub" / "server"
GENEROUS_S = 300


@pytest.fixture
def warm() -> Iterator[Warm]:
    one = Warm()
    yield one
    one.close()


def run(start: incidents.Start, folder: Path, *words: str) -> tuple[int, str, str]:
    with (folder / "out").open("wb") as out, (folder / "why_not").open("wb") as why_not:
        code = start(words, out, why_not).wait(GENEROUS_S)
    return code, (folder / "out").read_text(), (folder / "why_not").read_text()


def explained(start: incidents.Start, folder: Path) -> tuple[int, str, object]:
    """What a diagnosis says, and what it writes."""
    code, said, _ = run(start, folder, "diagnose", "--quiet", f"--out={folder / 'run'}", "--", str(SERVER))
    found = json.loads((folder / "run" / "diagnosis.json").read_text())
    shutil.rmtree(folder / "run")
    return code, said, found


def test_a_forked_command_does_what_a_started_one_does(warm: Warm, tmp_path: Path) -> None:
    assert explained(warm.started, tmp_path) == explained(incidents.started, tmp_path)
    absent = ("diagnose", "--quiet", "--", str(tmp_path / "absent"))
    code, said, why_not = run(warm.started, tmp_path, *absent)
    assert (code, said) == (2, "")
    assert "absent" in why_not
    assert run(incidents.started, tmp_path, *absent) == (code, said, why_not)
    assert run(warm.started, tmp_path, "--version")[0] == 0


def test_a_command_is_started_anew_if_what_forks_it_is_killed(warm: Warm, tmp_path: Path) -> None:
    run(warm.started, tmp_path, "--version")
    assert warm._process is not None
    words = ("diagnose", "--quiet", f"--out={tmp_path / 'run'}", "--overwrite", "--", str(SERVER))
    with (tmp_path / "out").open("wb") as out, (tmp_path / "why_not").open("wb") as why_not:
        running = warm.started(words, out, why_not)
        warm._process.send_signal(signal.SIGKILL)
        assert running.wait(GENEROUS_S) == 0
    assert incidents.is_explained(tmp_path / "run")
    assert run(warm.started, tmp_path, "--version")[0] == 0


@contextmanager
def endless(start: incidents.Start, folder: Path) -> Iterator[incidents.Command]:
    """A command that does not end by itself."""
    words = ("receive", f"--out={folder / 'run'}", "--listen=127.0.0.1:0")
    with (folder / "out").open("wb") as out, (folder / "why_not").open("wb") as why_not:
        yield start(words, out, why_not)


def test_a_command_can_be_killed(warm: Warm, tmp_path: Path) -> None:
    """With what it has started: its group is its own."""
    with endless(warm.started, tmp_path) as running:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.01)
        while b"\n" not in running._said:  # type: ignore[attr-defined]
            running.poll()
        running.kill()
        assert running.wait(GENEROUS_S) == -signal.SIGKILL


def test_a_command_can_be_killed_before_it_has_begun(warm: Warm, tmp_path: Path) -> None:
    """What forks it still loads the libraries."""
    with endless(warm.started, tmp_path) as running:
        running.kill()
        assert running.wait(GENEROUS_S) == -signal.SIGKILL


@pytest.mark.parametrize("said", [b"x\n", b"\xff\n", b"-1\n", b"\n"])
def test_a_command_that_says_nonsense_has_failed(said: bytes, tmp_path: Path) -> None:
    """Its work holds the pipe, and reads what strangers wrote."""
    heard, ended = os.pipe()
    with (tmp_path / "out").open("wb") as out, (tmp_path / "why_not").open("wb") as why_not:
        running = _Forked((), out, why_not, heard)
        os.write(ended, b"1\n" + said)
        os.close(ended)
        assert running.wait(GENEROUS_S) == 1


def test_it_waits_for_its_commands_before_it_ends(tmp_path: Path) -> None:
    """A diagnosis may take longer than the time after which it ends."""
    asked, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    script = (
        f"import socket; from tailrace.cli import warm; warm.IDLE_S = 0.2; warm.LOADED = (); "
        f"warm.serve(socket.socket(fileno={its.fileno()}))"
    )
    one = Warm()
    with its:
        one._process = subprocess.Popen([sys.executable, "-c", script], pass_fds=(its.fileno(),))
    one._asked = asked
    with endless(one.started, tmp_path) as running:
        while b"\n" not in running._said:  # type: ignore[attr-defined]
            running.poll()
        time.sleep(1)
        assert running.poll() is None
        assert running._anew is None, "the command was started anew"  # type: ignore[attr-defined]
        running.kill()
        assert running.wait(GENEROUS_S) == -signal.SIGKILL
    assert one._process is not None
    assert one._process.wait(GENEROUS_S) == 0
    one.look()
    assert one._process is None
    one.close()


def test_it_ends_when_nobody_asks(warm: Warm, tmp_path: Path) -> None:
    run(warm.started, tmp_path, "--version")
    process = warm._process
    assert process is not None
    assert warm._asked is not None
    warm._asked.close()
    assert process.wait(GENEROUS_S) == 0


def test_it_has_no_threads_that_a_forked_command_would_miss(warm: Warm, tmp_path: Path) -> None:
    """Polars begins one, which sleeps until something is written out of memory."""
    run(warm.started, tmp_path, "--version")
    assert warm._process is not None
    threads = Path(f"/proc/{warm._process.pid}/task")
    others = [thread for thread in threads.iterdir() if thread.name != str(warm._process.pid)]
    assert {(thread / "comm").read_text().strip() for thread in others} <= {"polars-ooc-clea"}


def test_what_a_diagnosis_needs_is_loaded_before() -> None:
    """A module that is forgotten here would be loaded again for each incident."""
    script = f"""
import sys
from importlib import import_module
for name in {forking.LOADED!r}:
    import_module(name)
before = set(sys.modules)
from tailrace.cli import perform
code = perform(["diagnose", "--quiet", "--json", {str(SERVER)!r}])
print(code, sorted(set(sys.modules) - before), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    code, _, late = done.stderr.splitlines()[-1].partition(" ")
    assert code == "0"
    assert not [name for name in ("polars", "numpy", "pydantic", "jinja2") if f"'{name}'" in late]
    assert late.count("'tailrace.") == 0, late
