"""What a user specifies about packets: the options of the engine's decoder (crates/core/src/capture/decode.rs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tailrace.errors import UsageError
from tailrace.readers.interactions import Rules

PROTOCOLS = (
    *("http", "http2", "ajp", "fastcgi", "mysql", "postgres", "redis"),
    *("memcached", "mongodb", "kafka", "cassandra", "amqp", "ldap", "dns", "opaque"),
)
"""The protocols that a port can be set to; `opaque` is read by change of direction."""


@dataclass(frozen=True)
class Decoding:
    """Addresses of servers, rules for interactions, and protocols of ports, in the user's terms."""

    servers: Mapping[str, str]
    rules: Rules = field(default_factory=list)
    protocols: Mapping[int, str] = field(default_factory=dict)
    keep_queries: bool = False
    """Names keep queries, literals, and everything else that is otherwise folded."""
    keys: str | None = None
    """A file with the secrets of TLS sessions."""
    further: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further addresses of these servers."""
    used: frozenset[str] = frozenset()
    """Names of servers and places that the user uses elsewhere."""
    together: Sequence[Sequence[str]] = ()
    """Lists of names that one server has at its ports."""
    processes: Mapping[str, list[str]] = field(default_factory=dict)
    """Further servers, which a recorder named after their processes."""
    same_host: Sequence[str] = ()
    """Addresses of the recorder's host."""
    threads: int | None = None
    """Threads that decode at most; none: one for each core. They make no difference to the tables."""
    segment: int = 0
    """Packets after which the state is saved, so that a reading that is killed can go on; 0: never."""

    def __post_init__(self) -> None:
        for port, protocol in self.protocols.items():
            if protocol not in PROTOCOLS:
                advice = f"one of {', '.join(PROTOCOLS)}"
                raise UsageError(f"--protocol {port}={protocol}: Tailrace does not know this protocol", advice=advice)
            if not 0 < port < 1 << 16:
                raise UsageError(f"--protocol {port}={protocol}: a port is a number from 1 to 65535")

    def options(self) -> dict[str, Any]:
        given = {
            name: [address, *further] if (further := self.further.get(name)) else address
            for name, address in self.servers.items()
        }
        options: dict[str, Any] = {"servers": {**self.processes, **given}}
        if self.rules:
            options["interactions"] = self.rules
        if self.protocols:
            options["protocols"] = {str(port): protocol for port, protocol in self.protocols.items()}
        if self.keep_queries:
            options["keep_queries"] = True
        if self.keys:
            options["keys"] = self.keys
        if self.threads:
            options["threads"] = self.threads
        if self.segment:
            options["segment"] = self.segment
        if self.together:
            options["together"] = [list(names) for names in self.together]
        if self.same_host:
            options["same_host"] = list(self.same_host)
        return options
