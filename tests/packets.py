"""Builds captures packet by packet: what a server, its clients and others send each other."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
BEGIN = 1_772_445_600
"""2 March 2026, 10:00 UTC: second 0 of a capture."""

End = tuple[str, int]
"""An address and a port."""


@dataclass
class Capture:
    """Segments over Ethernet; times are seconds after `begin`."""

    begin: int = BEGIN
    packets: list[tuple[float, bytes]] = field(default_factory=list)

    def tcp(
        self,
        at: float,
        ends: tuple[End, End],
        seq: int,
        ack: int,
        flags: int,
        data: bytes = b"",
        ip_id: int | None = None,
    ) -> None:
        """One segment from the first end to the second."""
        (source, port), (destination, to_port) = ends
        numbers = (seq % 2**32, ack % 2**32)
        head = struct.pack(">HHIIBBHHH", port, to_port, *numbers, 5 << 4, flags, 64240, 0, 0)
        number = len(self.packets) + 1 if ip_id is None else ip_id
        length = 20 + len(head) + len(data)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, length, number % 2**16, 0x4000, 64, 6, 0)
        ip += ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
        self.packets.append((at, bytes(12) + b"\x08\0" + ip + head + data))

    def save(self, path: Path, stamp: Callable[[int, int], tuple[int, int]] | None = None) -> Path:
        """In the order of time; `stamp` may change the seconds and microseconds of a record."""
        rows = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)]
        for at, frame in sorted(self.packets, key=lambda packet: packet[0]):
            seconds, micros = divmod(round((self.begin + at) * 1e6), 1_000_000)
            seconds, micros = stamp(seconds, micros) if stamp else (seconds, micros)
            rows += [struct.pack("<IIII", seconds, micros, len(frame), len(frame)), frame]
        path.write_bytes(b"".join(rows))
        return path


@dataclass
class Connection:
    """A client's connection to a server; each call adds packets and advances `at`."""

    capture: Capture
    at: float
    client: End
    server: End
    seq: int = 1000
    ack: int = 5000

    def up(self, flags: int, data: bytes = b"") -> Connection:
        self.capture.tcp(self.at, (self.client, self.server), self.seq, self.ack if flags & ACK else 0, flags, data)
        self.seq += len(data) + bool(flags & (SYN | FIN))
        return self

    def down(self, flags: int, data: bytes = b"") -> Connection:
        self.capture.tcp(self.at, (self.server, self.client), self.ack, self.seq, flags, data)
        self.ack += len(data) + bool(flags & (SYN | FIN))
        return self

    def wait(self, seconds: float) -> Connection:
        self.at += seconds
        return self

    def ask(self, waits: tuple[float, ...] = ()) -> Connection:
        """A SYN, sent again after each of these times."""
        self.up(SYN)
        for seconds in waits:
            self.seq -= 1
            self.wait(seconds).up(SYN)
        return self

    def accept(self) -> Connection:
        return self.wait(0.0001).down(SYN | ACK).wait(0.0001).up(ACK)

    def open(self, waits: tuple[float, ...] = ()) -> Connection:
        return self.ask(waits).accept()

    def get(self, took: float = 0.005, path: str = "/") -> Connection:
        """A request, and its answer after this time."""
        self.wait(0.0001).up(PSH | ACK, f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        return self.wait(took).down(PSH | ACK, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def close(self) -> Connection:
        return self.wait(0.0001).up(FIN | ACK).wait(0.0001).down(FIN | ACK).wait(0.0001).up(ACK)
