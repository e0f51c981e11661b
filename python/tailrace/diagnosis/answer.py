"""This module writes the top of the report: up to five plain sentences for people who do not know the terms.

1  how many requests were slow, how slow, and what made them so      (steps 1 and 2: `because`)
2  where it began, or how much time is not accounted for             (step 3)
3  why, and what is left open                                        (steps 4 and 5)
4  which requests were never answered                                (`unanswered`)

If a timer made most requests take the same time, a sentence between the first two reports this time (`timers`).
"""

from __future__ import annotations

from collections import Counter

from tailrace.diagnosis import because, meanwhile, unanswered
from tailrace.diagnosis.because import figure
from tailrace.diagnosis.constants import APART, MOSTLY
from tailrace.diagnosis.finding import PACKET_LOSS, UNKNOWN, CauseEvidence, Diagnosis, Episode, SummaryRow
from tailrace.diagnosis.ledger import CAUSES, bursts, choices, retries
from tailrace.diagnosis.ledger.losses import freeze
from tailrace.diagnosis.ledger.losses.lookup import CAUSE as DNS
from tailrace.diagnosis.words import count, duration, listing, rate, share

SENTENCES_MAX = 5
PLAIN = {cause.name: cause.plain for cause in CAUSES} | {
    bursts.CAUSE: bursts.PLAIN,
    retries.CAUSE: retries.PLAIN,
    choices.CAUSE: choices.PLAIN,
}


def sentences(diagnosis: Diagnosis) -> tuple[str, ...]:
    if diagnosis.requests == 0:
        first = "This recording has no finished requests, so response times are not known."
        return tuple(filter(None, (first, unanswered.sentence(diagnosis))))
    if diagnosis.vlrt == 0:
        open_ = (f"{gap.what} is not known. Would settle it: {gap.datum}." for gap in diagnosis.unknown)
        return tuple(filter(None, (_none(diagnosis), unanswered.sentence(diagnosis), *open_)))[:SENTENCES_MAX]
    main = max(diagnosis.summary, key=lambda row: row.vlrt)
    its = [e for e in diagnosis.episodes if any((c.origin, c.cause) == (main.origin, main.cause) for c in e.chains)]
    episodes = sorted(its, key=lambda episode: -episode.vlrt)  # What is said of one is said of the largest.
    first = f"{_slow(diagnosis)}{because.clause(diagnosis)}."
    began = _began(main, episodes) if main.origin is not None else _nowhere(diagnosis, episodes)
    told = (first, because.alike(diagnosis), began, _why(diagnosis, main, episodes), unanswered.sentence(diagnosis))
    return tuple(filter(None, told))[:SENTENCES_MAX]


def _none(diagnosis: Diagnosis) -> str:
    """Return that no request was very slow, as far as they ended."""
    requests, threshold = count(diagnosis.requests, "request"), duration(diagnosis.threshold_ns)
    if unanswered.waited_long(diagnosis):
        return (
            f"None of the {requests} that ended took {threshold} or longer, but others had waited for longer when the "
            "recording ended. A recording that lasts until they are answered would show why."
        )
    return f"None of the {requests} took {threshold} or longer: there are no very long response times to explain."


def _slow(diagnosis: Diagnosis) -> str:
    part = share(diagnosis.vlrt / diagnosis.requests)
    usual = int(figure(diagnosis.episodes[0], 0, "response_ns_usual"))
    # If an overload is as old as the recording, the usual response time is as long.
    instead = f" instead of {duration(usual)}" if usual < diagnosis.threshold_ns else ""
    return f"{diagnosis.vlrt:,} of {count(diagnosis.requests, 'request')} ({part}) took {_took(diagnosis)}{instead}"


def _took(diagnosis: Diagnosis) -> str:
    shortest = duration(min(int(figure(e, 0, "response_ns_min")) for e in diagnosis.episodes))
    longest = duration(max(int(figure(e, 0, "response_ns_max")) for e in diagnosis.episodes))
    if shortest == longest:
        return shortest
    return f"{shortest} and {longest}" if diagnosis.vlrt == 2 else f"{shortest} to {longest}"


