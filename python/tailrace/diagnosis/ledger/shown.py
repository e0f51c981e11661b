"""This module selects what is shown of an episode's ledger: the replay, the share of each line, and the account of
servers."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.judged import Charged, Judged
from tailrace.diagnosis.ledger.reproduced import REPRODUCED
from tailrace.diagnosis.ledger.sentence import is_told, sentence
from tailrace.diagnosis.ledger.verdict import Replayed

SERVERS_MAX = 4
"""At most this many servers of one episode are shown. Readers do not look at more pictures."""
MOMENTS_MAX = 600
"""A column has at most this many moments, because a picture is some 700 pixels wide."""
MOMENTS_ALL = 100_000
"""The columns of all episodes together have at most this many moments."""


def show(verdicts: Sequence[Replayed | None], origins: Sequence[str | None]) -> tuple[Judged | None, ...]:
    """Return what is shown for each episode, or None where nothing was replayed."""
    moments = min(MOMENTS_MAX, max(MOMENTS_ALL // max(len(verdicts), 1), 1))
    pairs = zip(verdicts, origins, strict=True)
    return tuple(None if one is None else _judged(one, origin, moments) for one, origin in pairs)


def _judged(one: Replayed, origin: str | None, moments: int) -> Judged:
    extract = one.extract
    unlike = extract.unlike(*REPRODUCED)
    told = [share.server for share in one.shares if one.reproduced and share.cause != UNKNOWN and is_told(share, one)]
    wanted = [origin, *told, *(() if one.reproduced else unlike[:1])]
    known = [server for server in wanted if server is not None and server in extract.servers]
    servers = tuple(dict.fromkeys(known or filter(None, [extract.lost_most()])))
    return Judged(
        reproduced=one.reproduced,
        not_reproduced=unlike,
        vlrt_recorded=one.recorded,
        vlrt_replayed=one.replayed,
        error=one.error,
        sentence=sentence(one, unlike),
        lines=tuple(
            Charged(share.cause, share.server, share.place, share.vlrt / one.recorded, share.without)
            for share in (one.shares if one.reproduced else ())
        ),
        servers=tuple(extract.sheet(server, moments) for server in servers[:SERVERS_MAX]),
    )
