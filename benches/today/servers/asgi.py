"""For uvicorn: aiohttp's client as it is, with its 100 connections."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

ORIGIN = os.environ["ORIGIN"]
_sessions: list[aiohttp.ClientSession] = []

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    async with _sessions[0].get(f"http://{ORIGIN}{scope['path']}") as answer:
        body = await answer.read()
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": length})
    await send({"type": "http.response.body", "body": body})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            _sessions.append(aiohttp.ClientSession())
            await send({"type": "lifespan.startup.complete"})
        else:
            await _sessions[0].close()
            await send({"type": "lifespan.shutdown.complete"})
            return
