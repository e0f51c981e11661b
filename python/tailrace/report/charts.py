"""Chooses the charts beside each step: the papers' figures, for every episode.

    step 1  VLRT requests per window, at the time they were sent
    step 2  lost connection attempts per window, by the server that lost them
    step 3  queue length of each server against its limit
    step 4  the origin's resources, then its memory and clock where sampled
    step 5  the evidence for the cause: the neighbour's CPU, collections, dirty pages, arrivals …

The result is data, which the page draws without further decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tailrace import units
from tailrace.dataset.metrics import SHARES
from tailrace.diagnosis.finding import STEPS, Diagnosis, Episode
from tailrace.diagnosis.ledger import CAUSES
from tailrace.report import words
from tailrace.report.recording import Line, Recording, Span

Shape = Literal["columns", "lines", "stack"]
Unit = Literal["count", "share", "bytes", "hertz", "duration"]

CURVES_MAX = 8
"""The number of colours of the palette: a reader cannot distinguish more lines."""
FLAT = 0.005
"""A share that never exceeds this is listed as flat instead of drawn."""
SPANS_MAX = 400
"""Event marks of a chart; more of them look like one bar at any zoom."""

SATURATED = 0.9
"""Mean utilisation of a place that was busy throughout; ticks of 10 ms show a few per cent of idle time at the
edges."""
SATURATED_MAX = 2

SHARE_METRICS = ("cpu_busy", "cpu_iowait", "cpu_steal", "cpu_throttled", "disk_busy", "gc_share")
OTHER_METRICS = ("dirty_bytes", "writeback_bytes", "cpu_hz", "run_queue", "workers_busy")
HOST_METRICS = ("dirty_bytes", "writeback_bytes")
"""The kernel has one value for the whole host, so any place that reports it describes the origin too."""

CAUSE_METRICS: dict[str, tuple[str, ...]] = {cause.name: cause.metrics for cause in CAUSES} | {
    "workload-burst": ("arrivals",),
    "concurrency-overhead": ("run_queue", "context_switches", "workers_busy"),
    "balancer": ("balancer_value", "arrivals"),
}
CAUSE_EVENTS = {cause.name: cause.events for cause in CAUSES}

CAPACITY = "capacity of "
"""The prefix of metrics that are parts of a server's capacity."""


@dataclass(frozen=True)
class Curve:
    """How a line of the recording is drawn: `slot` is its colour, `dash` its pattern."""

    line: int
    label: str
    slot: int
    dash: int = 0


@dataclass(frozen=True)
class Limit:
    value: float
    label: str
    slot: int


@dataclass(frozen=True)
class Mark:
    """An event drawn as a bar along the top of a chart."""

    begin: int
    end: int
    label: str


@dataclass(frozen=True)
class Chart:
    """One chart. `step` is the number of the step that it is evidence for; None in the overview and for the ledger. The
    curves of a stack stand on each other, the first on top."""

    step: int | None
    title: str
    unit: Unit
    shape: Shape
    curves: tuple[Curve, ...]
    limits: tuple[Limit, ...] = ()
    marks: tuple[Mark, ...] = ()
    flat: tuple[str, ...] = ()
    """Metrics that were sampled and stayed at zero."""
    summary: str = ""
    """The content of the chart in words, for readers who cannot see it."""


@dataclass(frozen=True)
class Band:
    """A shaded interval behind the charts: of a finding (`step`) or, in the overview, of an episode (`episode`)."""

    begin: int
    end: int
    step: int | None = None
    episode: int | None = None


@dataclass(frozen=True)
class Group:
    """Charts that share their time axis and cursor."""

    begin: int
    end: int
    charts: tuple[Chart, ...]
    bands: tuple[Band, ...]


def overview(recording: Recording, diagnosis: Diagnosis) -> Group:
    """The charts of the whole recording, with its episodes as bands."""
    bands = tuple(Band(e.begin, e.end, episode=i) for i, e in enumerate(diagnosis.episodes, 1))
    span = (recording.begin, recording.end)
    charts = [
        _window_chart(recording, None, None, "vlrt", "VLRT requests sent", "columns", span),
        _queues(recording, None, None, span),
    ]
    return Group(*span, tuple(c for c in charts if c is not None), bands)


