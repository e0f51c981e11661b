"""The QUIC session: aioquic on both ends, in a network of its own. The secrets of its sessions go to the file that
SSLKEYLOGFILE names. `talk_quic.py PORT CERT KEY` runs the servers, too; the ports are this one and the two after it."""

import asyncio
import os
import sys
from pathlib import Path

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent
from aioquic.quic.packet import QuicProtocolVersion

V1, V2 = QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2
SLOW = 0.25


class Server(QuicConnectionProtocol):
    """Answers `/small`, `/large`, `/slow`; all else is missing."""

    http: H3Connection | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is None:
            return
        for seen in self.http.handle_event(event):
            if isinstance(seen, HeadersReceived):
                path = dict(seen.headers)[b":path"].decode()
                asyncio.get_running_loop().create_task(self.answer(seen.stream_id, path))

    async def answer(self, stream: int, path: str) -> None:
        assert self.http is not None
        if path.startswith("/slow"):
            await asyncio.sleep(SLOW)
        body = {"/small": b"small", "/large": b"x" * 200_000, "/slow": b"late"}.get(path)
        status = b"404" if body is None else b"200"
        headers = [(b":status", status), (b"server", b"aioquic"), (b"content-type", b"text/plain")]
        self.http.send_headers(stream, headers)
        self.http.send_data(stream, body or b"", end_stream=True)
        self.transmit()


class Client(QuicConnectionProtocol):
    http: H3Connection
    ends: dict[int, asyncio.Future[None]]

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self.http, self.ends = H3Connection(self._quic), {}
        if not hasattr(self, "http"):
            return
        for seen in self.http.handle_event(event):
            if isinstance(seen, HeadersReceived | DataReceived) and seen.stream_ended:
                self.ends[seen.stream_id].set_result(None)

    async def ask(self, method: str, path: str, body: bytes = b"") -> None:
        stream = self._quic.get_next_available_stream_id()
        self.ends[stream] = asyncio.get_running_loop().create_future()
        headers = [(":method", method), (":scheme", "https"), (":authority", "shop.test"), (":path", path)]
        headers += [("user-agent", "talk/1.0"), ("x-trace", "of-the-golden-capture")]
        encoded = [(name.encode(), value.encode()) for name, value in headers]
        self.http.send_headers(stream, encoded, end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        await asyncio.wait_for(self.ends[stream], 20)


def configured(**more: object) -> QuicConfiguration:
    settings = QuicConfiguration(
        alpn_protocols=H3_ALPN, is_client=True, server_name="shop.test", verify_mode=0, secrets_log_file=LOG
    )
    for name, value in more.items():
        setattr(settings, name, value)
    return settings


async def session(port: int, paths: list[str], **more: object) -> None:
    settings = configured(**more)
    async with connect("127.0.0.1", port, configuration=settings, create_protocol=Client) as client:
        await client.ask("GET", "/small")
        await asyncio.gather(*(client.ask("GET", path) for path in paths))
        await client.ask("POST", "/missing", b"y" * 3000)


async def lossy(port: int, server: asyncio.DatagramProtocol) -> None:
    """What the client sends is lost for a while: first its Initial, then a request."""
    received = server.datagram_received
    loop = asyncio.get_running_loop()

    def lose(seconds: float) -> None:
        server.datagram_received = lambda data, addr: None  # type: ignore[method-assign]
        loop.call_later(seconds, lambda: setattr(server, "datagram_received", received))

    lose(0.1)
    async with connect("127.0.0.1", port, configuration=configured(), create_protocol=Client) as client:
        await client.ask("GET", "/small")
        await asyncio.sleep(0.1)
        lose(0.01)
        await client.ask("GET", "/large")


async def moved(port: int) -> None:
    """The client changes its address and its key in the middle."""
    async with connect("127.0.0.1", port, configuration=configured(), create_protocol=Client) as client:
        await client.ask("GET", "/small")
        client.request_key_update()
        await client.ask("GET", "/large")
        client.change_connection_id()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: client, local_addr=("::ffff:127.0.0.1", 0))
        await client.ask("GET", "/slow")
        transport.close()


async def main(port: int, cert: str, key: str) -> None:
    settings = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=False, supported_versions=[V1, V2])
    settings.load_cert_chain(cert, key)
    server = await serve("127.0.0.1", port, configuration=settings, create_protocol=Server)
    await serve("127.0.0.1", port + 1, configuration=settings, create_protocol=Server, retry=True)
    only = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=False, supported_versions=[V1])
    only.load_cert_chain(cert, key)
    await serve("127.0.0.1", port + 2, configuration=only, create_protocol=Server)
    await session(port, ["/large", "/slow", "/small"])
    await session(port, ["/slow"], original_version=V2, supported_versions=[V2])
    await session(port + 1, ["/small"])
    await session(port + 2, ["/small"], original_version=V2, supported_versions=[V2, V1])
    await moved(port)
    await lossy(port, server)


if __name__ == "__main__":
    with Path(os.environ["SSLKEYLOGFILE"]).open("a") as LOG:
        asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
