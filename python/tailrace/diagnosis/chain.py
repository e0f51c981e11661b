"""The five steps of each episode put together, and what they come to: summary, answer, what is unknown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl

from tailrace.diagnosis import answer, millibottleneck, vlrt
from tailrace.diagnosis.causes import UNKNOWN, Cause, soft_resource
from tailrace.diagnosis.drops import Drops
from tailrace.diagnosis.finding import STEPS, Ctqo, Diagnosis, Episode, Finding, SummaryRow, Unknown
from tailrace.diagnosis.millibottleneck import Stall
from tailrace.diagnosis.overflow import Overflow, judge
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.sustained import Explained
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow
from tailrace.diagnosis.words import clock, count, duration


def link(
    view: View,
    slow: Slow,
    lost: tuple[Drops, ...],
    explained: tuple[Explained, ...],
) -> Diagnosis:
    first = vlrt.findings(view, slow)
    parts = zip(slow.clusters, first, lost, explained, strict=True)
    episodes = tuple(_episode(view, cluster, vlrts, drops, *chain) for cluster, vlrts, drops, chain in parts)
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
        notes=_notes(view, slow),
    )
    return replace(diagnosis, answer=answer.sentences(diagnosis))


def _episode(
    view: View, cluster: Cluster, first: Finding, lost: Drops, overflow: Overflow, stall: Stall | None, cause: Cause
) -> Episode:
    fourth = stall.finding if stall is not None else millibottleneck.nothing_found(view, cluster)
    episode = Episode(
        begin=cluster.begin,
        end=cluster.end,
        vlrt=cluster.vlrt,
        findings=(first, lost.finding, overflow.finding, fourth, cause.finding),
        dropper=lost.dropper,
        origin=overflow.origin,
        cause=cause.name,
        ctqo="soft-resource" if cause.name == soft_resource.CAUSE else overflow.ctqo,
        wave=overflow.wave,
        causes=cause.evidence,
    )
    return replace(episode, chains=_chains(view, episode, lost))


def _chains(view: View, episode: Episode, drops: Drops) -> tuple[SummaryRow, ...]:
    rows: Counter[tuple[str | None, str | None, str, Ctqo]] = Counter()
    soft = episode.ctqo == "soft-resource"
    for server, vlrt_ in drops.by_server.items():
        same = server == episode.dropper
        ctqo = episode.ctqo if same or soft else judge(view, server, episode.origin, _times(episode))
        rows[server, episode.origin, episode.cause, ctqo] += vlrt_
    if drops.queued:
        waited: Ctqo = "soft-resource" if soft else "none"
        rows[None, episode.origin, episode.cause, waited] += drops.queued
    return _ranked(rows)


def _summary(episodes: tuple[Episode, ...]) -> tuple[SummaryRow, ...]:
    """VLRT requests by chain, the most first."""
    rows: Counter[tuple[str | None, str | None, str, Ctqo]] = Counter()
    for row in (row for episode in episodes for row in episode.chains):
        rows[row.dropper, row.origin, row.cause, row.ctqo] += row.vlrt
    return _ranked(rows)


def _ranked(rows: Counter[tuple[str | None, str | None, str, Ctqo]]) -> tuple[SummaryRow, ...]:
    ordered = sorted(rows.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple(SummaryRow(*key, vlrt=number) for key, number in ordered)


def _times(episode: Episode) -> Times:
    return np.arange(episode.begin, episode.end + 1, 5_000_000, dtype=np.int64)


def _unknown(view: View, episodes: tuple[Episode, ...]) -> tuple[Unknown, ...]:
    """What the data could not settle, each thing once, with how many requests it concerns."""
    found: dict[tuple[str, str], Unknown] = {}
    if not len(view.requests):
        what, datum = "Whether any request took very long", "requests: a capture, traces or access logs"
        found[what, datum] = Unknown(what, datum)
    for step in STEPS:
        open_ = [
            (e, f) for e in episodes for f in e.findings if f.step == step and f.verdict == "unknown" and f.missing
        ]
        by_datum: dict[str, list[Episode]] = {}
        for episode, finding in open_:
            by_datum.setdefault(str(finding.missing), []).append(episode)
        if len(by_datum) > 1:  # the same, for other times: a reader wants a list, not a log
            by_datum = {f"{max(by_datum, key=len)}; and likewise for the others": [e for e, _ in open_]}
        for datum, concerned in by_datum.items():
            requests = count(sum(e.vlrt for e in concerned), "VLRT request")
            where = "" if len(concerned) == 1 else f" in {len(concerned)} episodes, the first"
            what = f"{_ASKS[step]} of the {requests}{where} sent from {clock(view, concerned[0].begin)}"
            found[what, datum] = Unknown(what, datum)
    return tuple(found.values())


def _given_up(view: View, slow: Slow) -> tuple[Unknown, ...]:
    """What is very long is not seen of clients who do not wait for it."""
    waited = view.requests.filter("given_up", pl.col("response_ns") < slow.threshold_ns)["response_ns"]
    if waited.is_empty():
        return ()
    least = int(waited.quantile(0.05) or 0)
    many = count(len(waited), "request")
    what = f"How long {many} would have taken that clients gave up after {duration(least)} or more"
    datum = f"clients who wait; with --threshold '{duration(least * 19 // 20)}' these count as very long as it is"
    return (Unknown(what, datum),)


_ASKS = {
    "vlrt": "The response times",
    "drops": "Whether packets were dropped, and by whom,",
    "overflow": "Whose queue overflowed: the origin",
    "millibottleneck": "Which resource of the origin was saturated: the millibottleneck",
    "cause": "The cause",
}


def _notes(view: View, slow: Slow) -> tuple[str, ...]:
    notes = []
    if slow.schedule is not None:
        notes.append(f"Retransmission schedule of the sender, inferred from this recording: {slow.schedule}.")
    if view.sampled_places and view.stays:
        joined = [s for s in view.servers if view.places_of(s)]
        if not joined:
            notes.append("No sample belongs to a server that was seen; `--place PLACE=SERVER` joins them.")
    return tuple(notes)
