"""What lines of HAProxy say beyond the times of a request: its own queue, and attempts to connect that failed.

```text
… 0/3/0/12/15 200 512 - - ---- 9/9/4/4/+1 2/7 "GET /x HTTP/1.1"
    └ Tw: 3 ms in the queue            │  └ requests that left the server's queue, and the backend's, meanwhile
                                       └ one attempt to connect failed; +: the last one went to another server
```
HAProxy holds requests in its queue while all connections that its `maxconn` allows are in use, as other programs wait
for a connection of a pool. How many wait becomes `pool_waiting` of the record, in steps of 50 ms.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from tailrace import units
from tailrace.readers import spans_pools
from tailrace.readers.accesslog_lines import Line
from tailrace.readers.accesslog_rows import Outcomes
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source


class Balancer:
    """Of all lines of a log."""

    def __init__(self) -> None:
        self._left, self._waited = array("q"), array("q")
        """When each left the queue, and after how long."""
        self._retried = self._attempts = self._redispatched = self._ahead = 0

    def add(self, line: Line, begin: int) -> None:
        """Add a line whose request began then."""
        if line.queued_ns > 0:
            self._left.append(begin + line.before_ns)
            self._waited.append(line.queued_ns)
            self._ahead = max(self._ahead, line.ahead)
        self._retried += line.retries > 0
        self._attempts += line.retries
        self._redispatched += line.redispatched

    def add_all(self, ended: Outcomes, begin: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Add many lines, of which none was redispatched."""
        queued = ended.queued > 0
        self._left.frombytes((begin + ended.before)[queued].tobytes())
        self._waited.frombytes(ended.queued[queued].tobytes())
        if ended.ahead is not None and queued.any():
            self._ahead = max(self._ahead, int(ended.ahead[queued].max()))
        if ended.retries is not None:
            self._retried += int((ended.retries > 0).sum())
            self._attempts += int(ended.retries.sum())

    def samples(self, server: str, found: Found, source: Source) -> None:
        """Put `pool_waiting` of the balancer into `found`."""
        if not self._left:
            return
        left, waited = np.frombuffer(self._left, np.int64), np.frombuffer(self._waited, np.int64)
        nobody, waits, samples = np.zeros(len(left), np.int64), spans_pools.Open(), Sampled()
        waits.add(nobody, nobody, left - waited, left)
        for changes in waits.changes.values():
            for step, level in spans_pools.levels(changes):
                if samples.full:
                    break
                samples.add(step * spans_pools.STEP, spans_pools.STEP, server, "pool_waiting", level)
        found.lose("waits in HAProxy's queue beyond the first", waits.left_out)
        if len(samples.time):
            samples.into(found, source, "")

    def notes(self) -> Iterator[str]:
        """What to say of the log."""
        if self._waited:
            longest = units.format_duration(max(self._waited))
            yield (
                f"requests that waited in HAProxy's own queue: {len(self._waited)}, up to {longest}, and up to "
                f"{self._ahead} left the queue while one waited in it"
            )
        if self._retried:
            elsewhere = f"; {self._redispatched} of them went to another server" if self._redispatched else ""
            yield (
                f"HAProxy connected to a server again for {self._retried} requests, because {self._attempts} attempts "
                f"failed{elsewhere}. They were refused, or had no answer: the log does not show which, so they do not "
                "count as lost"
            )
