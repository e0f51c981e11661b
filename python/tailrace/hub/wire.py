"""What a host and the hub send each other, and how much of it.

| request | content | answer |
|---|---|---|
| `POST /v1/poll` | a message | the recordings that the hub wants from this host |
| `POST /v1/notice` | a message with `begin`, `end`, `reasons`, `peers` | the incident that it belongs to |
| `PUT /v1/recordings/INCIDENT/HOST/SEGMENT` | a file of the recording | |
| `POST /v1/done/INCIDENT/HOST` | a message with `peers`, or with `failed` | |

Each request has `Authorization: Bearer TOKEN`. A message has the host's name, its clock and its addresses.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tailrace import foreign, untrusted
from tailrace.errors import InputError, UsageError

HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
SEGMENT = re.compile(r"recording\.json|\d{8,12}\.(?:(?:samples|events|stays)\.parquet|packets\.pcap)")
"""Files of a recording (recorder.py)."""
MESSAGE_BYTES = 1 << 20
SEGMENT_BYTES = 64 << 20
RECORDING_BYTES = 1 << 30
"""Two minutes of 20,000 visits a second are some 150 MB."""
SEGMENTS_MAX = 10_000
ADDRESSES_MAX = 4_096
REASONS_MAX, REASON_MAX = 20, 500
POLL_S = 2.0
SILENT_S = 10.0
"""So long the other side may be silent in the middle of a request."""
TOKEN_LEAST = 16


@dataclass(frozen=True)
class Message:
    host: str
    now: int
    """Its clock, in nanoseconds since the epoch."""
    addresses: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    """Addresses that it exchanged requests with."""
    begin: int = 0
    end: int = 0
    reasons: tuple[str, ...] = ()
    failed: str = ""
    """Why it has no recording of these minutes."""


@dataclass(frozen=True)
class Wanted:
    """A recording of these minutes, by the clock of the host."""

    incident: str
    begin: int
    end: int


def message(body: bytes) -> Message:
    """Raises ValueError if it is none. Its texts are safe to show."""
    try:
        found = untrusted.parse_json(body.decode(), "message")
    except InputError as error:
        raise ValueError(error.found) from error
    if not isinstance(found, dict):
        raise ValueError("a message is a JSON object")
    return Message(
        host=host_name(found.get("host")),
        now=_moment(found, "now"),
        addresses=addresses(_texts(found, "addresses")),
        peers=addresses(_texts(found, "peers")),
        begin=_moment(found, "begin"),
        end=_moment(found, "end"),
        reasons=tuple(foreign.sentence(text[:REASON_MAX]) for text in _texts(found, "reasons")[:REASONS_MAX]),
        failed=foreign.sentence(str(found.get("failed") or "")[:REASON_MAX]),
    )


def wanted(found: object) -> list[Wanted]:
    """What a hub asks for; anything else counts as nothing."""
    rows = found.get("wanted") if isinstance(found, dict) else None
    picked = []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("incident"), str) and HOST.fullmatch(row["incident"]):
            picked.append(Wanted(row["incident"], _moment(row, "begin"), _moment(row, "end")))
    return picked


def host_name(text: object) -> str:
    if not isinstance(text, str) or not HOST.fullmatch(text):
        raise ValueError("a host's name has 1 to 64 letters, digits, dots, dashes and underscores")
    return text


def addresses(texts: Iterable[str]) -> tuple[str, ...]:
    """Those by which another host could know a host: each in one form, without loopback and link-local ones."""
    found: dict[str, None] = {}
    for text in texts:
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            continue
        if not (address.is_loopback or address.is_link_local or address.is_unspecified):
            found[str(address)] = None
        if len(found) == ADDRESSES_MAX:
            break
    return tuple(found)


def token(text: str, where: str) -> str:
    """The secret that hosts and hub share. Raises UsageError, which does not repeat it."""
    found = text.strip()
    if len(found) < TOKEN_LEAST or not (found.isascii() and found.isprintable() and " " not in found):
        raise UsageError(
            f"it must hold one word of {TOKEN_LEAST} or more visible ASCII characters",
            where=where,
            advice="make one with `openssl rand -hex 32`",
        )
    return found


def _texts(found: dict[str, Any], key: str) -> list[str]:
    given = found.get(key)
    return [text for text in given if isinstance(text, str)] if isinstance(given, list) else []


def _moment(found: dict[str, Any], key: str) -> int:
    value = found.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise ValueError(f"{key} is not a time in nanoseconds")
    return value
