"""Rows of Netdata's charts → samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tailrace.readers.netdata_charts import Chart, Value
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found
from tailrace.units import SECOND

_BUSY = ("user", "system", "nice", "irq", "softirq")
_SAMPLES_PER_ROW = 16
"""A row takes as much memory as so many samples."""

Row = dict[str, float]
"""By dimension, in lower case."""
Series = dict[tuple[str, str], dict[int, tuple[float, int | None, str]]]
"""By place and metric, and by moment: the value, the step that ends then, and its kind."""


@dataclass
class Charted:
    """The rows of charts, by place and name of the chart, until all are there."""

    most: int
    """So many samples fit into memory."""
    count: int = 0
    _charts: dict[tuple[str, str], Chart] = field(default_factory=dict)
    _rows: dict[tuple[str, str], dict[int, list[Row]]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def full(self) -> bool:
        return self.count * _SAMPLES_PER_ROW >= self.most

    def add(self, place: str, name: str, chart: Chart, stamp: int, row: Row) -> None:
        """A row of a chart; there may be several of the same moment."""
        self._charts[place, name] = chart
        self._rows[place, name].setdefault(stamp, []).append(row)
        self.count += 1

    def add_cell(self, place: str, name: str, chart: Chart, stamp: int, dimension: str, value: float | None) -> None:
        """One value of the row of this moment."""
        rows = self._rows[place, name].get(stamp)
        if rows is None:
            self.add(place, name, chart, stamp, {})
            rows = self._rows[place, name][stamp]
        if value is not None:
            rows[-1][dimension.lower()] = value

    def into(self, samples: Sampled, found: Found) -> None:
        series: Series = {}
        for (place, name), rows in self._rows.items():
            chart = self._charts[place, name]
            _take(series, found, chart, chart.place or place, rows)
        for (place, metric), values in series.items():
            for stamp, (value, step, kind) in values.items():
                if kind == "level":
                    samples.add(stamp, step, place, metric, value)
                elif step is None:
                    found.lose("values whose interval is unknown", 1)
                else:
                    samples.add(stamp, step, place, metric, round(value * step / SECOND, 6))


def _take(series: Series, found: Found, chart: Chart, place: str, taken: Mapping[int, list[Row]]) -> None:
    """The values of a chart; of several disks, the busiest. The step is the usual time between rows."""
    gaps = Counter(after - before for before, after in pairwise(sorted(taken)))
    step = min((gap for gap, often in gaps.items() if often == max(gaps.values())), default=None)
    for stamp, rows in taken.items():
        for row in rows:
            levels = list(_levels(chart, row))
            if not levels:
                found.lose("samples without a value", 1)
            for value, level in levels:
                values = series.setdefault((place + chart.suffix, value.metric), {})
                old = values.get(stamp)
                if old is None or level > old[0]:
                    values[stamp] = (level, step, value.kind)


def _levels(chart: Chart, row: Mapping[str, float]) -> Iterator[tuple[Value, float]]:
    for value in chart.values:
        if value.dimensions:
            cells = [row[key] for key in row.keys() & value.dimensions]
            if cells:
                yield value, max(cells) * value.scale
        elif row.keys() >= {"user", "system"}:
            yield Value("cpu_busy"), sum(row.get(mode, 0.0) for mode in _BUSY) / 100
            for mode in ("iowait", "steal"):
                if mode in row:
                    yield Value(f"cpu_{mode}"), row[mode] / 100