def _began(main: SummaryRow, episodes: list[Episode]) -> str:
    if len(episodes) == 1 and "lasting" in episodes[0].findings[2].numbers:
        return episodes[0].findings[2].sentence
    times = "" if len(episodes) == 1 else f" in each of {len(episodes)} episodes"
    leads = sorted(int(figure(e, 2, "rise_to_drop_ns")) for e in episodes if figure(e, 2, "rise_to_drop_ns"))
    before = f", {duration(leads[len(leads) // 2])} before the first drop" if leads and leads[0] > 0 else ""
    where = {
        "upstream": f"It began in {main.origin}, not in {main.dropper}: the queue of {main.origin} filled first",
        "downstream": f"It began in {main.origin}: its queue filled first",
        "local": f"It began in {main.origin} itself: its queue filled first",
        "soft-resource": f"It began in {main.origin}: its queue filled first",
        "none": f"It began in {main.origin}: its queue grew first",
    }[main.ctqo]
    return f"{where}{times}{before}."


def _nowhere(diagnosis: Diagnosis, episodes: list[Episode]) -> str:
    """Return what is known if there is no origin, or where the time went."""
    again = next((row for e in episodes for row in e.causes if e.cause == DNS and row.cause == DNS), None)
    if again is not None:
        sentence = PLAIN[DNS].format(origin="", place=again.place or "")
        return f"{sentence[:1].upper()}{sentence[1:]}."
    told = episodes[0].findings[2]
    if {"slow_by_themselves", "older_than_recording"} & set(told.numbers):
        return told.sentence
    return because.unexplained(diagnosis) or ("" if episodes[0].dropper is None else told.sentence)


def _why(diagnosis: Diagnosis, main: SummaryRow, episodes: list[Episode]) -> str:
    beside = next(filter(None, (meanwhile.sentences(e.findings[4].numbers) for e in episodes)), "")
    if main.origin is None:
        told = _astray(main, episodes) if main.cause == PACKET_LOSS else beside
        return f"{told}{_others(diagnosis, main)}".strip()
    open_ = diagnosis.vlrt - round(diagnosis.explained * diagnosis.vlrt)
    if main.cause == UNKNOWN:
        said = [e.findings[3].sentence for e in episodes if e.findings[3].verdict == "found"]
        seen = f"{said[0]} " if said else ""
        blind = next((e for e in episodes if e.findings[3].verdict == "unknown"), None)
        if blind is not None and "cpu_busy_median" not in blind.findings[3].numbers:
            length = duration(int(figure(blind, 3, "length_ns")))
            unknown = (
                f"What kept {main.origin} from answering for {length} is unknown: no samples of it are fine enough."
            )
            told, settle = unknown, blind.findings[3].missing
        else:
            told, settle = f"{seen}Why is unknown.", next(filter(None, (e.findings[4].missing for e in episodes)), None)
        told = " ".join(filter(None, (told, beside, f"Would settle it: {settle}." if settle else "")))
        return f"{told}{_others(diagnosis, main)}"
    winner = next((w for w in episodes[0].causes if w.verdict == "found" and w.cause == main.cause), None)
    place = (winner.place if winner else None) or main.origin
    alone = sum(_alone(one) for e in episodes for one in e.causes if one.cause == main.cause)
    plain = bursts.ALONE if alone > MOSTLY * main.vlrt else _plain(main.cause, main.origin, place, winner)
    often = "" if len(episodes) == 1 else f", {len(episodes)} times"
    lengths = sorted(int(figure(e, 3, "length_ns")) for e in episodes)
    lasted = duration(lengths[0]) if lengths[0] == lengths[-1] else f"{duration(lengths[0])} to {duration(lengths[-1])}"
    evidence = _evidence(winner, episodes) if winner else ""
    others = _others(diagnosis, main)
    left = "remaining" if others else "other"
    rest = f" The cause of the {left} {open_:,} is unknown." if open_ else ""
    told = f"The cause: {plain}{evidence}. {main.origin} could not keep up for {lasted}{often}."
    return f"{told}{_worse(main, episodes)}{others}{rest}"


