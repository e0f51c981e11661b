"""The ledger of an episode on the page: how the capacity of its servers was used, their queues in the recording and in
the replay, and the effect of each cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.finding import UNKNOWN, Diagnosis
from tailrace.diagnosis.judged import DONE, IDLE, UNACCOUNTED, Charged, Columns, Judged, Sheet
from tailrace.report import words
from tailrace.report.charts import CAPACITY, CURVES_MAX, Chart, Curve, Group, peaks, slot
from tailrace.report.recording import Axis, Line, Recording

RECORDED, REPLAYED = "queue_recorded", "queue_replayed"
PARTS = {UNACCOUNTED: "nothing recorded accounts for it"}
SLOTS = {DONE: 2, UNACCOUNTED: 6, IDLE: 8}
CAUSE_SLOTS = (1, 3, 7, 4, 5, 0)
"""Colours of causes, which differ from those of the other parts."""


def with_columns(recording: Recording, diagnosis: Diagnosis, episodes: int) -> Recording:
    """Return the recording with additional curves: the shares of capacity and the queues of each server in the first
    `episodes` episodes."""
    axes, lines = list(recording.axes), list(recording.lines)
    for index, this in enumerate(diagnosis.episodes[:episodes]):
        for sheet in this.ledger.servers if this.ledger is not None else ():
            if sheet.columns is not None:
                lines += _lines(sheet.server, sheet.columns, len(axes))
                axes.append(_axis(sheet.columns, index))
    return replace(recording, axes=tuple(axes), lines=tuple(lines))


def _axis(columns: Columns, index: int) -> Axis:
    steps = np.arange(len(columns.queue_recorded), dtype=np.int64)
    return Axis(columns.begin + steps * columns.step_ns + columns.step_ns // 2, columns.step_ns, index)


def _lines(server: str, columns: Columns, axis: int) -> list[Line]:
    shares = [Line(axis, server, CAPACITY + name, values) for name, values in columns.shares.items()]
    queues = ((RECORDED, columns.queue_recorded), (REPLAYED, columns.queue_replayed))
    return [*shares, *(Line(axis, server, name, values) for name, values in queues)]


def beside(group: Group, recording: Recording, diagnosis: Diagnosis, index: int) -> Group:
    """Return the charts of an episode, followed by the charts of its ledger."""
    judged = diagnosis.episodes[index].ledger
    if judged is None:
        return group
    colours = _colours(judged)
    made = [chart for sheet in judged.servers for chart in _charts(recording, group, sheet, index, colours)]
    return replace(group, charts=(*group.charts, *made))


def _colours(judged: Judged) -> dict[str, int]:
    """The colour of each cause, the same in the stacks and in the bars of an episode."""
    charged = (line.cause for line in judged.lines if line.cause != UNKNOWN)
    causes = dict.fromkeys((*charged, *(one.cause for sheet in judged.servers for one in sheet.lost)))
    return SLOTS | {cause: CAUSE_SLOTS[k % len(CAUSE_SLOTS)] for k, cause in enumerate(causes)}


def _charts(recording: Recording, group: Group, sheet: Sheet, index: int, colours: dict[str, int]) -> list[Chart]:
    columns = sheet.columns
    if columns is None:
        return []
    server = words.name(sheet.server)
    return [
        Chart(
            None,
            f"Capacity of {server}",
            "share",
            "stack",
            _stack(recording, sheet.server, columns.shares, index, colours),
            summary=_sums(sheet),
        ),
        _queue(recording, group, sheet, index),
    ]


def _stack(
    recording: Recording,
    server: str,
    shares: Mapping[str, NDArray[np.float64]],
    index: int,
    colours: dict[str, int],
) -> tuple[Curve, ...]:
    """The curves from top to bottom: each stands on those that follow."""
    names = [name for name, share in shares.items() if name != UNACCOUNTED or share.any()][:CURVES_MAX]
    order = sorted(names, key=lambda name: (name != IDLE, name != UNACCOUNTED, name == DONE))
    found = ((name, recording.line(server, CAPACITY + name, index)) for name in order)
    return tuple(Curve(line, _part(name), colours[name]) for name, line in found if line is not None)


def _queue(recording: Recording, group: Group, sheet: Sheet, index: int) -> Chart:
    own = slot(recording, sheet.server)
    pairs = ((RECORDED, "recorded", own, 0), (REPLAYED, "replayed", (own + 1) % CURVES_MAX, 1))
    curves = tuple(
        Curve(line, label, colour, dash)
        for metric, label, colour, dash in pairs
        if (line := recording.line(sheet.server, metric, index)) is not None
    )
    told = peaks(recording, curves, (group.begin, group.end), "count")
    return Chart(None, f"Queue length of {words.name(sheet.server)}", "count", "lines", curves, summary=told)


def _part(name: str) -> str:
    return PARTS.get(name) or words.cause(name)


def _parts(sheet: Sheet) -> list[tuple[str, int]]:
    lost = ((one.cause, one.lost_ns) for one in sheet.lost)
    return [(DONE, sheet.done_ns), *lost, (UNACCOUNTED, sheet.unaccounted_ns), (IDLE, sheet.idle_ns)]


def _sums(sheet: Sheet) -> str:
    whole = max(sheet.capacity_ns, 1)
    return "; ".join(f"{_part(name)}: {words.share(ns / whole)}" for name, ns in _parts(sheet)) + "."


def ledger(judged: Judged | None) -> dict[str, Any] | None:
    """The words and numbers beside these charts."""
    if judged is None:
        return None
    colours = _colours(judged)
    return {
        "sentence": words.sentence(judged.sentence),
        "sheets": [
            {
                "server": words.name(sheet.server),
                "capacity": words.duration(sheet.capacity_ns),
                "numbers": [(_part(name), words.duration(ns)) for name, ns in _parts(sheet)],
            }
            for sheet in judged.servers
        ],
        "lines": [_line(line, judged, colours) for line in judged.lines],
    }


def _line(line: Charged, judged: Judged, colours: dict[str, int]) -> dict[str, Any]:
    gone = max(judged.vlrt_replayed - line.vlrt_without, 0)
    known = line.cause != UNKNOWN
    return {
        "cause": words.cause(line.cause) if known else PARTS[UNACCOUNTED],
        "known": known,
        "slot": colours[line.cause if known else UNACCOUNTED],
        "server": words.name(line.server) if line.server else "clients",
        "place": words.name(line.place) if line.place and line.place != line.server else "–",
        "share": words.share(line.share),
        "percent": f"{100 * min(max(line.share, 0.0), 1.0):.2f}",
        "gone": f"{words.count(gone)} of {words.count(judged.vlrt_replayed)}",
    }
