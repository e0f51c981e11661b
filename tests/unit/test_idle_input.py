"""A signal ends a command that waits for input which does not come."""

from __future__ import annotations

import fcntl
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

DEMO = Path(__file__).parents[2] / "demo" / "packets.pcap.zst"
GENEROUS_S = 60
MAGIC = b"\xd4\xc3\xb2\xa1"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GENEROUS_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_ready(pid: int) -> bool:
    """Whether the process has its handlers of signals and waits."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return bool(int(status["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1) and status["State"].startswith("S")


def worker(pid: int) -> int:
    """The process that reads for this one; 0: it has not started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else 0


def left_in(pipe: IO[bytes]) -> int:
    """Bytes that nobody has read."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("given", [b"", MAGIC, DEMO.read_bytes()[:200_000]], ids=["nothing", "magic", "packets"])
@pytest.mark.parametrize("words", [("read", "-", "-o", "run"), ("diagnose", "-")], ids=["read", "diagnose"])
def test_a_silent_pipe_does_not_outlast_a_signal(
    tmp_path: Path, words: tuple[str, ...], given: bytes, number: signal.Signals
) -> None:
    command = (sys.executable, "-m", "tailrace", *words)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            pipe = process.stdin
            pipe.write(given)
            pipe.flush()
            wait_until(lambda: is_ready(worker(process.pid)) and not left_in(pipe))
            process.send_signal(number)
            assert process.wait(GENEROUS_S) == 130
            assert process.stderr.read() == b"tailrace: interrupted; no half-written result remains\n"
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_silent_client_does_not_keep_receive(tmp_path: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = (sys.executable, "-m", "tailrace", "receive", "--listen", f"127.0.0.1:{port}", "-o", "run")
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stderr is not None
        try:
            wait_until(lambda: is_ready(process.pid) and listens(port))
            with socket.create_connection(("127.0.0.1", port)) as silent:
                silent.sendall(b"POST /v1/traces HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nhalf")
                process.send_signal(number)
                assert process.wait(GENEROUS_S) == 2
        finally:
            process.kill()
        assert b"no traces were received" in process.stderr.read()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
