"""Answers that come slowly, or end before their end, in everything that asks a server."""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request

import pytest

from tailrace import web
from tailrace.engines import clickhouse
from tailrace.errors import InputError
from tailrace.readers import fetching

DRIP_S = 0.05
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nonly a part"
COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\nonly a part"
REFUSAL = b"HTTP/1.1 500 no\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nonly a part"


@contextmanager
def server(
    content: bytes,
    drips: int = 0,
    stop: threading.Event | None = None,
    first: bytes = b"HTTP/1.1 200 OK\r\n",
    drip: bytes = b"a: b\r\n",
) -> Iterator[str]:
    """Answers each connection with `content` and closes it; before that, `drips` headers come one by one after what
    comes `first`."""

    def work(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                one, _ = listening.accept()
                with one, suppress(OSError):
                    one.recv(1 << 16)
                    if drips:
                        one.sendall(first)
                    for _ in range(drips):
                        if stop is not None and stop.wait(DRIP_S):
                            break
                        one.sendall(drip)
                    one.sendall(content)
                    one.shutdown(socket.SHUT_WR)
                    one.recv(1 << 16)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=work, args=(listening,), daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"


def test_headers_that_drip_have_a_total_time() -> None:
    """Each of them comes long before the timeout of a packet."""
    stop = threading.Event()
    begin = time.monotonic()
    with server(b"\r\n", 90, stop) as url, pytest.raises(OSError, match="timed out"):
        web.answer(Request(url, b"{}"), 10 * DRIP_S)
    stop.set()
    assert time.monotonic() - begin > 5 * DRIP_S


def test_an_answer_in_time_is_read_as_long_as_it_takes() -> None:
    """The total time is that of the headers; its end is no end of the body."""
    with server(b"Content-Length: 2\r\n\r\n{}", 2, threading.Event()) as url:
        with web.answer(Request(url, b"{}"), 60) as answer:
            time.sleep(0.1)
            assert web.body(answer, 100) == b"{}"
        assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]


@pytest.mark.parametrize("headers", ["Content-Length: 1000", "Transfer-Encoding: chunked", "Connection: close"])
def test_a_body_that_drips_has_a_total_time(headers: str) -> None:
    """Each of its bytes comes long before the timeout of a packet. Of chunks, the size of the first has no end."""
    stop = threading.Event()
    with server(b"", 90, stop, f"HTTP/1.1 200 OK\r\n{headers}\r\n\r\n".encode(), b"0") as url:
        with web.answer(Request(url, b"{}"), 60) as answer, pytest.raises(OSError, match="has not ended"):
            web.body(answer, 1000, 5 * DRIP_S)
        stop.set()
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]


def test_what_a_refusal_says_has_a_total_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_SAID_S", 5 * DRIP_S)
    stop = threading.Event()
    with server(b"", 90, stop, b"HTTP/1.1 500 no\r\nContent-Length: 1000\r\n\r\n", b"0") as url:
        with pytest.raises(HTTPError) as refused:
            web.answer(Request(url, b"{}"), 60)
        assert web.said(refused.value) == "500: "
        stop.set()


def test_an_answer_in_tiny_chunks_takes_no_more_memory_than_its_content() -> None:
    chunks = 60_000
    content = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"2\r\nab\r\n" * chunks + b"0\r\n\r\n"
    with server(content) as url, web.answer(Request(url, b"{}"), 60) as answer:
        tracemalloc.start()
        try:
            assert web.body(answer, 1 << 20) == b"ab" * chunks
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 10 * chunks


def test_a_handshake_that_drips_has_a_total_time() -> None:
    """The records of TLS come byte by byte; each comes long before the timeout of a packet."""
    stop = threading.Event()
    with server(b"", 90, stop, b"\x16\x03\x03\x40\x00") as url, pytest.raises(OSError, match="timed out"):
        web.answer(Request(url.replace("http:", "https:"), b"{}"), 5 * DRIP_S)
    stop.set()
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]


@pytest.mark.parametrize("content", [CHUNKED, COUNTED])
def test_an_answer_that_ends_early_is_an_error_and_never_a_smaller_answer(content: bytes) -> None:
    with server(content) as url:
        with pytest.raises(InputError, match=r"it did not answer \(the answer ends early"):
            fetching.fetch(url, 0, 1)
        engine = clickhouse.Engine(urlsplit(url.replace("http", "clickhouse")))
        with pytest.raises(InputError, match=r"does not answer \(the answer ends early"):
            engine.rows("SELECT 1", "t")


def test_a_refusal_that_ends_early_is_a_refusal() -> None:
    with server(REFUSAL) as url:
        with pytest.raises(InputError, match="it answered 500"):
            fetching.fetch(url, 0, 1)
        engine = clickhouse.Engine(urlsplit(url.replace("http", "clickhouse")))
        with pytest.raises(InputError, match=r"refuses the query \(500"):
            engine.rows("SELECT 1", "t")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://h", "http://h/v1/x"),
        ("http://h/", "http://h/v1/x"),
        ("http://h:9/a/?tenant=1&b=/", "http://h:9/a/v1/x?tenant=1&b=/"),
        ("http://me:pass@[::1]:4318?k=v", "http://me:pass@[::1]:4318/v1/x?k=v"),
    ],
)
def test_a_path_goes_before_the_query(url: str, found: str) -> None:
    assert web.below(url, "v1/x") == found
