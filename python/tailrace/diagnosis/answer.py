"""The top of the report: up to three sentences, in plain words, for people who do not know the terms.

1  how many were slow, how slow, and what made them so      (steps 1 and 2)
2  where it began                                           (step 3)
3  why, and what is left open                               (steps 4 and 5)
"""

from __future__ import annotations

from tailrace.diagnosis.causes import PACKET_LOSS, UNKNOWN
from tailrace.diagnosis.finding import CauseEvidence, Diagnosis, Episode, SummaryRow
from tailrace.diagnosis.words import count, duration, listing, rate, share

PLAIN = {
    "garbage-collection": "a garbage collection stopped {origin}",
    "frequency-step": "the CPU of {origin} was still at a low clock rate when the work came",
    "neighbour": "{place} took the CPU that {origin} needed",
    "log-flush": "{origin} waited for its disk while a log was flushed",
    "writeback": "{origin} waited for its disk while dirty pages were written back",
    "workload-burst": "more requests came at once than {place} can serve",
    "concurrency-overhead": "{origin} became slower the more requests it held",
    "balancer": "{place} sent the requests to {origin} while it was stalled and others were idle",
    "soft-resource": "a pool or thread limit of {origin} was used up, with hardware to spare",
    "cpu-quota": "the CPU quota of {origin} was used up",
    "freeze": "{origin} stood still, as if stopped or all of it waiting for a lock,",
}


def sentences(diagnosis: Diagnosis) -> tuple[str, ...]:
    if diagnosis.requests == 0:
        return ("There are no finished requests in this recording, so nothing can be said of response times.",)
    if diagnosis.vlrt == 0:
        return (
            f"None of the {count(diagnosis.requests, 'request')} took {duration(diagnosis.threshold_ns)} or longer: "
            "there are no very long response times to explain.",
            *(f"{gap.what} is not known. Would settle it: {gap.datum}." for gap in diagnosis.unknown),
        )
    main = max(diagnosis.summary, key=lambda row: row.vlrt)
    episodes = [e for e in diagnosis.episodes if (e.origin, e.cause) == (main.origin, main.cause)]
    first = f"{_slow(diagnosis)} {_because(diagnosis, main)}"
    return tuple(filter(None, (first, _began(main, episodes), _why(diagnosis, main, episodes))))


def _slow(diagnosis: Diagnosis) -> str:
    part = share(diagnosis.vlrt / diagnosis.requests)
    shortest = min(int(_number(e, 0, "response_ns_p5")) for e in diagnosis.episodes)
    longest = max(int(_number(e, 0, "response_ns_max")) for e in diagnosis.episodes)
    took = duration(longest) if shortest == longest else f"{duration(shortest)} to {duration(longest)}"
    usual = int(_number(diagnosis.episodes[0], 0, "response_ns_usual"))
    # Of an overload that is as old as the recording the usual is as slow.
    instead = f" instead of {duration(usual)}" if usual < diagnosis.threshold_ns else ""
    return f"{diagnosis.vlrt:,} of {count(diagnosis.requests, 'request')} ({part}) took {took}{instead}"


def _because(diagnosis: Diagnosis, main: SummaryRow) -> str:
    lost = {row.dropper: 0 for row in diagnosis.summary if row.dropper}
    for row in diagnosis.summary:
        if row.dropper:
            lost[row.dropper] += row.vlrt
    waited = diagnosis.vlrt - sum(lost.values())
    if not lost:
        verdicts = {e.findings[1].verdict for e in diagnosis.episodes}
        if verdicts == {"absent"}:
            return "by waiting in queues; no packet of theirs was dropped."
        if main.cause == PACKET_LOSS:
            return "because packets of theirs were lost on the way and sent again a retransmission time later."
        if "found" in verdicts:
            return "because packets of theirs were lost; which server dropped them is not recorded."
        return "; whether packets of theirs were dropped was not recorded."
    ranked = sorted(lost.items(), key=lambda item: -item[1])
    if waited == 0 and len(ranked) == 1:
        name = ranked[0][0]
        return f"because {name} dropped their connection attempts, which were sent again a retransmission time later."
    parts = [f"{name} dropped packets of {number:,}" for name, number in ranked]
    rest = f"; {waited:,} waited without a loss" if waited else ""
    return f"because {listing(parts)}, which were sent again a retransmission time later{rest}."


