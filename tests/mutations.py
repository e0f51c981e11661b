"""Golden inputs with damage as from a stranger or a disk: to bytes, lines, and values in a text; drawn from a seed."""

from __future__ import annotations

import gzip
import random
import re

from hostile import SHARDS

NUMBERS = [
    *("0", "-1", "1e400", "-1e400", "inf", "-inf", "nan", "NaN", "null", "1e-400", "0x" + "f" * 40, "9" * 25, "1e18"),
    *("9223372036854775807", "-9223372036854775808", "18446744073709551616", "9" * 5_000, "1.7976931348623157e308"),
    *("4294967296", "2147483648", "1e9", "0.1", "1e999999", "1_000", "٣", "1,5"),
]  # fmt: skip
TIMES = [
    *("1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2106-02-07T06:28:16Z", "1969-12-31"),
    *("2026-13-45T99:99:99Z", "2262-04-12T00:00:00Z", "20261120", "253402300799", "4102444800", "17951933769999999999"),
]
WORDS = [
    "",
    '""',
    "''",
    "[]",
    "{}",
    "true",
    "null",
    "[" * 300,
    "{" * 300,
    "a" * 2_000,
    "x=1",
    "\x00",
    "\n",
    "#",
    "[[a]]",
]
_TOKEN = re.compile(rb"[-+]?\d[\d.:T_eE+-]*Z?|[A-Za-z_]\w*|\"[^\"\n]*\"|'[^'\n]*'")


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The input with one to four damages; a compressed one is sometimes damaged inside."""
    if data.startswith(b"\x1f\x8b") and draw.random() < 0.7:
        return gzip.compress(mutated(gzip.decompress(data), draw), 1)
    whole = bytearray(data)
    text = b"\x00" not in data[:4096]
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        kinds = [_flip, _overwrite, _cut, _insert, _delete, _repeat, _integer]
        draw.choice([*kinds, *([_token, _token, _token, _line, _line] if text else [])])(whole, draw)
    return bytes(whole)


def _at(data: bytearray, draw: random.Random) -> int:
    return draw.randrange(len(data) + 1)


def _flip(data: bytearray, draw: random.Random) -> None:
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _overwrite(data: bytearray, draw: random.Random) -> None:
    at = _at(data, draw)
    new = draw.randbytes(draw.choice((1, 2, 4, 8, 40)))
    data[at : at + len(new)] = new


def _cut(data: bytearray, draw: random.Random) -> None:
    del data[_at(data, draw) :]


def _insert(data: bytearray, draw: random.Random) -> None:
    at = _at(data, draw)
    data[at:at] = draw.choice([*SHARDS, *NUMBERS, *TIMES, *WORDS]).encode("utf-8", "surrogatepass")


def _delete(data: bytearray, draw: random.Random) -> None:
    at = _at(data, draw)
    del data[at : at + draw.choice((1, 4, 30, 1_000))]


def _repeat(data: bytearray, draw: random.Random) -> None:
    at = _at(data, draw)
    data[at:at] = data[at : at + draw.choice((1, 10, 200, 5_000))] * draw.choice((1, 1, 3, 50))


def _integer(data: bytearray, draw: random.Random) -> None:
    """An extreme value in the place of a binary number."""
    width = draw.choice((1, 2, 4, 8))
    at = _at(data, draw)
    value = draw.choice((0, 1, 0x7F, 0x80, 0xFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1))
    data[at : at + width] = (value % 2 ** (8 * width)).to_bytes(width, draw.choice(("little", "big")))


def _token(data: bytearray, draw: random.Random) -> None:
    """Replaces a value, a key or a name by another."""
    found = list(_TOKEN.finditer(data))
    if found:
        old = draw.choice(found)
        new = draw.choice(draw.choice((NUMBERS, TIMES, WORDS, SHARDS))).encode("utf-8", "surrogatepass")
        data[old.start() : old.end()] = draw.choice((new, new, draw.choice(found)[0]))


def _line(data: bytearray, draw: random.Random) -> None:
    """Repeats, reorders or removes lines."""
    lines = data.split(b"\n")
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(3):
        case 0:
            lines[at], lines[other] = lines[other], lines[at]
        case 1:
            lines.insert(at, lines[other])
        case _:
            del lines[at]
    data[:] = b"\n".join(lines)
