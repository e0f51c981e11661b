"""Whose token a request has: one that all hosts share, or one of its own for each host.

Tokens are known here by their SHA-256 only, and a lookup by it takes the same time for each wrong token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.errors import UsageError
from tailrace.hub.wire import host_name, token

ANY = "*"
"""The holder of a token that all hosts share."""


@dataclass(frozen=True)
class Admission:
    holders: Mapping[bytes, str]
    """SHA-256 of a token → the host that has it."""

    @classmethod
    def shared(cls, secret: str) -> Admission:
        return cls({_digest(secret): ANY})

    @classmethod
    def each(cls, text: str, where: str) -> Admission:
        """From lines of `HOST TOKEN`; a line that begins with # is a comment. Raises UsageError, which repeats no
        token."""
        holders: dict[bytes, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            place = f"{where}:{number}"
            if len(words) != 2:
                raise UsageError("it must hold a host and its token", where=place, advice="like: web-1 9f86d081…")
            try:
                host = host_name(words[0])
            except ValueError as error:
                raise UsageError(str(error), where=place) from error
            digest = _digest(token(words[1], place))
            if host in holders.values() or digest in holders:
                raise UsageError(f"an earlier line has the host {host} or its token", where=place)
            holders[digest] = host
        if not holders:
            raise UsageError("it has no tokens", where=where, advice="write a line for each host: HOST TOKEN")
        return cls(holders)

    def holder(self, authorization: str) -> str | None:
        """The host whose token an `Authorization` header has; None if it has none that is known."""
        scheme, _, secret = authorization.partition(" ")
        return self.holders.get(_digest(secret)) if scheme == "Bearer" else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