def _began(main: SummaryRow, episodes: list[Episode]) -> str:
    if main.origin is None:
        return episodes[0].findings[2].sentence
    times = "" if len(episodes) == 1 else f" in each of {len(episodes)} episodes"
    if "lasting_overload" in episodes[0].findings[2].numbers:
        return f"All queues were long for most of the time; {main.origin} is where they could not be worked off."
    leads = sorted(int(_number(e, 2, "rise_to_drop_ns")) for e in episodes if _number(e, 2, "rise_to_drop_ns"))
    before = f", {duration(leads[len(leads) // 2])} before the first drop" if leads and leads[0] > 0 else ""
    where = {
        "upstream": f"It began in {main.origin}, not in {main.dropper}: the queue of {main.origin} filled first",
        "downstream": f"It began in {main.origin}: its queue filled first",
        "local": f"It began in {main.origin} itself: its queue filled first",
        "soft-resource": f"It began in {main.origin}: its queue filled first",
        "none": f"It began in {main.origin}: its queue grew first",
    }[main.ctqo]
    return f"{where}{times}{before}."


def _why(diagnosis: Diagnosis, main: SummaryRow, episodes: list[Episode]) -> str:
    if main.origin is None:
        return ""
    open_ = diagnosis.vlrt - round(diagnosis.explained * diagnosis.vlrt)
    if main.cause == UNKNOWN:
        said = [e.findings[3].sentence for e in episodes if e.findings[3].verdict == "found"]
        seen = f"{said[0]} " if said else ""
        blind = next((e for e in episodes if e.findings[3].verdict == "unknown"), None)
        if blind is not None and "cpu_busy_median" not in blind.findings[3].numbers:
            length = duration(int(_number(blind, 3, "length_ns")))
            return (
                f"What kept {main.origin} from answering for {length} is unknown, for nothing fine enough was sampled "
                f"on it. Would settle it: {blind.findings[3].missing}."
            )
        settle = next((e.findings[4].missing for e in episodes if e.findings[4].missing), None)
        return f"{seen}Why is unknown; this would settle it: {settle}." if settle else f"{seen}Why is unknown."
    winners = [w for w in episodes[0].causes if w.verdict == "found" and w.cause in main.cause.split(" or ")]
    plain = " or ".join(PLAIN[w.cause].format(origin=main.origin, place=w.place) for w in winners)
    often = "" if len(episodes) == 1 else f", {len(episodes)} times"
    lengths = sorted(int(_number(e, 3, "length_ns")) for e in episodes)
    lasted = duration(lengths[0]) if lengths[0] == lengths[-1] else f"{duration(lengths[0])} to {duration(lengths[-1])}"
    rest = f" The cause of the other {open_:,} is unknown." if open_ else ""
    evidence = _evidence(winners[0]) if winners else ""
    return f"The cause: {plain} for {lasted}{often}{evidence}.{rest}"


def _evidence(winner: CauseEvidence) -> str:
    """The one or two figures that convince, in brackets."""
    n = winner.numbers
    if winner.cause == "neighbour" and "neighbour_cpu_busy" in n and "cpu_busy" in n:
        used, got, usual = (share(float(n[key] or 0)) for key in ("neighbour_cpu_busy", "cpu_busy", "cpu_busy_calm"))
        return f" (it used {used} of a core and left {got}, where usually {usual} is needed)"
    if winner.cause == "workload-burst":
        came, usual, done = (
            rate(float(n[key] or 0)) for key in ("arrivals_per_s", "arrivals_calm_per_s", "throughput_per_s")
        )
        return f" ({came} came instead of {usual}; it answers {done} at most)"
    if winner.cause == "garbage-collection" and "gc_pause_ns" in n:
        return f" (the collector's log has a pause of {duration(int(n['gc_pause_ns'] or 0))} in the first)"
    return ""


def _number(episode: Episode, step: int, name: str) -> float:
    value = episode.findings[step].numbers.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