def _astray(main: SummaryRow, episodes: list[Episode]) -> str:
    """Return where packets of these requests were lost, over all episodes."""
    told = (e.findings[4].numbers.get("where") for e in episodes)
    where = listing(list(dict.fromkeys(str(one) for one in told if one))) or "on the way"
    return f"Packets of {count(main.vlrt, 'request')} were lost {where}, and sent again."


def _others(diagnosis: Diagnosis, main: SummaryRow) -> str:
    """Return the second cause at a server in words, or the same one at a second server, with the number of its
    requests."""
    found = Counter[tuple[str, str]]()
    for row in diagnosis.summary:
        if row.cause != UNKNOWN and row.origin is not None and (row.cause, row.origin) != (main.cause, main.origin):
            found[row.cause, row.origin] += row.vlrt
    if not found:
        return ""
    (cause, origin), vlrt = found.most_common(1)[0]
    its = (e for e in diagnosis.episodes if any((c.cause, c.origin) == (cause, origin) for c in e.chains))
    found_there = [one for e in its for one in e.causes if (one.cause, one.verdict) == (cause, "found")]
    alone = sum(map(_alone, found_there))
    if alone >= vlrt:
        return f" {count(vlrt, 'other request')} took that long {'by itself' if vlrt == 1 else 'by themselves'}."
    place = next(filter(None, (one.place for one in found_there)), origin)
    plain = bursts.ALONE if alone > MOSTLY * vlrt else _plain(cause, origin, place, next(iter(found_there), None))
    which = "known" if main.cause == UNKNOWN else "another one"
    return f" Of {count(vlrt, 'other request')}, the cause is {which}: {plain}."


def _alone(evidence: CauseEvidence) -> float:
    """Return how many requests of a burst took that long by themselves."""
    return float(evidence.numbers.get("requests_alone") or 0)


def _plain(cause: str, origin: str, place: str, evidence: CauseEvidence | None) -> str:
    """Return what happened, in words."""
    seen = evidence is not None and evidence.numbers.get("threads_stopped")
    return (freeze.SEEN if seen else PLAIN[cause]).format(origin=origin, place=place)


def _worse(main: SummaryRow, episodes: list[Episode]) -> str:
    """Return that retries kept up what the cause began, if they did so in some episode."""
    kept_up = any(one.cause == retries.CAUSE and one.verdict == "found" for e in episodes for one in e.causes)
    if main.cause == retries.CAUSE or not kept_up:
        return ""
    return f" It was worse because {PLAIN[retries.CAUSE].format(origin=main.origin)}."


def _evidence(winner: CauseEvidence, episodes: list[Episode]) -> str:
    """Return the one or two figures that convince, in brackets. A burst that came before its queue rose convinces
    nobody by the rate during the queue."""
    if winner.cause == bursts.CAUSE:
        keys = ("arrivals_per_s", "arrivals_calm_per_s", "throughput_per_s")
        rates = ([figure(episode, 3, key) for key in keys] for episode in episodes)
        came, usual, done = next((map(rate, one) for one in rates if one[0] > APART * one[1]), ("", "", ""))
        if came:
            return f" ({came} came instead of {usual}, and {done} were answered)"
        which = winner.numbers.get("requests_of_burst")
        return f" ({which})" if which else ""
    took, lacked = (int(winner.numbers.get(key) or 0) for key in ("taken_ns", "lacked_ns"))
    if took * 2 < lacked or not took:
        return ""
    return f" (this took {share(took / lacked)} of the capacity that was lacking)"
