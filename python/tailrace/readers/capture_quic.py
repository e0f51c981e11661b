"""What the decoder of captures counted of QUIC, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tailrace.units import format_duration


def quic_notes(counts: Mapping[str, Any], *, handshakes: int) -> Iterator[str]:
    """Notes about the connections of QUIC; `handshakes` is the number of packets with a long header."""
    connections = counts.get("connections", 0)
    if not connections:
        if handshakes:
            yield (
                f"{handshakes} packets of QUIC handshakes are not read: a connection is read from its client's first "
                "packet on, which is not in the captures as a whole"
            )
        return
    yield _handshakes(counts, connections)
    if counts["repeated"]:
        yield (
            f"QUIC: clients sent their first packet again {counts['repeated']} times, because nobody had answered; "
            f"{counts['initials_lost']} of these packets never reached the server, as its acknowledgements show"
        )
    if counts["packets_lost"] or counts["packets_unseen"]:
        yield (
            f"QUIC: {counts['packets_lost']} packets whose numbers are visible were not acknowledged, and "
            f"{counts['packets_unseen']} were acknowledged and are not in the captures"
        )
    if counts["closed"]:
        yield (
            f"QUIC: the requests in {counts['closed']} connections are not read ({counts['packets_unread']} packets): "
            "they are encrypted. The secrets of their sessions would show them (--keys, SSLKEYLOGFILE)"
        )
    if counts["cut"]:
        yield (
            f"QUIC: {counts['cut']} datagrams are cut, and a packet without its end cannot be decrypted: "
            "record whole packets (tcpdump -s 0)"
        )
    if counts["evicted"]:
        yield f"QUIC: {counts['evicted']} silent connections were given up, because too many were open"


def _handshakes(counts: Mapping[str, Any], connections: int) -> str:
    said = f"QUIC: {connections} connections, {counts['handshakes']} of them with a whole handshake"
    if counts["answer_min_ns"] is not None:
        least, most = (format_duration(counts[key]) for key in ("answer_min_ns", "answer_max_ns"))
        said += f"; servers answered after {least} to {most}"
    for key, what in (
        ("unanswered", "without an answer"),
        ("retries", "of which the server wanted a token first (Retry)"),
        ("negotiations", "of which the server wanted another version"),
        ("migrations", "changes of a client's address"),
    ):
        if counts[key]:
            said += f"; {counts[key]} {what}"
    return said
