"""Small HTTP servers for tests of the load generator: each path answers in its own way, well or badly."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

Stream = asyncio.StreamWriter
Answer = Callable[[Stream], Awaitable[None]]


def says(text: str) -> Answer:
    async def answer(out: Stream) -> None:
        out.write(text.encode())

    return answer


async def hangs(out: Stream) -> None:
    await asyncio.Event().wait()


async def resets(out: Stream) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    await out.drain()
    out.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def drips(out: Stream) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok":
        out.write(bytes([byte]))
        await out.drain()
        await asyncio.sleep(0.001)


async def forgets(out: Stream) -> None:
    """Closes the connection instead of answering."""
    out.close()


async def forgets_half(out: Stream) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    out.close()


PAGE = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
ANSWERS: dict[str, Answer] = {
    "/chunked": says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    "/old": says("HTTP/1.0 200 OK\r\n\r\nuntil the end"),
    "/busy": says("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
    "/truncated": says("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
    "/too-long": says("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhello"),
    "/huge-head": says(f"HTTP/1.1 200 OK\r\nX: {'x' * 100_000}\r\nContent-Length: 0\r\n\r\n"),
    "/not-http": says("220 mail.example ESMTP\r\n"),
    "/nothing": forgets,
    "/reset": resets,
    "/drip": drips,
    "/hang": hangs,
}


@contextmanager
def serving(kept: bool = False, again: Answer | None = None) -> Iterator[tuple[str, list[str]]]:
    """The URL of a server of `ANSWERS` (for any other path, a page), and the request lines that it has received.

    With `again`, it gives this answer to every request but the first of a connection.
    """
    seen: list[str] = []

    async def talk(request: asyncio.StreamReader, out: Stream) -> None:
        first = True
        try:
            while not out.is_closing():
                line = (await request.readline()).decode()
                while (await request.readline()).strip():
                    pass
                if not line:
                    break
                seen.append(line)
                answer = ANSWERS.get(line.split()[1].partition("?")[0], says(PAGE))
                await (answer if first or again is None else again)(out)
                first = False
                if not kept:
                    break
                await out.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            out.close()

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(talk, "127.0.0.1", 0, backlog=1000))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


@contextmanager
def late_to_accept(seconds: float) -> Iterator[str]:
    """A server whose accept queue holds one connection, and which accepts only after this many seconds."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    listener.settimeout(0.1)
    over = threading.Event()

    def serve() -> None:
        over.wait(seconds)
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(5)
                connection.recv(4096)
                connection.sendall(PAGE.encode())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        over.set()
        thread.join()
        listener.close()
