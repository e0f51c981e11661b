"""This module writes what made the VLRT requests slow, as in the first sentences of the answer. One request is "it",
several requests are "they"."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tailrace.diagnosis.constants import MATTERS, MOSTLY
from tailrace.diagnosis.finding import PACKET_LOSS, Accounted, Diagnosis, Episode
from tailrace.diagnosis.ledger.losses.lookup import CAUSE as DNS
from tailrace.diagnosis.ledger.losses.senders import CLIENTS
from tailrace.diagnosis.words import count, duration, listing


@dataclass
class _Groups:
    """These are counts of VLRT requests, grouped by what is known of them."""

    dropped: Counter[str] = field(default_factory=Counter)
    """Requests are counted by the server that dropped their packets."""
    strayed: int = 0
    unplaced: int = 0
    queued: int = 0
    """These requests waited in queues that rose, and lost nothing that explains them."""
    asked_again: int = 0
    """These requests waited for names whose queries had no answer."""
    unexplained: int = 0


def clause(diagnosis: Diagnosis) -> str:
    """Return the rest of the first sentence, without its full stop."""
    groups, every, one = _groups(diagnosis), diagnosis.vlrt, diagnosis.vlrt == 1
    what = _lost(diagnosis)
    them = f"its {what}" if one else f"their {what}s"
    again = f"{_again(diagnosis)}{_never(diagnosis)}"
    if groups.dropped.total() == every and len(groups.dropped) == 1:
        if sum(figure(e, 1, "vlrt_unheard") for e in diagnosis.episodes) == every:
            name, whose = next(iter(groups.dropped)), "its handshake" if one else "their handshakes"
            return f" because {name} dropped the last packet of {whose}, which nobody sent again"
        which = "which was" if one else "which were"
        return f" because {next(iter(groups.dropped))} dropped {them}, {which} sent again{again}"
    if groups.strayed == every:
        packets = "a packet of it was" if one else "packets of theirs were"
        return f" because {packets} lost on the way and sent again{again}"
    if groups.unplaced == every:
        where = listing(_unplaced_at(diagnosis))
        if one:
            silent, open_ = f"its connection attempt to {where} got no answer and was", f"{where} dropped it or it was"
        else:
            silent, open_ = (
                f"their connection attempts to {where} got no answer and were",
                f"{where} dropped them or they were",
            )
        return f": {silent} sent again{again}. Whether {open_} lost on the way is not known"
    if groups.asked_again == every:
        return " because queries for names had no answer and were sent again"
    if groups.queued == every:
        return f" by waiting in queues; {_no_loss(diagnosis)}"
    if groups.unexplained == every:
        return f"; {_no_loss(diagnosis)}" if not _lost_anything(diagnosis) else ""
    lost = [f"{name} dropped {what}s of {number:,}" for name, number in groups.dropped.most_common()]
    lost += [f"{groups.strayed:,} lost packets on the way"] if groups.strayed else []
    lost += [f"{groups.unplaced:,} sent connection attempts that got no answer"] if groups.unplaced else []
    parts = [f"{listing(lost)}; what was lost was sent again{again}"] if lost else []
    waited = "waited in queues without such a loss" if lost else "waited in queues"
    parts += [f"{groups.queued:,} {waited}"] if groups.queued else []
    parts += [f"{groups.asked_again:,} waited for names whose queries were sent again"] if groups.asked_again else []
    are = "is" if groups.unexplained == 1 else "are"
    parts += [f"{groups.unexplained:,} {are} not explained"] if groups.unexplained else []
    return ": " + "; ".join(parts)


def unexplained(diagnosis: Diagnosis) -> str:
    """Return where the time went of those requests for which the findings account for less than half. The text is empty
    if there are none."""
    accounts = [e.account for e in diagnosis.episodes if e.account is not None and e.account.vlrt_unexplained]
    number = sum(account.vlrt_unexplained for account in accounts)
    if not number:
        return ""
    longest = max((one for account in accounts for one in account.slowest), key=lambda one: one.response_ns)
    it, its = ("it", "its") if number == 1 else ("they", "the")
    parts = [
        (longest.lost_ns, "until a lost packet was sent again"),
        (longest.queued_ns, "while queues were long"),
        (longest.transferred_ns, f"after the first byte of {its} response"),
    ]
    long = [(ns, what) for ns, what in parts if ns >= MATTERS * longest.response_ns]
    place = _place(accounts)
    where = f"{it} spent the most time in {place}." if place else ""
    if not long:
        return f"No queue rose that {it} waited in; {where}" if where else f"Where {it} waited was not recorded."
    whole = f"its {duration(longest.response_ns)}"
    if number > 1:
        whole = f"the {duration(longest.response_ns)} of the longest"
    said = f"Of {whole}, {listing([f'{duration(ns)} passed {what}' for ns, what in long])}"
    if longest.unaccounted_ns < MATTERS * longest.response_ns:
        return f"{said}."
    rest = f"{said}; nothing recorded accounts for the other {duration(longest.unaccounted_ns)}."
    return f"{rest} {where[:1].upper()}{where[1:]}".rstrip()


def alike(diagnosis: Diagnosis) -> str:
    """Return the time that most VLRT requests took alike, if any did. Requests that the replay explains waited behind
    others that all take as long."""
    if not diagnosis.constants:
        return ""
    most = diagnosis.constants[0]
    if (1.0 - diagnosis.explained) * diagnosis.vlrt < MOSTLY * most.requests:
        return ""
    where_known = diagnosis.summary[0].cause != DNS
    which = "All" if most.requests == diagnosis.vlrt else f"{most.requests:,} of them"
    low, high = duration(most.shortest_ns), duration(most.longest_ns)
    took = low if low == high else f"{low} to {high}"
    where = f" in or behind {most.place}" if most.place and where_known else ""
    what = "a timeout" if not most.retransmission else "a timeout, or a retransmission that was not recorded"
    what = "the clients gave up then" if most.place == CLIENTS else f"{what}{where}"
    return f"{which} took {took}, whenever they were sent. A timer makes such times, and a queue does not: {what}."


def _groups(diagnosis: Diagnosis) -> _Groups:
    groups, unplaced = _Groups(), bool(_unplaced_at(diagnosis))
    for row in diagnosis.summary:
        if row.dropper is not None:
            groups.dropped[row.dropper] += row.vlrt
        elif row.cause == PACKET_LOSS:
            groups.strayed += row.vlrt
        elif row.cause == DNS:
            groups.asked_again += row.vlrt
        elif row.ctqo == "unknown" and unplaced:  # without visits, it is unknown of all of them
            groups.unplaced += row.vlrt
        elif row.origin is not None:
            groups.queued += row.vlrt
        else:
            groups.unexplained += row.vlrt
    return groups


def _lost(diagnosis: Diagnosis) -> str:
    """Return "connection attempt" if nothing else was lost, otherwise "packet"."""
    attempts, segments = (
        sum(figure(e, 1, name) for e in diagnosis.episodes) for name in ("attempts_lost", "segments_lost")
    )
    unheard = sum(figure(e, 1, "vlrt_unheard") for e in diagnosis.episodes)
    return "connection attempt" if attempts and not segments and not unheard else "packet"


def _again(diagnosis: Diagnosis) -> str:
    waits = sorted(int(wait) for e in diagnosis.episodes if (wait := figure(e, 1, "loss_ns_p50")))
    if not waits:
        return ""
    first, last = duration(waits[0]), duration(waits[-1])
    return f" {first} later" if first == last else f" {first} to {last} later"


def _never(diagnosis: Diagnosis) -> str:
    """Return of how many requests the lost packet was not sent again, in words, if there are any."""
    number = round(sum(figure(e, 1, "vlrt_unheard") for e in diagnosis.episodes))
    return f", except for the packet{'' if number == 1 else 's'} of {count(number, 'request')}" if number else ""


def _unplaced_at(diagnosis: Diagnosis) -> list[str]:
    places = (str(e.findings[1].numbers.get("unplaced_at", "")) for e in diagnosis.episodes)
    return sorted({place for text in places for place in text.split(", ") if place})


def _no_loss(diagnosis: Diagnosis) -> str:
    if all(e.findings[1].verdict == "absent" for e in diagnosis.episodes):
        whose = "it" if diagnosis.vlrt == 1 else "theirs"
        return f"no packet of {whose} was lost on the way to a server"
    return "whether packets were lost was not recorded"


def _lost_anything(diagnosis: Diagnosis) -> bool:
    return any(e.account is not None and e.account.lost_ns for e in diagnosis.episodes)


def _place(accounts: list[Accounted]) -> str | None:
    places: Counter[str] = Counter()
    for account in accounts:
        if account.unexplained_place is not None:
            places[account.unexplained_place] += account.vlrt_unexplained
    return places.most_common(1)[0][0] if places else None


def figure(episode: Episode, step: int, name: str) -> float:
    """Return this number of a finding of the episode, or 0 if the finding has no number of that name."""
    value = episode.findings[step].numbers.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
