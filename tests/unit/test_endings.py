"""A program that handles its signals, ended as by a user, a service manager, a terminal and `nohup`."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from tailrace import cli, endings
from tailrace.cli import apart

PROGRAM = """
import signal, sys
from tailrace import endings
before = endings.handle(lambda number, frame: print(signal.Signals(number).name, flush=True))
print("ready", flush=True)
sys.stdin.readline()
endings.restore(before)
print(signal.getsignal(signal.SIGHUP).name, flush=True)
"""
COMPUTES = """
import threading
from tailrace import cli, endings

def perform(words):
    try:
        with endings.crew(1) as pool:
            never = pool.submit(threading.Event().wait)
            print("ready", flush=True)
            never.result()
    except KeyboardInterrupt:
        return cli.INTERRUPTED

cli.perform = perform
cli.main()
"""
INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.mark.parametrize(
    ("begin", "sent", "ignored", "afterwards"),
    [
        ((), (INT, TERM, INT), (), "SIG_DFL"),
        ((), (HUP, HUP, TERM), (1,), "SIG_IGN"),
        (("nohup",), (HUP, TERM), (0,), "SIG_IGN"),
    ],
)
def test_the_signals_that_end_a_program(
    begin: tuple[str, ...], sent: tuple[signal.Signals, ...], ignored: tuple[int, ...], afterwards: str
) -> None:
    command = (*begin, sys.executable, "-c", PROGRAM)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        for at, number in enumerate(sent):
            program.send_signal(number)
            if at not in ignored:
                assert program.stdout.readline() == f"{number.name}\n"
        assert program.communicate("\n", timeout=20)[0] == f"{afterwards}\n"


@pytest.mark.parametrize(("before", "meanwhile"), [("default_int_handler", "SIG_DFL"), ("SIG_IGN", "SIG_IGN")])
def test_ctrl_c_during_the_imports_shows_no_traceback(before: str, meanwhile: str) -> None:
    program = (
        f"import signal; signal.signal(signal.SIGINT, signal.{before}); import tailrace.__main__; "
        f"assert signal.getsignal(signal.SIGINT) is signal.{meanwhile}"
    )
    assert subprocess.run((sys.executable, "-c", program)).returncode == 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_worker_that_a_signal_ends_at_its_start_was_interrupted(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._ended(apart.End(128 + signal.Signals[name], name)) == cli.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


WAITING = """
import os, signal, threading, time
from tailrace import endings
endings.handle(signal.default_int_handler)
import tailrace.dataset
over = threading.Event()
def work():
    os.kill(os.getpid(), signal.{name})
    time.sleep(60)
    over.set()
try:
    threading.Thread(target=work, daemon=True).start()
    over.wait()
    print("the work ended first")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_wait_for_a_thread_although_polars_handles_it_too(name: str) -> None:
    program = (sys.executable, "-c", WAITING.format(name=name))
    assert subprocess.run(program, stdout=subprocess.PIPE, text=True).stdout == "interrupted\n"


@pytest.mark.parametrize("number", [INT, TERM, HUP])
def test_a_command_ends_while_its_threads_compute(number: signal.Signals) -> None:
    """The thread never ends by itself."""
    with subprocess.Popen((sys.executable, "-c", COMPUTES), stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(number)
        try:
            assert program.wait(60) == cli.INTERRUPTED
        finally:
            program.kill()


def test_threads_that_must_end_in_an_orderly_way_do_so() -> None:
    ended = []
    go = threading.Event()

    def work() -> None:
        go.wait()
        ended.append(True)

    with pytest.raises(KeyboardInterrupt), endings.crew(1, finishes=True) as pool:
        pool.submit(work)
        go.set()
        raise KeyboardInterrupt
    assert ended
