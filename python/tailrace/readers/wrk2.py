"""What `wrk2 --latency` prints: the spectrum of its response times, which is a histogram of HdrHistogram as text.

```text
Running 30s test @ http://10.0.0.2/index.html
  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)
      12.303     0.999000        39461      1000.00        39,461 responses took up to 12.303 ms
    1005.123     0.999500        39480      2000.00        19 more took longer, and up to 1,005.123 ms
#[Max     =     3010.343, Total count    =        39500]
  60018 requests in 30.00s, 19.81MB read
```
It has no moment of any response, so it becomes samples of the whole test and no requests; a note has the modes.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise

from tailrace import units
from tailrace.bounds import UNDATED_NS
from tailrace.errors import InputError
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import MILLISECOND, SECOND

_RUNNING = re.compile(r"\ufeff?\s*Running \d{1,9}\S{0,9} test @ ")
_SPECTRUM = re.compile(r"^ *Detailed Percentile spectrum:", re.MULTILINE)
_ROW = re.compile(r"\s+(\d{1,12}\.\d{1,6})\s+([01]\.\d{1,12})\s+(\d{1,15})\s+(?:\d{1,18}\.\d\d|inf)\s*")
_TOOK = re.compile(r"\s*(\d{1,15}) requests in (\d{1,9}(?:\.\d{1,3})?)(us|ms|s|m|h),")
_UNITS = {"us": units.MICROSECOND, "ms": MILLISECOND, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
_ROWS_MAX = 10_000
_MODES_MAX = 6
_GAP, _SPARSE = 1.5, 10
"""Between two modes the response times differ by more than this factor, and are so many times rarer than in both, for
an equal step of their logarithm. A row covers a tenth of the responses above it, so a long step alone is no gap."""
Row = tuple[int, int]
"""A response time in ns, and how many responses took at most so long."""


def sniff(name: str, head: bytes) -> bool:
    text = text_head(head) or ""
    return bool(_RUNNING.match(text) and _SPECTRUM.search(text))


def read(source: Source) -> Found:
    found, samples, name = Found(), Sampled(), source.path.name
    rows, requests, took = list[Row](), 0, 0
    is_whole = False
    for line_number, line in source.lines(found):
        row = _ROW.fullmatch(line)
        if row and not is_whole and len(rows) < _ROWS_MAX:
            value, count = round((units.parse_number(row[1]) or 0) * MILLISECOND), int(row[3])
            if rows and (value < rows[-1][0] or count < rows[-1][1]):
                found.damaged(name, line_number)
                continue
            rows.append((value, count))
        elif line.startswith("#[") and rows:
            is_whole = True  # With `--u_latency` another spectrum follows, of times from when requests were sent.
        elif said := _TOOK.match(line):
            requests, took = int(said[1]), round((units.parse_number(said[2]) or 0) * _UNITS[said[3]])
    if rows and not is_whole:
        raise InputError(
            source.path,
            "its spectrum of response times was cut off before the longest ones",
            "give all that wrk2 --latency printed",
        )
    place, began = source.place or "server", source.began[0] if source.began else UNDATED_NS
    if rows:
        samples.add(began + took, took or None, place, "responses", float(rows[-1][1]))
        samples.add(began + took, took or None, place, "response_time_max_ms", rows[-1][0] / MILLISECOND)
    samples.into(found, source, "there is no spectrum of response times in it")
    found.attempts = "by response times alone"
    found.undated = not source.began
    found.notes += [f"{name}: {note}" for note in _notes(rows, requests)]
    if found.undated:
        found.notes.append(
            f"{name}: it has no date: it is dated 2000-01-01. Pass --began {source.place or name}=MOMENT"
        )
    return found


def modes(rows: list[Row]) -> list[list[Row]]:
    """Rows of the same mode, the shortest response times first."""
    steps = list(pairwise(rows))
    dense = [_density(*step) for step in steps]
    highest_before, highest_after = [0.0], [0.0]
    for value in dense:
        highest_before.append(max(highest_before[-1], value))
    for value in reversed(dense):
        highest_after.append(max(highest_after[-1], value))
    found = [rows[:1]]
    for i, (low, high) in enumerate(steps):
        lesser = min(highest_before[i], highest_after[len(steps) - 1 - i])
        if high[0] > _GAP * low[0] and _SPARSE * dense[i] < lesser:
            found.append([])
        found[-1].append(high)
    return found


def _density(low: Row, high: Row) -> float:
    """Responses for each step of the logarithm of their time."""
    return (high[1] - low[1]) / math.log(high[0] / low[0]) if high[0] > low[0] > 0 else 0.0


def _notes(rows: list[Row], requests: int) -> list[str]:
    said, before = list[str](), 0
    groups = modes(rows)
    for group in groups[:_MODES_MAX]:
        low, high = (units.format_duration(bound) for bound in (group[0][0], group[-1][0]))
        said.append(f"about {group[-1][1] - before:,} took {low}{f' to {high}' if high != low else ''}")
        before = group[-1][1]
    more = f", and {len(groups) - _MODES_MAX} groups more" if len(groups) > _MODES_MAX else ""
    total = rows[-1][1]
    below = max((count for value, count in rows if value < SECOND), default=0)
    slow = [count for value, count in rows if value >= SECOND]
    least = total - slow[0] + 1 if slow else 0
    notes = [
        f"its responses form these groups: {'; '.join(said)}{more}",
        f"responses of 1 s or longer: {least:,} to {total - below:,} of {total:,}",
        "a spectrum does not show when a request was sent, so there are no requests and no visits",
    ]
    if requests > total:
        notes.append(f"{requests - total:,} of its {requests:,} requests are not in the spectrum (calibration)")
    return notes
