"""The load generator's connections: one for each request, from the given addresses, also when the server goes away."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from servers import PAGE
from tailrace.dataset import Dataset
from tailrace.load import plain
from tailrace.load.lowering import Settings, Share
from tailrace.load.outcome import Outcome
from tailrace.load.running import load
from tailrace.load.targets import aim

SECOND = 10**9


@contextmanager
def counting(most: int = 10_000) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """The URL of a server that closes each connection after its page, and the client addresses that it saw. It ends
    after `most` pages."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    listener.settimeout(0.05)
    seen: list[tuple[str, int]] = []
    over = threading.Event()

    def serve() -> None:
        while not over.is_set() and len(seen) < most:
            try:
                connection, peer = listener.accept()
            except TimeoutError:
                continue
            seen.append(peer)
            with connection:
                connection.settimeout(5)
                connection.recv(4096)
                connection.sendall(PAGE.encode())
        listener.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", seen
    finally:
        over.set()
        thread.join()


def ask(url: str, out: Path, sources: tuple[str, ...] = (), **options: object) -> Outcome:
    asked, targets = plain.experiment({"duration": "0.5 s", "clients": 4, **options}, aim([url], own=False))
    return load(asked, targets, out, settings=Settings(drain=SECOND, sources=sources), share=Share())


def test_each_request_has_a_connection_of_its_own(tmp_path: Path) -> None:
    with counting() as (url, seen):
        outcome = ask(url, tmp_path / "run", think="1 ms")
    assert outcome.statuses == {"ok": outcome.requests}
    assert len(seen) == outcome.requests > 100
    # A port may come again, but not that of the connection before.
    assert len(set(seen)) > 0.9 * len(seen)
    rows = Dataset.open(tmp_path / "run").requests().collect()
    assert rows["connected"].is_not_null().all()
    assert rows["bytes"].unique().to_list() == [len(PAGE)]


@pytest.mark.parametrize("sources", [("127.0.0.2",), ("127.0.0.2", "127.0.0.3")])
def test_clients_always_connect_from_the_given_addresses(sources: tuple[str, ...], tmp_path: Path) -> None:
    with counting() as (url, seen):
        outcome = ask(url, tmp_path / "run", sources, think="1 ms")
    assert outcome.statuses == {"ok": outcome.requests}
    shares = [sum(ip == source for ip, _ in seen) / len(seen) for source in sources]
    assert sum(shares) == 1
    assert min(shares) > 0.3


def test_a_server_that_dies_shows_in_the_status_and_the_load_ends_in_time(tmp_path: Path) -> None:
    with counting(most=12) as (url, _):
        begun = time.monotonic()
        outcome = ask(url, tmp_path / "run", think="5 ms", duration="1 s")
    assert time.monotonic() - begun < 10
    assert 10 < outcome.statuses["ok"] <= 12
    assert outcome.statuses["refused"] > 4
    rows = Dataset.open(tmp_path / "run").requests().with_columns(pl.col("status").cast(pl.String)).collect()
    answered = rows.filter(pl.col("status") == "ok")["end"].max()
    assert rows.filter(pl.col("status") == "refused")["end"].min() > answered  # type: ignore[operator]
