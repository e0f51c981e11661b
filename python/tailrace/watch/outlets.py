"""Where a watch reports besides its folder: metrics that are fetched or sent, and messages.

Nothing is opened or sent unless the user names an address.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    import polars as pl

    from tailrace.hub.reporting import Reporter
    from tailrace.watch.gauges import Gauges
    from tailrace.watch.notifying import Notifier
    from tailrace.watch.pushing import Pusher
    from tailrace.watch.serving import Endpoint


@dataclass
class Outlets:
    metrics: socket.socket | None = None
    """A listening socket for a monitoring system."""
    pushers: list[Pusher] = field(default_factory=list)
    """Receivers of metrics over OTLP."""
    notifier: Notifier | None = None
    reporter: Reporter | None = None
    """Of a hub."""
    gauges: Gauges | None = None
    endpoint: Endpoint | None = None
    published: int = 0
    """The time of the last segment that is in the offered metrics."""

    def listening(self) -> list[str]:
        """`ip:port` of the socket at which the metrics are fetched; an IPv6 address has brackets."""
        if self.metrics is None:
            return []
        host, port, *_ = self.metrics.getsockname()
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]

    def begin(self, names: Mapping[str, str], recording: Path) -> None:
        """Called when the recording has begun, by a thread that has no rights any more."""
        if self.metrics is not None or self.pushers:
            from tailrace._core import __version__
            from tailrace.watch.gauges import Gauges

            self.gauges = Gauges(__version__, names)
        if self.metrics is not None:
            from tailrace.watch.serving import Endpoint

            self.endpoint = Endpoint(self.metrics)
        for pusher in self.pushers:
            pusher.begin()
        if self.notifier:
            self.notifier.begin()
        if self.reporter:
            self.reporter.begin(recording)

    def see(self, table: str, rows: pl.DataFrame) -> None:
        """A segment of the recording was closed."""
        if self.gauges:
            self.gauges.see(table, rows, time.time_ns())

    def publish(self) -> list[str]:
        """Offer the newest metrics, if a segment has come since; returns what went wrong, in sentences."""
        troubles = [failure for one in self._senders() for failure in one.failures()]
        if self.gauges and self.gauges.seen_ns != self.published:
            self.published = self.gauges.seen_ns
            troubles += self._offer(self.gauges, time.time_ns())
        return troubles

    def _offer(self, gauges: Gauges, now: int) -> list[str]:
        from tailrace.watch.exposition import text

        families = list(gauges.families(now))
        for pusher in self.pushers:
            pusher.offer(families, now)
        if self.endpoint is None:
            return []
        if self.endpoint.offer(text(families, openmetrics=True), text(families, openmetrics=False)):
            return []
        self.endpoint = None
        return ["the process that serves the metrics has ended; the watch goes on without it"]

    def _senders(self) -> list[Pusher | Notifier | Reporter]:
        return [*self.pushers, *(one for one in (self.notifier, self.reporter) if one is not None)]

    def noticed(self, lasting_ns: int, reasons: list[str]) -> None:
        """An incident is over that has lasted this long; the ring still holds it."""
        if self.reporter:
            end = time.time_ns()
            self.reporter.noticed(end - lasting_ns, end, reasons)

    def incident(self, out: Path, why_not: str | None) -> None:
        """An incident was explained, or could not be, for this reason."""
        if not (self.gauges or self.notifier):
            return
        from tailrace.watch import listing

        found = listing.one(out) if why_not is None else listing.Incident(out.name, failed=why_not)
        if self.gauges:
            self.gauges.incident(found, time.time_ns())
        if self.notifier:
            self.notifier.send(found)

    def close(self) -> list[str]:
        if self.endpoint:
            self.endpoint.close()
        for one in self._senders():
            one.close()
        return [failure for one in self._senders() for failure in one.failures()]
