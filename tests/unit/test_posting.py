"""JSON that is sent to a URL: what a receiver may answer that is damaged, slow or endless."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tailrace.watch import posting
from tailrace.watch.posting import ANSWER_MAX, post, shown, signal, tried


@contextmanager
def answering(*parts: bytes) -> Iterator[str]:
    """Answers each connection with these bytes, whatever is asked, and leaves it open."""
    kept = []

    def work(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                one, _ = listening.accept()
                kept.append(one)
                one.recv(1 << 16)
                for part in parts:
                    one.sendall(part)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=work, args=(listening,), daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/secret"
        for one in kept:
            one.close()


@pytest.mark.parametrize("answer", [b"SSH-2.0-x\x1b[2J\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n"])
def test_what_is_not_http_is_a_failure_that_repeats_nothing(answer: bytes) -> None:
    pauses: list[float] = []
    with answering(answer) as url:
        failure = tried(lambda: post(url, {}), pauses.append, 2)
    assert failure is not None
    assert failure.startswith("the answer is not HTTP (")
    assert "x1b" not in failure
    assert "secret" not in failure
    assert pauses == [1]


@pytest.mark.parametrize(
    ("parts", "body"),
    [
        ((b"Content-Length: 4\r\n\r\n", b"{", b'"a"'), b'{"a"'),
        ((b"Content-Length: 99\r\n\r\n{}",), b"{}"),
        ((b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nno number\r\n",), b"{}"),
        ((b"\r\n", b"x" * (2 * ANSWER_MAX)), b"x" * ANSWER_MAX),
    ],
)
def test_the_body_is_read_as_far_as_it_comes(
    parts: tuple[bytes, ...], body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "PATIENCE_S", 1)
    with answering(b"HTTP/1.1 200 OK\r\n", *parts) as url:
        assert post(url, {}) == body


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://h", "http://h/v1/logs"),
        ("http://h/v1/logs/", "http://h/v1/logs"),
        ("http://h/otlp?tenant=a/v1/logs", "http://h/otlp/v1/logs?tenant=a/v1/logs"),
        ("http://h/v1/logs?tenant=a", "http://h/v1/logs?tenant=a"),
        ("http://h/v1/traces", "http://h/v1/traces/v1/logs"),
    ],
)
def test_the_path_of_a_signal_goes_before_the_query(url: str, found: str) -> None:
    assert signal(url, "logs") == found


def test_what_is_shown_of_a_url_has_no_secret() -> None:
    assert shown("https://me:pass@[::1]:4318/secret?key=1") == "https://[::1]:4318"
    assert shown("http://h/secret") == "http://h"
