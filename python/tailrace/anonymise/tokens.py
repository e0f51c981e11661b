"""Tokens for names: a kind and the first digits of a keyed hash, `server-3fa9c1d2`.

A text has one token, wherever it occurs. Without the key, a guess of the original name cannot be checked. The record's
own words stay, and so do the parts of a place that show its kind: `process NAME`, `HOST/cpu0`, `NODE:80`.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re

from tailrace.anonymise import vocabulary
from tailrace.units import SECOND

_DIGITS = 8
"""With ten thousand names, one in a hundred recordings has two with the same eight digits; those get more digits."""
_YEARS_MAX = 20
_ADDRESSES = ipaddress.IPv6Network("2001:db8::/32")
"""Addresses for documentation (RFC 3849), which belong to no host."""
_PROCESS = re.compile(r"process (.+)", re.DOTALL)
_CPU = re.compile(r"(.+)(/cpu[0-9]{1,4})", re.DOTALL)
_PORT = re.compile(r"(.+)(:[0-9]{1,5})", re.DOTALL)
_BRACKETED = re.compile(r"\[(.+)\](:[0-9]{1,5})", re.DOTALL)


class Tokens:
    def __init__(self, key: bytes) -> None:
        self._key = key
        self.names: dict[str, str] = {}
        """The replacement of every text that did not stay."""
        self._taken: set[str] = set()
        minutes = int.from_bytes(self._hash("times", ""), "big") % (_YEARS_MAX * 366 * 24 * 60)
        self.shift_ns = -minutes * 60 * SECOND
        """Whole minutes, so that windows of the diagnosis begin between the same requests as before."""

    def _hash(self, use: str, text: str) -> bytes:
        content = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, key=self._key, person=use.encode(), digest_size=32).digest()

    def token(self, kind: str, text: str) -> str:
        """The token of a whole text; `kind` is its kind if it has none yet."""
        if text not in self.names:
            digits = self._hash("names", text).hex()
            lengths = range(_DIGITS, len(digits) + 1)
            made = (f"{kind}-{digits[:length]}" for length in lengths)
            self.names[text] = next(token for token in made if token not in self._taken)
            self._taken.add(self.names[text])
        return self.names[text]

    def name(self, kind: str, text: str) -> str:
        """The token of a server, a host or a place."""
        if text in vocabulary.PLACES or vocabulary.CLIENT.fullmatch(text):
            return text
        if text not in self.names:
            made = self.address(text) or self._of_parts(kind, text)
            if made is None or made in self._taken:
                return self.token(kind, text)
            self.names[text] = made
            self._taken.add(made)
        return self.names[text]

    def address(self, text: str) -> str | None:
        """The replacement of an address; its port stays. None for any other text."""
        with_port = _BRACKETED.fullmatch(text) or _PORT.fullmatch(text) if not _is_address(text) else None
        host, port = (with_port[1], with_port[2]) if with_port else (text, "")
        if not _is_address(host):
            return None
        hashed = int.from_bytes(self._hash("addresses", host)[:6], "big")
        made = str(_ADDRESSES[hashed])
        return f"[{made}]{port}" if port else made

    def _of_parts(self, kind: str, text: str) -> str | None:
        if process := _PROCESS.fullmatch(text):
            return f"process {self.token('process', process[1])}"
        part = _CPU.fullmatch(text) or _PORT.fullmatch(text)
        return f"{self.name(kind, part[1])}{part[2]}" if part else None

    def interaction(self, text: str) -> str:
        """The method or the command stays, and its object is replaced."""
        if text in vocabulary.INTERACTIONS:
            return text
        command, _, rest = text.partition(" ")
        if command in vocabulary.METHODS and rest.startswith("/"):
            return f"{command} /{self.token('path', rest[1:])}" if rest != "/" else text
        if vocabulary.STATEMENT.fullmatch(command):
            return f"{command} {self.token('table', rest)}" if rest else command
        return self.token("interaction", text)

    def metric(self, text: str) -> str:
        known = text.removesuffix(vocabulary.UNIT_UNKNOWN) in vocabulary.METRICS
        return text if known else self.token("metric", text)

    def kind(self, text: str) -> str:
        return text if text in vocabulary.KINDS else self.token("kind", text)

    def status(self, text: str) -> str:
        return text if vocabulary.STATUS.fullmatch(text) else self.token("status", text)

    def loss(self, text: str) -> str | None:
        """A loss: a sentence of Tailrace with its file; None for any other."""
        begin, end = "", text
        if not vocabulary.LOSSES.fullmatch(text):
            begin, _, end = text.rpartition(": ")
        if not vocabulary.LOSSES.fullmatch(end):
            return None
        return f"{self.token('file', begin)}: {end}" if begin else end


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
