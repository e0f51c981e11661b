"""The one module that parses and prints units: durations, moments, bytes, rates, frequencies, shares.

Inside Tailrace a duration and a moment are whole nanoseconds (a moment counts from the Unix epoch), and a share runs
from 0 to 1. Only this module turns text into numbers. It uses `Decimal` and never a float: a Unix time in seconds has
more digits than a float keeps, and a rounding error of 60 ns could put a reply before its request.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
MICROSECOND = 1_000

_DURATIONS: dict[str, int] = {
    "ns": 1,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "μs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "min": 60 * SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_BYTES: dict[str, int] = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_FREQUENCIES: dict[str, int] = {"hz": 1, "khz": 10**3, "mhz": 10**6, "ghz": 10**9}
_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([A-Za-zµμ%]*)", re.ASCII)
_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9})\d*)?)?\s?(Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The size of a bare number shows its unit: 10**11 s is the year 5138, 10**11 ms is 1973, and so on by thousands.
_SECONDS_BELOW = Decimal(10) ** 11
_LARGEST = 2**63 - 1
_DIGITS_MAX = 1_000
"""The most digits before or after the point. A number with more is not a quantity, and arithmetic on it could fail."""


class TooLargeError(ValueError):
    """The largest number of characters in the text of a quantity."""


def parse_duration(text: str) -> int:
    """Nanoseconds of "50ms", "1.5 s", "200us", "2min". The unit is required, except for 0."""
    number, unit = _quantity(text, "a duration such as 50ms, 1.5s or 200us")
    if unit == "" and number == 0:
        return 0
    if unit not in _DURATIONS:
        raise ValueError(f"{text!r} is not a duration such as 50ms, 1.5s or 200us")
    return _whole(number * _DURATIONS[unit], text)


def parse_bytes(text: str) -> int:
    """Bytes of "512", "4kB", "1.5 MiB"."""
    number, unit = _quantity(text, "a size such as 4096, 64kB or 1.5MiB")
    if unit.lower() not in _BYTES:
        raise ValueError(f"{text!r} is not a size such as 4096, 64kB or 1.5MiB")
    return _whole(number * _BYTES[unit.lower()], text)


def parse_rate(text: str) -> int:
    """Bytes per second of "60 MB/s"."""
    size, slash, per = text.rpartition("/")
    if not slash or per.strip() != "s":
        raise ValueError(f"{text!r} is not a rate such as 60MB/s")
    return parse_bytes(size)


def parse_frequency(text: str) -> float:
    """Hertz of "2.26 GHz"."""
    number, unit = _quantity(text, "a frequency such as 2.26GHz")
    if unit.lower() not in _FREQUENCIES:
        raise ValueError(f"{text!r} is not a frequency such as 2.26GHz")
    return float(number * _FREQUENCIES[unit.lower()])


def parse_share(text: str) -> float:
    """A share from 0 to 1 of "0.25" or "25%"."""
    number, unit = _quantity(text, "a share such as 0.25 or 25%")
    if unit not in ("", "%"):
        raise ValueError(f"{text!r} is not a share such as 0.25 or 25%")
    share = number / 100 if unit == "%" else number
    if not 0 <= share <= 1:
        raise ValueError(f"{text!r} is not between 0 and 1 (or 0% and 100%)")
    return float(share)


def parse_moment(text: str, *, scale: int | None = None) -> int:
    """Nanoseconds since the Unix epoch of ISO 8601 text (UTC unless it has an offset) or of a Unix time.

    The size of a Unix time shows its unit, unless `scale` (nanoseconds per unit) is given.
    """
    text = text.strip()
    iso = _ISO.fullmatch(text)
    if iso:
        return _iso_moment(iso, text)
    number = parse_number(text)
    if number is None:
        raise ValueError(f"{text!r} is neither ISO 8601 nor a Unix time")
    return _whole(number * (scale or moment_scale(number)), text)


def parse_number(text: str) -> Decimal | None:
    """A decimal number whose size is plausible for a quantity; None for any other text."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= _DIGITS_MAX else None


