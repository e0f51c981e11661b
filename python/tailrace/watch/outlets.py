"""Where a watch reports besides its folder: metrics that are fetched, and messages that are sent.

Nothing is opened or sent unless the user names an address.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    import polars as pl

    from tailrace.hub.reporting import Reporter
    from tailrace.watch.gauges import Gauges
    from tailrace.watch.notifying import Notifier
    from tailrace.watch.serving import Endpoint


@dataclass
class Outlets:
    metrics: socket.socket | None = None
    """A listening socket for a monitoring system."""
    notifier: Notifier | None = None
    reporter: Reporter | None = None
    """Of a hub."""
    gauges: Gauges | None = None
    endpoint: Endpoint | None = None
    published: int = 0
    """The time of the last segment that is in the offered metrics."""

    def begin(self, names: Mapping[str, str], recording: Path) -> None:
        """Called when the recording has begun, by a thread that has no rights any more."""
        if self.metrics is not None:
            from tailrace._core import __version__
            from tailrace.watch.gauges import Gauges
            from tailrace.watch.serving import Endpoint

            self.gauges = Gauges(__version__, names)
            self.endpoint = Endpoint(self.metrics)
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
        troubles = self.notifier.failures() if self.notifier else []
        troubles += self.reporter.failures() if self.reporter else []
        if self.gauges and self.endpoint and self.gauges.seen_ns != self.published:
            self.published = self.gauges.seen_ns
            from tailrace.watch.exposition import text

            families = list(self.gauges.families(time.time_ns()))
            if not self.endpoint.offer(text(families, openmetrics=True), text(families, openmetrics=False)):
                self.endpoint = None
                troubles.append("the process that serves the metrics has ended; the watch goes on without it")
        return troubles

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
        closing = [one for one in (self.notifier, self.reporter) if one is not None]
        for one in closing:
            one.close()
        return [failure for one in closing for failure in one.failures()]
