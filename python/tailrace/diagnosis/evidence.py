"""This module computes how well something that happened explains the stalls: coverage, lift over chance, and order in
time. Its functions are pure.

Every detector reduces its evidence to intervals (the collector ran, the neighbour was busy, …). The stalls are
intervals, too, so one arithmetic serves all detectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.diagnosis.spans import Spans, cut, length, overlap

SHIFTS = 499
"""The permutation test uses this many random shifts, which gives p-values in steps of 0.002."""
MOST_STALLS = 40
"""At most this many stalls are shifted. If there are more, they are chosen evenly. With so many stalls, chance has
hardly any effect."""
SEED = 1


@dataclass(frozen=True)
class Fit:
    """This class describes how intervals of evidence lie against stalls."""

    coverage: float
    lift: float | None
    p_value: float | None
    lead_ns: int | None
    begin: int | None
    end: int | None


def fit(
    evidence: Spans,
    stall: tuple[int, int],
    stalls: Spans,
    counted: Spans,
    resolution: int,
    least: float = 0.0,
) -> Fit:
    """Compare `evidence` with one stall (coverage, order) and with all stalls of the recording (lift, p-value).

    Chance is measured in the time that is `counted`, and the rest is cut out. `resolution` is the time step in which
    the evidence was observed. Evidence that covers less than `least` is not compared with chance.
    """
    begin, end = stall
    by_chance = coverage(evidence, begin, end) >= least
    # Evidence that touches the stall counts from its own onset: a cause may begin before its effect shows.
    touching = evidence[(evidence[:, 1] > begin) & (evidence[:, 0] < end)] if len(evidence) else evidence
    onset = main_onset(touching, begin, end)
    showed, stalled, whole = cut(evidence, counted), cut(stalls, counted), (0, length(counted))
    return Fit(
        coverage=coverage(evidence, begin, end),
        lift=lift(showed, stalled, whole, resolution) if by_chance else None,
        p_value=p_value(showed, stalled, whole) if by_chance else None,
        lead_ns=None if onset is None else begin - onset,
        begin=onset,
        end=int(touching[:, 1].max()) if len(touching) else None,
    )


def main_onset(touching: Spans, begin: int, end: int) -> int | None:
    """Return where the stretch of the stall begins that holds most evidence, minus the evidence that it lacks. A short
    blip before a longer gap is not its onset. A short gap does not separate what continues after it."""
    since = onset = held = most = 0
    last = begin
    for i, (first, until) in enumerate(np.clip(touching, begin, end).tolist()):
        held -= first - last
        if held <= 0:
            held, since = 0, i
        held, last = held + until - first, until
        if held > most:
            onset, most = since, held
    return int(touching[onset, 0]) if most else None


def coverage(evidence: Spans, begin: int, end: int) -> float:
    """Return the fraction of [begin, end) that the evidence overlaps."""
    return float(overlap(evidence, begin, end)[0]) / max(end - begin, 1)


def lift(evidence: Spans, stalls: Spans, recording: tuple[int, int], resolution: int) -> float | None:
    """Return a ratio: the fraction of the time inside stalls that the evidence covers ÷ the same fraction outside
    stalls. The result is None if there is no inside or no outside.

    If the evidence is never seen outside, it counts as seen there for one `resolution`. The lift is then "at least".
    """
    inside, whole = length(stalls), recording[1] - recording[0]
    outside = whole - inside
    if inside <= 0 or outside <= 0:
        return None
    covered = float(overlap(evidence, stalls[:, 0], stalls[:, 1]).sum())
    elsewhere = max(float(overlap(evidence, recording[0], recording[1])[0]) - covered, float(resolution))
    return (covered / inside) / (elsewhere / outside)


def p_value(evidence: Spans, stalls: Spans, recording: tuple[int, int]) -> float | None:
    """Return how often stalls that are shifted by a random time around the recording are covered at least as much as
    the real stalls.

    Circular shifts keep the rhythm of both (bursts stay bursts). Shuffled windows would destroy it.
    """
    begin, end = recording
    whole = end - begin
    stalls = stalls[:: -(-len(stalls) // MOST_STALLS) or 1]
    if len(stalls) == 0 or length(stalls) >= whole:
        return None
    observed = float(overlap(evidence, stalls[:, 0], stalls[:, 1]).sum())
    shifts = np.random.default_rng(SEED).integers(1, whole, SHIFTS)
    starts = (stalls[None, :, 0] - begin + shifts[:, None]) % whole
    stops = starts + (stalls[:, 1] - stalls[:, 0])[None, :]
    beyond = np.maximum(stops - whole, 0)
    flat = overlap(evidence, (begin + starts).ravel(), (begin + np.minimum(stops, whole)).ravel())
    wrapped = overlap(evidence, np.full(beyond.size, begin), (begin + beyond).ravel())
    covered = (flat + wrapped).reshape(SHIFTS, -1).sum(axis=1)
    return float(1 + np.count_nonzero(covered >= observed * 0.999)) / (SHIFTS + 1)
