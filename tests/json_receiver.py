"""A receiver of JSON over HTTP, which answers with the codes that a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


@contextmanager
def receiver(
    *codes: int, location: str = "", users: list[str] | None = None
) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Answers with these codes, then with 200; yields its URL, and what came to which path."""
    came: list[tuple[str, Any]] = []
    left, users = list(codes), users if users is not None else []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            users.append(self.headers["Authorization"])
            came.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(left.pop(0) if left else 200)
            if location:
                self.send_header("Location", location)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            server.shutdown()
