"""What a user says of the packets: the options of the engine's decoder (crates/core/src/capture/decode.rs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tailrace.errors import UsageError
from tailrace.readers.interactions import Rules

PROTOCOLS = ("http", "ajp", "fastcgi", "mysql", "postgres", "redis", "opaque")
"""What a port can be said to speak; `opaque` is read by change of direction."""


@dataclass(frozen=True)
class Decoding:
    """Addresses of servers, rules that name interactions, and what ports speak; all by what the user calls them."""

    servers: Mapping[str, str]
    rules: Rules = field(default_factory=list)
    protocols: Mapping[int, str] = field(default_factory=dict)
    keep_queries: bool = False
    """Names hold queries, literals, and all that is folded otherwise."""
    processes: Mapping[str, list[str]] = field(default_factory=dict)
    """Further servers, named after their processes by a recorder."""
    same_host: Sequence[str] = ()
    """Addresses of the host that a recorder was on."""

    def __post_init__(self) -> None:
        for port, protocol in self.protocols.items():
            if protocol not in PROTOCOLS:
                advice = f"one of {', '.join(PROTOCOLS)}"
                raise UsageError(f"--protocol {port}={protocol}: Tailrace reads no such protocol", advice=advice)
            if not 0 < port < 1 << 16:
                raise UsageError(f"--protocol {port}={protocol}: a port is 1 to 65535")

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"servers": {**self.processes, **self.servers}}
        if self.rules:
            options["interactions"] = self.rules
        if self.protocols:
            options["protocols"] = {str(port): protocol for port, protocol in self.protocols.items()}
        if self.keep_queries:
            options["keep_queries"] = True
        if self.same_host:
            options["same_host"] = list(self.same_host)
        return options
