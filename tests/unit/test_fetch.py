"""`tailrace fetch`: the query that it sends, and the answers that it accepts."""

from __future__ import annotations

import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from doors import told
from tailrace import readers
from tailrace.readers import counters, fetching
from tailrace.units import SECOND, parse_moment

NODE = Path(__file__).parents[1] / "golden" / "readers" / "prometheus" / "node.json"
T = parse_moment("2026-11-20T16:49:00Z")


@contextmanager
def prometheus(status: int, body: bytes, asked: list[tuple[str, dict[str, list[str]]]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            words = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append((self.path, urllib.parse.parse_qs(words)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: object) -> None:
            """Silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_metrics_of_a_run_are_fetched_and_read(tmp_path: Path) -> None:
    asked: list[tuple[str, dict[str, list[str]]]] = []
    run = readers.read(NODE, out=tmp_path / "run")
    assert run.manifest.begin is not None
    with prometheus(200, NODE.read_bytes(), asked) as url:
        assert told("fetch", url, "--during", str(tmp_path / "run"), "-o", str(tmp_path / "node.json")) == 0
        assert told("fetch", url, "--during", str(tmp_path / "run"), "-o", str(tmp_path / "node.json")) == 2
    [(path, words)] = asked
    assert path == "/api/v1/query"
    assert float(words["time"][0]) == (T + 2 * SECOND) / SECOND
    match = re.fullmatch(r'\{__name__=~"\(\?i:(.*)\)"\}\[(\d+)s\]', words["query"][0])
    assert match
    assert "node_netstat_tcpext_listendrops" in match[1].split("|")
    assert all(counters.known(name) for name in match[1].split("|"))
    assert int(match[2]) == 120 + 3
    assert readers.read(tmp_path / "node.json").manifest.rows == run.manifest.rows


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>"),
        (200, b'{"status":"error"}'),
        (200, b"[" * 100_000),
        (422, b'{"status":"error","error":"too many samples"}'),
        (200, b'{"status":"success","data":{"resultType":"matrix","result":[]}}'),
    ],
)
def test_other_answers_are_refused_and_write_nothing(status: int, body: bytes, tmp_path: Path) -> None:
    span = ("--from", "2026-11-20T16:49:00Z", "--to", "2026-11-20T16:50:00Z")
    with prometheus(status, body, []) as url:
        assert told("fetch", url, *span, "-o", str(tmp_path / "node.json")) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("ftp://a", "--from", "1795193340", "--to", "1795193350"),
        ("http://127.0.0.1:1", "--from", "1795193340", "--to", "1795193350"),
        ("http://127.0.0.1:1", "--from", "1795193350", "--to", "1795193340"),
        ("http://127.0.0.1:1", "--from", "soon", "--to", "1795193340"),
        ("http://127.0.0.1:1",),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    assert told("fetch", *words, "-o", str(tmp_path / "x.json")) == 2


def test_an_answer_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "ANSWER_BYTES", 100)
    span = ("--from", "2026-11-20T16:49:00Z", "--to", "2026-11-20T16:50:00Z")
    with prometheus(200, NODE.read_bytes(), []) as url:
        assert told("fetch", url, *span, "-o", str(tmp_path / "node.json")) == 2
