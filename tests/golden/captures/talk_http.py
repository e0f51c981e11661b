"""The HTTP session: one connection kept, one pipelined, one closed by the server after its response."""

import socket
import time


def talk(*pieces: bytes, until: int) -> None:
    """Sends each piece in a segment of its own and reads until so many responses were begun, or the close."""
    with socket.create_connection(("127.0.0.1", 80)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.05)
        connection.settimeout(1)
        seen = b""
        while seen.count(b"HTTP/1.1 ") < until:
            got = connection.recv(65536)
            if not got:
                return
            seen += got
        time.sleep(0.1)


def request(line: str, *fields: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "Host: here", *fields, "", ""]).encode() + body


talk(request("GET /small.html"), request("GET /3000.html"), request("HEAD /3000.html"), until=3)
talk(request("GET /chunked") + request("GET /missing") + request("GET /gone") + request("GET /small.html?a=1"), until=4)
talk(
    request("PUT /put", "Expect: 100-continue", "Content-Length: 5000"),
    b"x" * 5000,
    request("POST /put", "Transfer-Encoding: chunked", body=b"5\r\nhello\r\n"),
    b"6;a=b\r\n world\r\n0\r\nTrailer: t\r\n\r\n",
    until=3,
)
talk(request("GET /slow"), request("DELETE /small.html"), until=2)
talk(b"GET /small.html HTTP/1.0\r\n\r\n", until=9)
split = request("GET /small.html", "Connection: close", "X-Padding: " + "p" * 3000)
talk(split[:20], split[20:2000], split[2000:], until=9)
