"""Connections that no table row represents: the manifest's `connections`.

A request that was never answered has no end, and a port scan has no requests. Both are counted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from tailrace.units import format_duration


@dataclass(frozen=True)
class ServerConnections:
    """The connection attempts at one server, and its requests whose end was not recorded."""

    attempts: int = 0
    """Connections whose SYN was recorded, without attempts that count as `Apart`."""
    established: int = 0
    """Connections that were established, including those that were open before the recording began."""
    refused: int = 0
    """Attempts that a reset answered. If a client made them, they are requests with the status `refused`."""
    unanswered: int = 0
    """Attempts without an answer. If a client made them, they are requests with the status `timeout` or `abandoned`."""
    reset: int = 0
    """Connections that the server reset right after the handshake, before any data: status `reset`."""
    half_open: int = 0
    """Attempts that the server answered and the sender never completed."""
    attempts_under_way: int = 0
    """Attempts without an answer when the recording ended, which their sender had not given up."""
    under_way: int = 0
    """Requests without a complete answer when the recording ended. They are not rows."""
    under_way_longest_ns: int | None = None
    """How long the oldest of them had waited."""

    def sentences(self, name: str) -> list[str]:
        """Sentences about unusual connections at the server of this name."""
        ends = {
            "were refused": self.refused,
            "had no answer": self.unanswered,
            "were reset right after the handshake": self.reset,
            "waited for an answer when the recording ended": self.attempts_under_way,
        }
        told = ", ".join(f"{count:,} {what}" for what, count in ends.items() if count)
        said = [f"{name}: of {self.attempts:,} connection attempts, {told}"] if told else []
        if self.under_way:
            longest = self.under_way_longest_ns
            since = "" if longest is None else f", the oldest of them for {format_duration(longest)}"
            said.append(f"{name}: {self.under_way:,} requests had no complete answer when the recording ended{since}")
        return said


@dataclass(frozen=True)
class Apart:
    """Attempts that cannot be shown to be requests of a client: a scan, a flood, or senders that gave up at once."""

    state: str
    """`unanswered`, `refused` or `half-open`."""
    attempts: int
    senders: int
    endpoints: int
    """Addresses that they came from, and addresses and ports that they went to."""
    begin: int
    end: int
    exact: bool = True
    """False if there were more senders or endpoints than Tailrace distinguishes."""
    to: Mapping[str, int] = field(default_factory=dict)
    """The destination of most of them, and their number there."""

    def sentence(self) -> str:
        least = "" if self.exact else "at least "
        places = f"{least}{self.endpoints:,} addresses and ports"
        to = ", ".join(self.to) if len(self.to) == self.endpoints else places
        senders = f"{least}{self.senders:,} sender{'s' if self.senders != 1 else ''}"
        what, reason = _APART.get(
            self.state, (f"ended as {self.state}", "there is no evidence that a client made them")
        )
        return (
            f"{self.attempts:,} connection attempts from {senders} to {to} {what}; they do not count as "
            f"requests: {reason}"
        )


_APART = {
    "unanswered": ("had no answer", "a scan or a flood, or senders that gave up at once"),
    "refused": ("were refused", "a scan of ports at which nothing listens"),
    "half-open": (
        "were answered, but never completed by their senders",
        "a scan or a flood, or the answers never reached their senders",
    ),
}


@dataclass(frozen=True)
class Connections:
    servers: Mapping[str, ServerConnections] = field(default_factory=dict)
    apart: tuple[Apart, ...] = ()

    def sentences(self) -> list[str]:
        """Everything about connections that the tables do not contain."""
        of_servers = [said for name, counts in self.servers.items() for said in counts.sentences(name)]
        return [*of_servers, *(row.sentence() for row in self.apart)]

    def to_table(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Plain values of a manifest; raises `TypeError`, `ValueError` or `KeyError` for anything that is not a
        number."""
        servers = {str(name): ServerConnections(**_numbers(counts)) for name, counts in _items(table, "servers")}
        apart = tuple(_apart(row) for row in table.get("apart", ()))
        return cls(servers, apart)


_COUNTS = {count.name for count in fields(ServerConnections)}


def _items(table: Mapping[str, Any], key: str) -> Any:
    return dict(table.get(key, {})).items()


def _numbers(counts: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that this version knows; a newer Tailrace may write more, an older one fewer."""
    return {key: int(value) for key, value in counts.items() if key in _COUNTS and value is not None}


def _apart(row: Mapping[str, Any]) -> Apart:
    numbers = {key: int(row[key]) for key in ("attempts", "senders", "endpoints", "begin", "end")}
    return Apart(
        str(row["state"]),
        **numbers,
        exact=bool(row.get("exact", True)),
        to={str(name): int(count) for name, count in _items(row, "to")},
    )
