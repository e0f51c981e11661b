"""Requests to php-fpm: by nginx, on a connection each and on kept ones, and by a client that aborts one.

It expects nginx at port 8000 and php-fpm at port 9000.
"""

import http.client
import socket
import struct

BEGIN, ABORT, PARAMS, STDIN = 1, 2, 4, 5


def get(path: str, method: str = "GET", body: bytes | None = None) -> None:
    web = http.client.HTTPConnection("127.0.0.1", 8000, timeout=10)
    web.request(method, path, body)
    answer = web.getresponse()
    answer.read()
    print(method, path, answer.status)
    web.close()


def record(kind: int, content: bytes) -> bytes:
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


def directly(path: str, kept: bool = False) -> bytes:
    """The request as it is sent: begun, and its variables."""
    variables = {"REQUEST_METHOD": "GET", "REQUEST_URI": path, "SCRIPT_FILENAME": "/nowhere" + path}
    pairs = b"".join(bytes([len(k), len(v)]) + k.encode() + v.encode() for k, v in variables.items())
    return record(BEGIN, struct.pack(">HB5x", 1, kept)) + record(PARAMS, pairs) + record(PARAMS, b"")


for page in ("ok", "ok", "big", "broken", "refused", "leaves", "warns", "missing", "slow"):
    get(f"/{page}.php?id=17")
get("/posted.php", "POST", b"x" * 30_000)
for _ in range(3):
    get("/kept/ok.php")
get("/kept/posted.php", "POST", b"x" * 10)

# The same by hand: a kept connection, its records in segments of their own; and a request that is taken back.
with socket.create_connection(("127.0.0.1", 9000)) as php:
    php.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(2):
        for part in (directly("/by-hand.php", kept=True), record(STDIN, b"")):
            php.sendall(part)
        print("by hand:", len(php.recv(65536)), "bytes")
with socket.create_connection(("127.0.0.1", 9000)) as php:
    php.sendall(directly("/taken-back.php") + record(ABORT, b""))
    print("taken back:", len(php.recv(65536)), "bytes")
