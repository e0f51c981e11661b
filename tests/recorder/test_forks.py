"""A server that forks: its samples hold what its children use, from their fork on."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from recorders import MISSING, end, recording, started
from tailrace.dataset import Dataset

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")

FORKING = """
import os, signal, socket, sys, time
def burn(ms):
    until = time.process_time() + ms / 1000
    while time.process_time() < until:
        pass
def used():
    return sum(os.times()[:4])
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    client, _ = server.accept()
    ms, stays_s = client.recv(100).split()
    if int(ms) == 0:
        client.sendall(str(used()).encode())
        client.close()
        continue
    child = os.fork()
    if child == 0:
        server.close()
        burn(int(ms))
        client.sendall(f"{time.process_time()} {time.time_ns()}".encode())
        time.sleep(float(stays_s))
        os._exit(0)
    client.close()
    if float(stays_s) == 0:
        os.waitpid(child, 0)
"""


def asked(port: int, ms: int, stays_s: float = 0) -> list[str]:
    """What the server answers: of a child that uses so many milliseconds of CPU time, and then stays so long, its CPU
    time and the moment. Of 0 ms, the CPU time of the server and of the children that have ended."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{ms} {stays_s}".encode())
        return connection.recv(100).decode().split()


def recorded(folder: Path, ask: Callable[[int], None]) -> pl.DataFrame:
    """The CPU samples of the server, and what each holds in seconds."""
    with started(sys.executable, "-c", FORKING) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with recording(folder / "run", "--interval", "20ms") as process:
            time.sleep(1.2)
            ask(port)
            time.sleep(0.5)
            end(process)
    rows = Dataset.open(folder / "run").samples().filter(pl.col("metric").cast(pl.String) == "cpu_busy").collect()
    own = rows.filter(pl.col("place").cast(pl.String) == f"host:{port}")
    return own.with_columns(seconds=pl.col("value") * pl.col("interval_ns") / 1e9)


def test_what_a_child_uses_is_sampled_from_its_fork_on(tmp_path: Path) -> None:
    said: list[list[str]] = []

    def ask(port: int) -> None:
        said.extend(asked(port, ms, stays_s=2) for ms in (40, 300, 40))

    samples = recorded(tmp_path, ask)
    used = 0.0
    for seconds, moment in said:
        used += float(seconds)
        until = samples.filter(pl.col("time") - pl.col("interval_ns") < int(moment))
        assert until["seconds"].sum() > used - 0.005


def test_what_children_use_that_end_between_two_samples_is_not_lost(tmp_path: Path) -> None:
    figures: list[float] = []

    def ask(port: int) -> None:
        figures.append(float(asked(port, 0)[0]))
        for _ in range(30):
            asked(port, 12)
        figures.append(float(asked(port, 0)[0]))

    samples = recorded(tmp_path, ask)
    truth = figures[1] - figures[0]
    # The kernel counts whole ticks of 10 ms, and the server itself used some time before and after.
    assert truth - 0.05 < samples["seconds"].sum() < truth + 0.1
    assert truth > 0.36
