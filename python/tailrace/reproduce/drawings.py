"""Drawings of panels: static ones as plots, timelines as linked charts on one recording whose time begins at 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tailrace.report.charts import Chart, Curve, Group, Limit, Shape
from tailrace.report.plots import LEAST, SLOTS, Bar, Plot, Point, Scale, Tick, counted, nice, number, point, scale
from tailrace.report.plots import Curve as PlotCurve
from tailrace.report.recording import Axis, Line, Recording
from tailrace.reproduce.expected import Expected
from tailrace.reproduce.outcome import Cell, Drawing, Outcome
from tailrace.reproduce.panels import Bars, Frequency, Lines, Timeline
from tailrace.study.drawn import COUNTED, unit_of
from tailrace.units import format_duration

METRICS = {"queue": "queue_length", "throughput": "arrivals", "collecting": "gc_share"}
"""Series whose numbers the report draws under another metric."""


@dataclass(frozen=True)
class Piece:
    """The drawings of a figure, from top to bottom: plots, or a group of timelines by its key."""

    plots: tuple[Plot, ...] = ()
    group: str = ""
    charts: tuple[Chart, ...] = ()


class Timelines:
    """All timelines of a page: one recording, with a group for each stack."""

    def __init__(self) -> None:
        self.axes: list[Axis] = []
        self.lines: list[Line] = []
        self.groups: dict[str, Group] = {}
        self.window = 0

    def add(self, key: str, panels: Sequence[tuple[Timeline, Drawing]]) -> tuple[Chart, ...]:
        charts = tuple(self._chart(panel, drawing) for panel, drawing in panels)
        begin, end = min(panel.begin for panel, _ in panels), max(panel.end for panel, _ in panels)
        self.groups[key] = Group(begin, end, charts, ())
        return charts

    def recording(self) -> Recording:
        end = max((group.end for group in self.groups.values()), default=1)
        return Recording(0, end, self.window or 1, (), tuple(self.axes), tuple(self.lines))

    def _chart(self, panel: Timeline, drawing: Drawing) -> Chart:
        self.window = min(self.window or panel.window, panel.window)
        curves = []
        for slot, found in enumerate(drawing.lines[:SLOTS]):
            values = np.array([np.nan if v is None else v for v in found["values"]], dtype=np.float64)
            times = found["first"] + np.arange(len(values), dtype=np.int64) * panel.window
            self.axes.append(Axis(times, panel.window))
            self.lines.append(
                Line(len(self.axes) - 1, found["label"], METRICS.get(found["series"], found["series"]), values)
            )
            curves.append(Curve(len(self.lines) - 1, found["label"], slot, slot % 4))
        series = [line.series for line in panel.lines]
        unit = unit_of(series[0])
        shape: Shape = "columns" if len(curves) == 1 and series[0] in COUNTED else "lines"
        summary = "; ".join(f"{line['label']}: up to {_most(line['values'])}" for line in drawing.lines) or "no data"
        limits = tuple(Limit(mark.value, mark.label, slot) for slot, mark in enumerate(panel.limits))
        return Chart(
            None, panel.title, "count" if unit == "rate" else unit, shape, tuple(curves), limits, summary=summary
        )


def pieces(outcome: Outcome, key: str, timelines: Timelines) -> list[Piece]:
    """The drawing of a figure; timelines in a row become one group, `key`-1 and so on."""
    found: list[Piece] = []
    row: list[tuple[Timeline, Drawing]] = []

    def end_of_row() -> None:
        if row:
            name = f"{key}-{len(timelines.groups) + 1}"
            found.append(Piece(group=name, charts=timelines.add(name, row)))
            row.clear()

    for panel, drawing in zip(outcome.expected.panels, outcome.drawings, strict=True):
        if isinstance(panel, Timeline):
            row.append((panel, drawing))
            continue
        end_of_row()
        if isinstance(panel, Frequency):
            found.append(Piece(plots=tuple(_frequency(panel, drawing))))
        elif isinstance(panel, Lines):
            found.append(Piece(plots=(_lines(panel, outcome),)))
        else:
            found.append(Piece(plots=(_bars(panel, outcome),)))
    end_of_row()
    return found


def _most(values: Sequence[float | None]) -> str:
    return number(max((value for value in values if value is not None), default=0.0))


def _frequency(panel: Frequency, drawing: Drawing) -> Iterator[Plot]:
    bounds = panel.bounds()
    every = [count for counts in drawing.distributions.values() for count in counts]
    y = counted(every) if panel.log else scale([0.0, *every])
    for run, counts in drawing.distributions.items():
        title = f"{panel.title}, {run}" if panel.title else run
        yield Plot(
            title=title,
            x_label="response time",
            y_label="requests",
            x_ticks=_times(bounds) if not panel.edges else _between(bounds),
            y_ticks=y.ticks,
            bars=tuple(_frequency_bars(panel, bounds, counts, y)),
            width=1000 if len(drawing.distributions) == 1 else 560,
        )


def _frequency_bars(panel: Frequency, bounds: Sequence[int], counts: Sequence[float], y: Scale) -> Iterator[Bar]:
    """Equal bins have their true width; unequal ones are drawn side by side, as in the papers."""
    places = len(bounds)
    for i, count in enumerate(counts):
        if count <= 0:
            continue
        last = i + 1 == len(bounds)
        span = f"{format_duration(bounds[i])} {'and more' if last else 'to ' + format_duration(bounds[i + 1])}"
        slow = 1 if bounds[i] >= 1_000_000_000 else 0
        yield Bar(i / places, 1 / places, max(LEAST, y.at(count)), f"{span}: {number(round(count, 1))} requests", slow)


def _times(bounds: Sequence[int]) -> tuple[Tick, ...]:
    """Ticks of equal bins; one more bin, for what is above, follows the last bound."""
    whole = bounds[-1] + bounds[1] - bounds[0]
    step = round(nice(bounds[-1] / 6))
    return tuple(Tick(t / whole, format_duration(t) if t else "0") for t in range(0, bounds[-1] + 1, step))


def _between(bounds: Sequence[int]) -> tuple[Tick, ...]:
    return tuple(Tick(i / len(bounds), format_duration(bound) if bound else "0") for i, bound in enumerate(bounds))


def _lines(panel: Lines, outcome: Outcome) -> Plot:
    expected = outcome.expected
    rows = [(line, _along(line.run, expected, line.value, panel.x)) for line in panel.lines]
    cells = {(line.value, run): outcome.cell(line.value, run) for line, along in rows for _, run in along}
    x = scale([at for _, along in rows for at, _ in along], from_zero=False)
    y = scale([number for cell in cells.values() for number in _numbers(cell)], panel.log)
    curves = [
        PlotCurve(
            label=line.label or line.value,
            slot=slot % SLOTS,
            points=tuple(_point(cells[line.value, run], x.at(at), y) for at, run in along),
            marks=tuple(
                (x.at(at), y.at(paper), f"the paper, {run}: {number(paper)}")
                for at, run in along
                if (paper := cells[line.value, run].paper) is not None
            ),
        )
        for slot, (line, along) in enumerate(rows)
    ]
    return Plot(
        title=panel.title,
        x_label=panel.x_label or panel.x.rpartition(".")[2],
        y_label=expected.value(panel.lines[0].value).unit,
        x_ticks=x.ticks,
        y_ticks=y.ticks,
        curves=tuple(curves),
        marked=any(curve.marks for curve in curves),
    )


def _along(named: Sequence[str], expected: Expected, value: str, key: str) -> list[tuple[float, str]]:
    """The runs along a line, with their places on the axis."""
    names = named or expected.runs_of(expected.value(value))
    return [(float(expected.run(name).set[key]), name) for name in names]


def _point(cell: Cell, x: float, y: Scale) -> Point:
    ours = cell.ours.interval
    words = f"{cell.run}, {cell.value}: {number(ours.mean)}{' ' + cell.unit if cell.unit else ''}"
    return point(x, ours.mean, (ours.low, ours.high), words, y)


def _numbers(cell: Cell) -> list[float]:
    """The values that the axis must contain."""
    found = [cell.ours.interval.mean, cell.paper]
    return [value for value in found if value is not None]


def _bars(panel: Bars, outcome: Outcome) -> Plot:
    runs = panel.run or tuple(run.name for run in outcome.expected.runs)
    known = {(cell.value, cell.run): cell for cell in outcome.cells}
    y = scale([0.0, *(n for (value, run), cell in known.items() if value in panel.values for n in _numbers(cell))])
    if panel.log:
        y = scale([n for cell in known.values() if cell.value in panel.values for n in _numbers(cell)], log=True)
    group = 1 / len(runs)
    width = 0.8 * group / len(panel.values)
    bars = [
        Bar(
            left=place * group + 0.1 * group + slot * width,
            width=width,
            height=max(LEAST, y.at(cell.ours.interval.mean)),
            words=f"{run}, {value}: {number(cell.ours.interval.mean)} {cell.unit}".rstrip(),
            slot=slot % SLOTS,
            mark=None if cell.paper is None else y.at(cell.paper),
            low=ends.low,
            high=ends.high,
        )
        for place, run in enumerate(runs)
        for slot, value in enumerate(panel.values)
        if (cell := known.get((value, run))) is not None
        for ends in [_point(cell, 0.0, y)]
    ]
    return Plot(
        title=panel.title,
        x_label="",
        y_label=outcome.expected.value(panel.values[0]).unit,
        x_ticks=tuple(Tick((place + 0.5) * group, run) for place, run in enumerate(runs)),
        y_ticks=y.ticks,
        bars=tuple(bars),
        legend=tuple((value, slot % SLOTS) for slot, value in enumerate(panel.values)),
        marked=any(bar.mark is not None for bar in bars),
    )