def moment_scale(number: Decimal) -> int:
    """Nanoseconds per unit of a Unix time of this size: seconds, milliseconds, microseconds or nanoseconds."""
    size = abs(number)
    if size < _SECONDS_BELOW:
        return SECOND
    if size < _SECONDS_BELOW * 10**3:
        return MILLISECOND
    if size < _SECONDS_BELOW * 10**6:
        return MICROSECOND
    return 1


def format_duration(ns: int) -> str:
    """Three significant digits with a suitable unit: "50 ms", "1.25 s", "3 min 20 s"."""
    sign, size = ("-" if ns < 0 else ""), abs(ns)
    if size >= 120 * SECOND:
        minutes, seconds = divmod(round(size / SECOND), 60)
        return f"{sign}{minutes} min {seconds} s" if seconds else f"{sign}{minutes} min"
    for unit, scale in (("s", SECOND), ("ms", MILLISECOND), ("µs", MICROSECOND)):
        # 999.5 and above would print as 1000 of the smaller unit.
        if size >= scale * 0.9995:
            return f"{sign}{_three_digits(size / scale)} {unit}"
    return f"{sign}{size} ns"


def exact_duration(ns: int) -> str:
    """Every digit, in the largest unit that needs no fraction; `parse_duration` reads it back."""
    for unit, scale in (("s", SECOND), ("ms", MILLISECOND), ("us", MICROSECOND)):
        if ns and ns % scale == 0:
            return f"{ns // scale} {unit}"
    return f"{ns} ns"


def exact_bytes(size: int) -> str:
    """Every digit, in the largest unit that needs no fraction; `parse_bytes` reads it back."""
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB"):
        if size and size % _BYTES[unit.lower()] == 0:
            return f"{size // _BYTES[unit.lower()]} {unit}"
    return f"{size} B"


def format_bytes(size: int) -> str:
    """Three significant digits, decimal units: "512 B", "1.45 GB"."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 999.5:
            return f"{int(value)} B" if unit == "B" else f"{_three_digits(value)} {unit}"
        value /= 1000
    return f"{_three_digits(value)} TB"


def format_share(share: float) -> str:
    """ "97 %", "0.42 %"; never rounds up to 100 % or down to 0 %."""
    percent = share * 100
    if 99.5 <= percent < 100:
        return f"{min(percent, 99.99):.2f} %"
    if 0 < percent < 1:
        return "< 0.01 %" if percent < 0.005 else f"{_three_digits(percent)} %"
    return f"{percent:.0f} %"


def format_moment(ns: int, digits: int = 3) -> str:
    """ISO 8601 in UTC: "2026-11-20T16:52:55.688Z"."""
    seconds, rest = divmod(ns, SECOND)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return f"{ns} ns"
    fraction = f".{rest:09d}"[: digits + 1] if digits else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def format_clock(ns: int, digits: int = 3) -> str:
    """The time of day in UTC: "16:52:55.688"."""
    _, _, clock = format_moment(ns, digits).partition("T")
    return clock.removesuffix("Z") or format_moment(ns, digits)


def format_count(number: int) -> str:
    """ "23,082"."""
    return f"{number:,}"


def _quantity(text: str, what: str) -> tuple[Decimal, str]:
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not {what}")
    return Decimal(match[1]), match[2]


def _whole(number: Decimal, text: str) -> int:
    if abs(number) > _LARGEST:
        raise TooLargeError(f"{text!r} is too large")
    return int(number.to_integral_value())


def _three_digits(value: float) -> str:
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.0f}"


def _iso_moment(match: re.Match[str], text: str) -> int:
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    # A leap second has no Unix time of its own; it becomes the first moment of the next minute.
    leap = second == "60"
    clock = int(hour or 0), int(minute or 0), 59 if leap else int(second or 0)
    try:
        moment = datetime(int(year), int(month), int(day), *clock, tzinfo=UTC) + timedelta(seconds=int(leap))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not a date of the calendar: {error}") from None
    whole = (moment - _EPOCH) // timedelta(seconds=1)
    if zone and zone != "Z":
        sign = -1 if zone[0] == "-" else 1
        whole -= sign * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)
    ns = whole * SECOND + int((fraction or "0").ljust(9, "0"))
    if abs(ns) > _LARGEST:
        raise ValueError(f"{text!r} is outside the years 1678 to 2262 that 64 bits of nanoseconds hold")
    return ns
