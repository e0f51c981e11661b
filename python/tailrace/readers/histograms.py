"""Logs of HdrHistogram (`.hlog`), as wrk2, Hyperfoil, cassandra-stress and others write them.

```text
#[Histogram log format version 1.3]
#[StartTime: 1795193340.123 (seconds since epoch), …]
"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
Tag=GET,0.127,1.007,1003.9,HISTFAAAAEV42pNpmSzM…
```
A histogram has no moment of any response, so it becomes samples of its interval and no requests: how many responses
there were, how many took a second or longer, and the longest. A note has the modes: the groups that the response times
form. `Interval_Max` is in milliseconds, and gives the unit of the values.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator

from tailrace import units
from tailrace.bounds import YEAR_NS
from tailrace.readers.elements import number
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import MILLISECOND, SECOND

_SEEN = re.compile(r"#\[Histogram log format version|^(?:Tag=[^,\n]{1,200},)?[\d.]+,[\d.]+,[\d.]+,HISTF", re.MULTILINE)
_START = re.compile(r"#\[(?:StartTime|BaseTime): (\d{1,11}(?:\.\d{1,9})?)")
_LINE = re.compile(
    r"(?:Tag=([^,]{1,200}),)?(\d{1,11}(?:\.\d{1,9})?),(\d{1,9}(?:\.\d{1,9})?),(\d{1,15}(?:\.\d{1,9})?),(\S+)"
)
_COMPRESSED, _ENCODED = 0x1C849304, 0x1C849303
_WORD = 0x10
"""Versions of the format have different cookies; their second lowest hexadecimal digits give the size of a word."""
_HEADER = struct.Struct(">iiiiqqd")
_BYTES_MAX = 16 << 20
_BUCKETS_MAX = 1 << 20
_SLOW_NS = SECOND
_MODES_MAX = 6
_GAP = 1.5
"""Response times whose neighbours differ by more than this factor belong to different modes."""


def sniff(name: str, head: bytes) -> bool:
    return bool(_SEEN.search((text_head(head) or "")[:4096]))


def read(source: Source) -> Found:
    found, samples, total = Found(), Sampled(), Counter[int]()
    start, place = 0, source.place or "server"
    for line_number, line in source.lines(found):
        if match := _START.match(line):
            start = _ns(match[1])
        match = _LINE.fullmatch(line)
        if match is None:
            if not line.startswith(("#", '"')):
                found.damaged(source.path.name, line_number)
            continue
        values = histogram(match[5])
        longest = number(match[4])
        if values is None or longest is None:
            found.damaged(source.path.name, line_number)
            continue
        _add(samples, values, longest, _ns(match[2]), _ns(match[3]), start, place, total)
        if samples.full:
            break
    samples.into(found, source, "there is no histogram in it")
    found.attempts = "by response times alone"
    found.notes += [f"{source.path.name}: {note}" for note in _notes(total)]
    return found


def _add(
    samples: Sampled,
    values: dict[int, int],
    longest_ms: float,
    begin: int,
    length: int,
    start: int,
    place: str,
    total: Counter[int],
) -> None:
    """The samples of one interval. A begin of less than a year counts from the start of the log."""
    moment = begin + length + (start if begin < YEAR_NS else 0)
    scale = longest_ms * MILLISECOND / max(values) if values and max(values) > 0 else 0.0
    times = Counter({round(value * scale): count for value, count in values.items()})
    total.update(times)
    slow = sum(count for took, count in times.items() if took >= _SLOW_NS)
    samples.add(moment, length, place, "responses", float(sum(times.values())))
    samples.add(moment, length, place, "responses_over_1s", float(slow))
    samples.add(moment, length, place, "response_time_max_ms", longest_ms)


def _ns(seconds: str) -> int:
    return int((units.parse_number(seconds) or 0) * SECOND)


def histogram(text: str) -> dict[int, int] | None:
    """Value → count of an encoded histogram of version 2; None if it is damaged. A value is the highest of its
    bucket."""
    try:
        packed = base64.b64decode(text, validate=True)
        cookie, length = struct.unpack_from(">ii", packed)
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(packed[8 : 8 + max(length, 0)], _BYTES_MAX)
        inner, size, offset, digits, _, _, _ = _HEADER.unpack_from(data)
    except (binascii.Error, struct.error, zlib.error, ValueError):
        return None
    wrong = cookie & ~0xF0 != _COMPRESSED or inner & ~0xF0 != _ENCODED or cookie & 0xF0 != _WORD
    if wrong or offset != 0 or not 0 <= digits <= 5:
        return None
    half = (1 << (2 * 10**digits - 1).bit_length()) // 2
    found: dict[int, int] = {}
    for index, count in _counts(data[_HEADER.size : _HEADER.size + max(size, 0)]):
        bucket = max(index // half - 1, 0)
        within = index - bucket * half
        found[((within + 1) << bucket) - 1] = count
    return found


def _counts(data: bytes) -> Iterator[tuple[int, int]]:
    """Index and count of each bucket that is not empty: ZigZag LEB128, and a negative number for so many empty ones."""
    at, index = 0, 0
    while at < len(data) and index < _BUCKETS_MAX:
        value, shift = 0, 0
        while at < len(data):
            byte = data[at]
            at += 1
            value |= (byte & (0xFF if shift == 56 else 0x7F)) << shift
            shift += 7
            if byte < 0x80 or shift > 56:
                break
        signed = (value >> 1) ^ -(value & 1)
        if signed < 0:
            index += -signed
        else:
            if signed:
                yield index, signed
            index += 1


def _notes(total: Counter[int]) -> list[str]:
    modes: list[list[int]] = []
    for took in sorted(total):
        if modes and took <= max(modes[-1][-1], MILLISECOND) * _GAP:
            modes[-1].append(took)
        else:
            modes.append([took])
    said = []
    for mode in modes[:_MODES_MAX]:
        count = sum(total[took] for took in mode)
        low, high = (units.format_duration(bound) for bound in (mode[0], mode[-1]))
        said.append(f"{count:,} took {low} to {high}" if low != high else f"{count:,} took {low}")
    more = f", and {len(modes) - _MODES_MAX} groups more" if len(modes) > _MODES_MAX else ""
    return [
        f"its responses form these groups: {'; '.join(said)}{more}",
        "a histogram does not show when a request was sent, so there are no requests and no visits",
    ]
