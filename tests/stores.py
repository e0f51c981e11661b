"""Servers that speak as much of S3 and of Google Cloud Storage as Arrow asks for, over a folder. They
also do what a store can do wrong: lose an object after they listed it, hang up, or fall silent in its middle."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

LOST, CUT, SILENT = "lost", "cut", "silent"
"""What is wrong with an object: it is listed and not there; the server hangs up in its middle, or falls silent."""


class Store(BaseHTTPRequestHandler, ABC):
    protocol_version = "HTTP/1.1"
    root: Path
    faults: dict[str, str]
    """Name of a file → what is wrong with it."""

    def do_HEAD(self) -> None:
        self.do_GET()

    @abstractmethod
    def do_GET(self) -> None:
        """Answer in the protocol of the store."""

    def content(self, path: Path) -> None:
        """Answer with the bytes of an object, or those of the range that is asked for."""
        fault = self._fault(path)
        if not path.is_file() or fault == LOST:
            return self.answer(404, b"", {})
        whole, asked = path.read_bytes(), self.headers.get("Range")
        begin, end, status = 0, len(whole), 200
        headers = {"ETag": '"x"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin = int(first) if first else max(0, len(whole) - int(last))
            end, status = min(int(last), len(whole) - 1) + 1 if first and last else len(whole), 206
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(whole)}"
        sent = whole[begin:end]
        if fault is None or self.command == "HEAD":
            return self.answer(status, sent, headers)
        self.answer(status, whole[begin : min(end, len(whole) // 2)], headers, length=len(sent))
        if fault == SILENT:
            threading.Event().wait()
        self.close_connection = True
        return None

    def _fault(self, path: Path) -> str | None:
        return self.faults.get(path.relative_to(self.root).as_posix())

    def answer(self, status: int, body: bytes, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.wfile.flush()

    def files(self, bucket: Path, prefix: str) -> list[tuple[str, int]]:
        """Name and size of the objects of a bucket that begin with a prefix."""
        named = {path.relative_to(bucket).as_posix(): path for path in sorted(bucket.rglob("*")) if path.is_file()}
        return [(name, path.stat().st_size) for name, path in named.items() if name.startswith(prefix)]

    def log_message(self, *words: object) -> None:
        """Tests print nothing."""


class S3(Store):
    options = "endpoint_override=127.0.0.1%3A{}&scheme=http&region=us-east-1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path, query = self.root / unquote(url.path).strip("/"), parse_qs(url.query)
        if "list-type" not in query:
            return self.content(path)
        rows = "".join(
            f"<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
            for key, size in self.files(path, query.get("prefix", [""])[0])
        )
        kind = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
        body = f"<ListBucketResult {kind}><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        return self.answer(200, body.encode(), {"Content-Type": "application/xml"})


class Google(Store):
    """The JSON interface: `/storage/v1/b/BUCKET/o` lists, `…/o/NAME` describes, and `?alt=media` reads."""

    options = "endpoint_override=127.0.0.1%3A{}&scheme=http"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        bucket, _, name = url.path.removeprefix("/storage/v1/b/").partition("/o")
        folder, query = self.root / unquote(bucket), parse_qs(url.query)
        path = folder / unquote(name).lstrip("/")
        if query.get("alt") == ["media"]:
            return self.content(path)
        listed = [self._described(bucket, key, size) for key, size in self.files(folder, query.get("prefix", [""])[0])]
        if not name:
            return self._json(200, {"kind": "storage#objects", "items": listed})
        if not path.is_file():
            return self._json(404, {"error": {"code": 404, "message": "No such object"}})
        return self._json(200, self._described(bucket, unquote(name).lstrip("/"), path.stat().st_size))

    def _described(self, bucket: str, name: str, size: int) -> dict[str, str]:
        times = {"timeCreated": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z"}
        return {"kind": "storage#object", "bucket": bucket, "name": name, "size": str(size), "generation": "1", **times}

    def _json(self, status: int, content: object) -> None:
        self.answer(status, json.dumps(content).encode(), {"Content-Type": "application/json"})


@contextmanager
def store(kind: type[S3 | Google], root: Path, faults: dict[str, str] | None = None) -> Iterator[str]:
    """A server of the folder `root`, whose folders are buckets. Yields the options of an address that reaches it. It is
    a process, because Arrow keeps Python's lock while it waits for some answers."""
    command = [sys.executable, __file__, kind.__name__, str(root), json.dumps(faults or {})]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield kind.options.format(int(server.stdout.readline()))
        finally:
            server.kill()


def serve(kind: str, root: str, faults: str) -> None:
    made = type("Of", ({"S3": S3, "Google": Google}[kind],), {"root": Path(root), "faults": json.loads(faults)})
    with ThreadingHTTPServer(("127.0.0.1", 0), made) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve(*sys.argv[1:])