def episode(recording: Recording, diagnosis: Diagnosis, index: int) -> Group:
    """The charts of one episode (`index` from 0), from a little before its first onset to a little after its end."""
    this = diagnosis.episodes[index]
    span = around(this, recording)
    charts = [
        _window_chart(recording, index, 1, "vlrt", "VLRT requests sent", "columns", span, this),
        _window_chart(recording, index, 2, "drops", "Lost attempts", "columns", span, this),
        _queues(recording, index, this, span),
        *_resources(recording, index, this, span),
        *_cause(recording, index, this, span),
    ]
    bands = tuple(
        Band(f.begin, f.end, step=STEPS.index(f.step) + 1)
        for f in this.findings
        if f.verdict == "found" and f.begin is not None and f.end is not None
    )
    return Group(*span, tuple(c for c in charts if c is not None), bands)


def around(this: Episode, recording: Recording) -> tuple[int, int]:
    """The interval that the charts show: the intervals of all findings, and at least half a second on either side."""
    begins = [this.begin, *(f.begin for f in this.findings if f.begin is not None)]
    ends = [this.end, *(f.end for f in this.findings if f.end is not None)]
    begin, end = min(begins), max(ends)
    calm = max(500_000_000, 6 * (end - begin) // 10)
    return max(recording.begin, begin - calm), min(max(recording.end, end), end + calm)


def slot(recording: Recording, place: str) -> int:
    """The colour of a place. A server has one colour in the whole report; other places get the remaining colours, in
    order of appearance."""
    return recording.order.get(place, 0) % CURVES_MAX


def _nearest(recording: Recording, this: Episode | None, places: Sequence[str]) -> list[str]:
    """As many places as a chart can show, in their order: those of the episode, and then their neighbours in the call
    graph."""
    if len(places) <= CURVES_MAX or this is None:
        return list(places[:CURVES_MAX])
    ends = [server for server in (this.dropper, this.origin) if server is not None]
    away = recording.away((*ends, *(w.server for w in this.wave)))
    nearest = set(sorted(places, key=lambda place: (place not in ends, away.get(place, len(away))))[:CURVES_MAX])
    return [place for place in places if place in nearest]


def _window_chart(
    recording: Recording,
    index: int | None,
    step: int | None,
    metric: str,
    title: str,
    shape: Shape,
    span: tuple[int, int],
    this: Episode | None = None,
) -> Chart | None:
    places = [s for s in recording.having(metric) if _has(recording, s, metric, index, span, above=0)]
    curves = tuple(
        Curve(line, words.name(place), slot(recording, place))
        for place in _nearest(recording, this, places)
        if (line := recording.line(place, metric, index)) is not None
    )
    if not curves:
        return None
    title = f"{title} per {words.duration(recording.window_ns)}"
    return Chart(step, title, "count", shape, curves, summary=peaks(recording, curves, span, "count"))


def _queues(recording: Recording, index: int | None, this: Episode | None, span: tuple[int, int]) -> Chart | None:
    chosen = _nearest(recording, this, recording.having("queue_length"))
    curves = tuple(
        Curve(line, words.name(place), slot(recording, place), place_index % 4)
        for place_index, place in enumerate(chosen)
        if (line := recording.line(place, "queue_length", index)) is not None
    )
    if not curves:
        return None
    limits = tuple(
        Limit(w.queue_max, f"limit of {words.name(w.server)} {w.queue_max}", slot(recording, w.server))
        for w in (this.wave if this else ())
        if w.queue_max is not None and w.server in chosen
    )
    title = f"Queue length, longest in each {words.duration(recording.window_ns)}"
    return Chart(
        3 if this else None, title, "count", "lines", curves, limits, summary=peaks(recording, curves, span, "count")
    )


def _resources(recording: Recording, index: int, this: Episode, span: tuple[int, int]) -> list[Chart]:
    stalled = this.findings[3].place
    places = [p for p in dict.fromkeys((this.origin, stalled, *_node(recording, this.origin, stalled))) if p]
    places += _saturated(recording, index, this, places)
    shares = [(p, m) for p in places for m in SHARE_METRICS]
    others = [(p, m) for p in places for m in OTHER_METRICS]
    for metric in HOST_METRICS:
        if not any(recording.line(p, metric, index) is not None for p in places):
            others += [(p, metric) for p in recording.having(metric)[:1]]
    if this.cause == "writeback":
        others = [(p, m) for p, m in others if m not in HOST_METRICS]
    who = words.name(this.origin or stalled or "the origin")
    return [
        *_charts(recording, index, 4, f"Resources of {who}", shares, span, _marks(recording, places, None, span)),
        *_charts(recording, index, 4, f"Resources of {who}", others, span, ()),
    ]


def _saturated(recording: Recording, index: int, this: Episode, known: list[str]) -> list[str]:
    """Cores and hosts that the topology assigns to no server, and that were busy only during the stall."""
    stall, evidence = this.findings[3], {c.place for c in this.causes}
    if stall.verdict != "found" or stall.begin is None or stall.end is None:
        return []
    found, servers = [], set(recording.servers)
    for place in recording.having("cpu_busy"):
        if place in known or place in evidence or place in servers:
            continue
        at = recording.line(place, "cpu_busy", index)
        inside = _within(recording, recording.lines[at], (stall.begin, stall.end)) if at is not None else np.empty(0)
        around_it = _within(recording, recording.lines[at], around(this, recording)) if at is not None else inside
        if len(inside) and np.nanmean(inside) >= SATURATED > np.nanmean(around_it):
            found.append(place)
    return found[:SATURATED_MAX]


def _cause(recording: Recording, index: int, this: Episode, span: tuple[int, int]) -> list[Chart]:
    cause = this.cause
    evidence = [c.place for c in this.causes if c.cause == cause and c.place is not None]
    places = list(dict.fromkeys((*evidence, *((this.findings[4].place,) if this.findings[4].place else ()))))
    if cause == "workload-burst" or not places:
        places = [*places, *(s for s in recording.servers[:1] if s not in places)]
    places = [*places, *(n for n in _node(recording, *places) if n not in places)]
    wanted = [(p, m) for p in places for m in CAUSE_METRICS.get(cause, ())]
    marks = _evidence_marks(recording, places, CAUSE_EVENTS.get(cause, ()), span)
    title = f"Evidence for {words.cause(cause)}"
    made = _charts(recording, index, 5, title, wanted, span, marks)
    if not made and marks and this.origin is not None:
        # Only events show the cause: they are drawn above their effect on the origin.
        bases = [(this.origin, "cpu_busy"), *((p, "cpu_busy") for p in _node(recording, this.origin))]
        bases = [b for b in (*bases, (this.origin, "queue_length")) if recording.line(*b, index) is not None]
        made = _charts(recording, index, 5, title, bases[:1], span, marks)
    return made


def _charts(
    recording: Recording,
    index: int,
    step: int,
    title: str,
    wanted: list[tuple[str, str]],
    span: tuple[int, int],
    marks: tuple[Mark, ...],
) -> list[Chart]:
    """One chart for each unit, with the wanted lines that exist; flat lines are listed instead of drawn."""
    by_unit: dict[Unit, list[tuple[str, str, str, int]]] = {}
    flat: dict[Unit, list[str]] = {}
    one_place = len({p for p, m in wanted if recording.line(p, m, index) is not None}) == 1
    for place, metric in dict.fromkeys(wanted):
        line = recording.line(place, metric, index)
        if line is None:
            continue
        text = words.metric(metric) if one_place else f"{words.name(place)} · {words.metric(metric)}"
        unit = unit_of(metric)
        if metric != "cpu_busy" and not _has(recording, place, metric, index, span, FLAT if unit == "share" else 0):
            flat.setdefault(unit, []).append(text)
        else:
            by_unit.setdefault(unit, []).append((place, metric, text, line))
    charts = []
    for unit, found in by_unit.items():
        curves: list[Curve] = []
        for k, (place, _, text, line) in enumerate(found[:CURVES_MAX]):
            taken = {c.slot for c in curves}
            wish = slot(recording, place)
            free = next(c % CURVES_MAX for c in range(wish, wish + CURVES_MAX) if c % CURVES_MAX not in taken)
            curves.append(Curve(line, text, free, k % 4))
        summary = peaks(recording, tuple(curves), span, unit)
        heading = (
            title if len(found) > 1 or unit == "share" else f"{words.metric(found[0][1])} of {words.name(found[0][0])}"
        )
        charts.append(Chart(step, heading, unit, "lines", tuple(curves), (), marks, tuple(flat.pop(unit, ())), summary))
        marks = ()
    return charts


def _node(recording: Recording, *servers: str | None) -> tuple[str, ...]:
    return tuple(place for s in servers if s is not None for place in recording.places(s))


def _marks(
    recording: Recording, places: list[str] | None, kinds: tuple[str, ...] | None, span: tuple[int, int]
) -> tuple[Mark, ...]:
    chosen = [
        Mark(s.begin, s.end, _mark_label(s))
        for s in recording.spans
        if (places is None or s.place in places)
        and (s.kind in kinds if kinds is not None else s.kind not in ("drop", "data_drop"))
        and s.end >= span[0]
        and s.begin <= span[1]
    ]
    return tuple(chosen[:SPANS_MAX])


def _mark_label(span: Span) -> str:
    kind = words.EVENT_WORDS.get(span.kind, span.kind.replace("_", " "))
    return words.name(kind if span.place == span.kind else f"{kind} · {span.place}")


def _evidence_marks(
    recording: Recording, places: list[str], kinds: tuple[str, ...], span: tuple[int, int]
) -> tuple[Mark, ...]:
    """Events of the cause's kinds at its places, or at any place if these places have none: a log may not state its
    server."""
    if not kinds:
        return ()
    return _marks(recording, places, kinds, span) or _marks(recording, None, kinds, span)


def unit_of(metric: str) -> Unit:
    if metric in SHARES or metric.startswith(CAPACITY):
        return "share"
    if metric == "response":
        return "duration"
    return "bytes" if metric.endswith("_bytes") else "hertz" if "_hz" in metric else "count"


def _within(recording: Recording, line: Line, span: tuple[int, int]) -> np.ndarray:
    times = recording.axes[line.axis].times
    first, last = np.searchsorted(times, span)
    return line.values[first:last]


def _has(recording: Recording, place: str, metric: str, index: int | None, span: tuple[int, int], above: float) -> bool:
    at = recording.line(place, metric, index)
    if at is None:
        return False
    values = _within(recording, recording.lines[at], span)
    return bool((values > above).any())


def peaks(recording: Recording, curves: tuple[Curve, ...], span: tuple[int, int], unit: Unit) -> str:
    parts = []
    for curve in curves:
        line = recording.lines[curve.line]
        times = recording.axes[line.axis].times
        first, last = np.searchsorted(times, span)
        values = line.values[first:last]
        if not np.isfinite(values).any():
            parts.append(f"{curve.label}: no data")
            continue
        peak = int(np.nanargmax(values))
        at = words.moment(int(times[first + peak]), recording.begin)
        parts.append(f"{curve.label}: up to {value(float(values[peak]), unit)} at {at}")
    return "; ".join(parts) + "."


def value(number: float, unit: Unit) -> str:
    if unit == "share":
        return f"{100 * number:.0f} %"
    if unit == "bytes":
        return units.format_bytes(round(number))
    if unit == "hertz":
        return f"{number / 1e9:.2f} GHz"
    if unit == "duration":
        return units.format_duration(round(number * units.SECOND))
    return f"{number:,.0f}" if number >= 10 or float(number).is_integer() else f"{number:.1f}"
