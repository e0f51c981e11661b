"""This module puts the five steps of each episode together. It derives the summary, the answer and what is unknown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis import (
    account,
    answer,
    cause,
    ledger,
    meanwhile,
    millibottleneck,
    settle,
    timers,
    unanswered,
    vlrt,
)
from tailrace.diagnosis.account import Account
from tailrace.diagnosis.cause import Explained
from tailrace.diagnosis.constants import ALIKE, FINE_NS, MATTERS, MOSTLY, RARE
from tailrace.diagnosis.drops import STRAYED, UNPLACED, Drops
from tailrace.diagnosis.finding import (
    PACKET_LOSS,
    STEPS,
    UNKNOWN,
    Accounted,
    Ctqo,
    Diagnosis,
    Episode,
    Finding,
    SummaryRow,
    Unknown,
)
from tailrace.diagnosis.ledger import Replayed
from tailrace.diagnosis.ledger.losses import places
from tailrace.diagnosis.losses import NOWHERE, Losses
from tailrace.diagnosis.overflow import judge
from tailrace.diagnosis.queues import Times, every
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow
from tailrace.diagnosis.words import clock, count, duration


def link(
    view: View,
    slow: Slow,
    packets: Losses,
    lost: tuple[Drops, ...],
    explained: tuple[Explained, ...],
    verdicts: tuple[Replayed | None, ...],
) -> Diagnosis:
    first_byte = account.first_bytes(view, slow.requests)
    alike = timers.find(view, slow, packets, first_byte)
    timed = timers.members(slow, alike)
    parts = zip(slow.clusters, vlrt.findings(view, slow), lost, explained, verdicts, strict=True)
    episodes = tuple(_episode(view, slow, packets, timed, first_byte, *part) for part in parts)
    judged = ledger.show(verdicts, [episode.origin for episode in episodes])
    episodes = tuple(replace(episode, ledger=one) for episode, one in zip(episodes, judged, strict=True))
    summary = _summary(episodes)
    known = sum(row.vlrt for row in summary if row.cause != UNKNOWN)
    diagnosis = Diagnosis(
        requests=len(view.requests),
        vlrt=len(slow.requests),
        threshold_ns=slow.threshold_ns,
        threshold_reason=slow.threshold_reason,
        explained=known / len(slow.requests) if len(slow.requests) else 1.0,
        begin=view.begin if view.end else None,
        end=view.end if view.end else None,
        window_ns=view.window_ns,
        answer=(),
        summary=summary,
        episodes=episodes,
        modes=slow.modes,
        histogram=slow.histogram,
        unknown=(*_unknown(view, episodes), *_given_up(view, slow)),
        unanswered=unanswered.find(view),
        constants=alike,
        notes=_notes(view, slow),
    )
    return replace(diagnosis, answer=answer.sentences(diagnosis))


def _episode(
    view: View,
    slow: Slow,
    packets: Losses,
    timed: NDArray[np.bool_],
    first_byte: Times,
    cluster: Cluster,
    first: Finding,
    lost: Drops,
    explained: Explained,
    verdict: Replayed | None,
) -> Episode:
    overflow, stall, why = explained
    time = account.of_cluster(view, slow, cluster, packets, lost, explained, timed, first_byte)
    told = account.told(view, time, slow.requests[cluster.rows])
    unheard = bool(packets.unheard[cluster.rows].any())
    sentence = f"{first.sentence} {account.sentence(told, cluster.vlrt, unheard=unheard)}"
    episode = Episode(
        begin=cluster.begin,
        end=cluster.end,
        vlrt=cluster.vlrt,
        findings=(
            replace(first, sentence=sentence),
            lost.finding,
            overflow.finding,
            stall.finding if stall is not None else millibottleneck.nothing_found(view, cluster.begin, cluster.end),
            why.finding,
        ),
        dropper=lost.dropper,
        origin=overflow.origin,
        cause=why.name,
        ctqo="soft-resource" if why.name == places.CAUSE else overflow.ctqo,
        wave=overflow.wave,
        causes=why.evidence,
        account=told,
    )
    episode = replace(episode, chains=_shared(view, _chains(view, episode, lost, time), episode, verdict))
    if told.vlrt_unexplained * 2 > cluster.vlrt and not _is_replayed(episode):
        episode = _without_explanation(view, episode, told)
    return _with_data(view, episode, told.unexplained_place or overflow.origin or lost.dropper or cluster.place)


def _with_data(view: View, episode: Episode, place: str | None) -> Episode:
    """Return the episode in which each unknown finding names a datum that would settle it."""
    first, second, third, fourth, fifth = (
        replace(finding, missing=settle.at_last(view, place))
        if finding.verdict == "unknown" and finding.missing is None
        else finding
        for finding in episode.findings
    )
    fifth = meanwhile.told(view, episode, fifth) if fifth.verdict == "unknown" else fifth
    return replace(episode, findings=(first, second, third, fourth, fifth))


def _is_replayed(episode: Episode) -> bool:
    """Return whether the replay confirms a cause. It models the requests that are slow by themselves, too."""
    return "vlrt_replayed" in episode.findings[4].numbers


def _without_explanation(view: View, episode: Episode, told: Accounted) -> Episode:
    """Replace the findings that do not explain the episode. Most of its requests took more time than the findings
    account for."""
    main = episode.chains[0]
    findings = (*episode.findings[:2], *_not_why(view, episode), _cause_unknown(view, episode, told))
    return replace(
        episode,
        findings=findings,
        dropper=main.dropper,
        origin=main.origin,
        cause=main.cause,
        ctqo=main.ctqo,
    )


def _not_why(view: View, episode: Episode) -> tuple[Finding, Finding]:
    """Return the third and fourth step. A queue that rose marks no origin if it accounts for less than half of the
    time."""
    third, fourth = episode.findings[2:4]
    if episode.origin is None:
        return third, fourth
    sentence = f"The own queue of {episode.origin} rose, but that accounts for less than half of the time."
    span = episode.begin, episode.end
    return Finding("overflow", "absent", sentence, None, *span), millibottleneck.nothing_found(view, *span)


def _cause_unknown(view: View, episode: Episode, told: Accounted) -> Finding:
    last, place = episode.findings[4], told.unexplained_place
    missing = settle.slow_alone(view, place) if place is not None else last.missing
    if "slow_by_themselves" in episode.findings[2].numbers:
        return replace(last, missing=missing)
    if told.transferred_ns >= MOSTLY * told.response_ns:
        sentence = "The cause is unknown: most of the time passed after the first byte of the response."
        missing = "a capture at the clients, which shows whether they or the network took the response so slowly"
    elif told.lost_ns + told.queued_ns >= MATTERS * told.response_ns:
        sentence = "The cause is unknown: lost packets and queues account for less than half of the time."
    elif not view.stays:
        sentence = "The cause is unknown: no lost packet accounts for the time, and no queue was recorded."
    else:
        sentence = "The cause is unknown: no packet was lost, and no queue rose, that accounts for the time."
    return Finding("cause", "unknown", sentence, None, episode.begin, episode.end, {}, missing)


Chain = tuple[str | None, str | None, str, Ctqo]


def _chains(view: View, episode: Episode, drops: Drops, time: Account) -> tuple[SummaryRow, ...]:
    rows: Counter[Chain] = Counter()
    soft = episode.ctqo == "soft-resource"
    # Without visits it is unknown whether a queue overflowed.
    none: Ctqo = "none" if view.stays else "unknown"
    waited: Chain = (None, episode.origin, episode.cause, "soft-resource" if soft else none)
    nothing: Chain = (None, None, UNKNOWN, none)

    def dropped_by(server: str) -> Chain:
        same = server == episode.dropper or soft
        ctqo = episode.ctqo if same else judge(view, server, episode.origin, _times(episode))
        return server, episode.origin, episode.cause, ctqo

    if drops.fates is None:  # it is unknown which of them lost a packet
        rows.update({dropped_by(server): number for server, number in drops.by_server.items()})
        rows.update({waited: drops.queued} if drops.queued else {})
        return _ranked(rows)
    chains = {server: dropped_by(server) for server in drops.by_server}
    chains |= {NOWHERE: waited, STRAYED: (None, None, PACKET_LOSS, "none"), UNPLACED: (None, None, UNKNOWN, "unknown")}
    by_loss = time.lost >= MOSTLY * time.response
    explained = time.explained | _is_replayed(episode)
    for fate, known, lost in zip(drops.fates.tolist(), explained.tolist(), by_loss.tolist(), strict=True):
        if fate in (STRAYED, UNPLACED) and known and not lost:
            rows[waited] += 1
        else:
            rows[chains[fate] if known else nothing] += 1
    return _ranked(rows)


def _shared(
    view: View, rows: tuple[SummaryRow, ...], episode: Episode, verdict: Replayed | None
) -> tuple[SummaryRow, ...]:
    """Divide the rows of the episode's cause among all causes that the replay confirms, and among the servers that each
    of them slowed down."""
    if verdict is None or not _is_replayed(episode):
        return rows
    found: Counter[Chain] = Counter()
    for row in rows:
        alone = {(row.cause, row.origin): row.vlrt}
        # Where nothing shows which server held a request up, its row is unknown by itself.
        is_of_it = row.cause == episode.cause and (row.origin is not None or row.cause != UNKNOWN)
        split = cause.by_cause(row.vlrt, verdict) if is_of_it else alone
        for (name, slowed), vlrt_ in split.items():
            origin = slowed or row.origin
            ctqo = row.ctqo
            if row.dropper is not None and origin != row.origin:
                ctqo = judge(view, row.dropper, origin, _times(episode))
            found[row.dropper, origin, name, ctqo] += vlrt_
    return _ranked(found)


def _summary(episodes: tuple[Episode, ...]) -> tuple[SummaryRow, ...]:
    """Return the VLRT requests by chain, the most first."""
    rows: Counter[Chain] = Counter()
    for row in (row for episode in episodes for row in episode.chains):
        rows[row.dropper, row.origin, row.cause, row.ctqo] += row.vlrt
    return _ranked(rows)


def _ranked(rows: Counter[Chain]) -> tuple[SummaryRow, ...]:
    ordered = sorted(rows.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple(SummaryRow(*key, vlrt=number) for key, number in ordered)


def _times(episode: Episode) -> Times:
    return every(episode.begin, episode.end + 1, FINE_NS)


def _unknown(view: View, episodes: tuple[Episode, ...]) -> tuple[Unknown, ...]:
    """Return what the data could not settle. Each datum appears once, with the number of requests that it concerns."""
    found: dict[str, Unknown] = {}
    if not len(view.requests):
        found[""] = Unknown("Whether any request took very long", "requests: a packet capture")
    for step in STEPS:
        open_ = [
            (e, f) for e in episodes for f in e.findings if f.step == step and f.verdict == "unknown" and f.missing
        ]
        by_datum: dict[str, list[Episode]] = {}
        for episode, finding in open_:
            by_datum.setdefault(str(finding.missing), []).append(episode)
        if len(by_datum) > 1:  # they differ in their times only: a reader wants a list, not a log
            by_datum = {
                f"{max(by_datum, key=lambda datum: len(by_datum[datum]))}; and likewise for the others": [
                    e for e, _ in open_
                ]
            }
        for datum, concerned in by_datum.items():
            requests = count(sum(_not_settled(e, step) for e in concerned), "VLRT request")
            where = "" if len(concerned) == 1 else f" in {len(concerned)} episodes, the first"
            what = f"{_ASKS[step]} of the {requests}{where} sent from {clock(view, concerned[0].begin)}"
            # A datum that settles an earlier step also settles the later ones that need it.
            found.setdefault(datum, Unknown(what, datum))
    return tuple(found.values())


def _not_settled(episode: Episode, step: str) -> int:
    """Return for how many requests of an episode a step is unknown. A smaller part of them may have a cause."""
    return sum(row.vlrt for row in episode.chains if row.cause == UNKNOWN) if step == "cause" else episode.vlrt


def _given_up(view: View, slow: Slow) -> tuple[Unknown, ...]:
    """Return the requests that clients gave up before these were very long: their full response time is unknown."""
    waited = view.requests.filter("given_up", pl.col("response_ns") < slow.threshold_ns)["response_ns"]
    if waited.is_empty():
        return ()
    least = int(waited.quantile(RARE) or 0)
    many = count(len(waited), "request")
    what = f"How long {many} would have taken that clients gave up after {duration(least)} or more"
    below = duration(round(least * (1.0 - ALIKE)))
    datum = f"nothing in this recording; with --threshold '{below}' they count as very long"
    return (Unknown(what, datum),)


_ASKS = {
    "vlrt": "The response times",
    "drops": "Whether packets were dropped, and by which server,",
    "overflow": "Which queue overflowed: the origin",
    "millibottleneck": "Which resource of the origin was saturated: the millibottleneck",
    "cause": "The cause",
}


def _notes(view: View, slow: Slow) -> tuple[str, ...]:
    notes = []
    if slow.schedules:
        fits = " or ".join(slow.schedules)
        notes.append(f"The retransmission schedule of the sender that fits this recording: {fits}.")
    if view.sampled_places and view.stays:
        joined = [s for s in view.servers if view.places_of(s)]
        if not joined:
            notes.append("No sample belongs to a server that was seen; `--place PLACE=SERVER` joins them.")
    notes += [f"{apart.sentence()}." for apart in view.connections.apart]
    return tuple(notes)
