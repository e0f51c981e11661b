"""The numbers of the charts as JSON inside the page.

Values are scaled integers, written as differences, and not compressed arrays. 30 min at 50 ms with 13 lines take 1.4 MB
instead of 0.5 MB with deflate in base64 (measured on the fixture of tests/fixtures_report.py). But every browser, old
or new, reads them in one synchronous step, and the bytes do not depend on the version of zlib. Longer recordings are
thinned before (series.py), so the page stays small.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tailrace.report.charts import Band, Chart, Group, Unit, unit_of
from tailrace.report.recording import Axis, Line, Recording

SCALES: dict[Unit, float] = {"share": 1000.0, "count": 10.0, "bytes": 1 / 1024, "hertz": 1e-6, "duration": 10_000.0}
"""Steps that are too small to see: 0.1 %, a tenth of a request, 1 KiB, 1 MHz, 0.1 ms."""

MOST = 2.0**52
"""The number of steps that a browser counts exactly; a larger value is drawn as this one."""


def payload(recording: Recording, groups: dict[str, Group]) -> dict[str, Any]:
    """Everything that the page's scripts need; times are in seconds since the begin of the recording."""
    used = sorted({c.line for g in groups.values() for chart in g.charts for c in chart.curves})
    axes = sorted({recording.lines[i].axis for i in used})
    return {
        "begin_ms": recording.begin // 1_000_000,
        "length": _seconds(recording.end, recording),
        "window": recording.window_ns / 1e9,
        "axes": [_axis(recording.axes[i], recording) for i in axes],
        "lines": [_line(recording.lines[i], axes.index(recording.lines[i].axis)) for i in used],
        "groups": {key: _group(group, recording, used) for key, group in groups.items()},
    }


def script_json(data: object) -> str:
    """JSON that cannot end the script element around it, whatever names it contains."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _axis(axis: Axis, recording: Recording) -> dict[str, Any]:
    micros = (axis.times - recording.begin) // 1000
    steps = np.diff(micros)
    head = {"first": int(micros[0]) if len(micros) else 0, "step": axis.step_ns / 1e9}
    if len(steps) == 0 or (steps == steps[0]).all():
        return {**head, "every": int(steps[0]) if len(steps) else 0, "count": len(micros)}
    return {**head, "steps": steps.tolist()}


def _line(line: Line, axis: int) -> dict[str, Any]:
    scale = SCALES[unit_of(line.metric)]
    known = np.isfinite(line.values)
    values = np.clip(line.values * scale, -MOST, MOST)
    scaled = np.rint(np.where(known, values, 0)).astype(np.int64)
    moved = np.diff(scaled, prepend=0).tolist()
    if known.all():
        return {"axis": axis, "scale": scale, "moves": moved}
    holes = [int(i) for i in np.flatnonzero(~known)]
    return {"axis": axis, "scale": scale, "moves": moved, "holes": holes}


def _group(group: Group, recording: Recording, used: list[int]) -> dict[str, Any]:
    return {
        "from": _seconds(group.begin, recording),
        "to": _seconds(group.end, recording),
        "bands": [_band(b, recording) for b in group.bands],
        "charts": [_chart(c, recording, used) for c in group.charts],
    }


def _band(band: Band, recording: Recording) -> dict[str, Any]:
    kind = {"step": band.step} if band.step is not None else {"episode": band.episode}
    return {"from": _seconds(band.begin, recording), "to": _seconds(band.end, recording), **kind}


def _chart(chart: Chart, recording: Recording, used: list[int]) -> dict[str, Any]:
    return {
        "step": chart.step,
        "unit": chart.unit,
        "shape": chart.shape,
        "curves": [
            {"line": used.index(c.line), "label": c.label, "slot": c.slot, "dash": c.dash} for c in chart.curves
        ],
        "limits": [{"value": x.value, "label": x.label, "slot": x.slot} for x in chart.limits],
        "marks": [[_seconds(m.begin, recording), _seconds(m.end, recording), m.label] for m in chart.marks],
    }


def _seconds(ns: int, recording: Recording) -> float:
    return round((ns - recording.begin) / 1e9, 6)
