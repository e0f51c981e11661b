"""Windows under a cell of a notebook: a line for each server, in the notebook's own colours, above the first rows."""

from __future__ import annotations

from html import escape

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import foreign
from tailrace.report import words

SERVERS_MAX = 12
"""Those with the most VLRT are drawn, and then those with the longest queues."""
ROWS = 8
"""So many rows follow the drawing."""
WIDTH, HEIGHT, MARK = 600, 36, 6
"""Of a drawing, and below it of a mark of VLRT, in pixels."""
CELL = "text-align:left;padding:2px 16px 2px 0"
NEEDED = {"server", "window", "queue_mean", "vlrt"}


class Windows(pl.DataFrame):
    """What `tr.windows` returns: a table like any other, which a notebook draws."""

    def _repr_html_(self, *, _from_series: bool = False) -> str:
        if self.is_empty() or not set(self.columns) >= NEEDED:
            return super()._repr_html_(_from_series=_from_series)
        texts = [name for name in ("server", "interaction") if name in self.columns]
        head = pl.DataFrame(self.head(ROWS)).with_columns(pl.col(texts).cast(pl.String))
        shown = head.with_columns(pl.col(texts).map_elements(foreign.name, return_dtype=pl.String))
        return f"{drawn(self)}{shown._repr_html_()}"


def drawn(windows: pl.DataFrame) -> str:
    """HTML without scripts: the queue of each server over time, and the windows whose requests were very long."""
    longest = "queue_max" if "queue_max" in windows.columns and "interaction" not in windows.columns else "queue_mean"
    by_window = (
        pl.DataFrame(windows)
        .group_by(pl.col("server").cast(pl.String), "window")
        .agg(pl.col(longest, "vlrt").sum())
        .sort("server", "window")
    )
    by_server = (
        by_window.group_by("server")
        .agg(pl.col("vlrt").sum(), pl.col(longest).max().alias("peak"))
        .sort("vlrt", "peak", "server", descending=[True, True, False])
    )
    begin, end = (int(one) for one in by_window.select(pl.min("window"), pl.max("window").alias("end")).row(0))
    rows = "".join(
        _row(name, by_window.filter(pl.col("server") == name), longest, begin, end)
        for name in by_server["server"].head(SERVERS_MAX)
    )
    heads = "".join(f"<th scope='col' style='{CELL}'>{one}</th>" for one in ("Server", "Queue", "Longest", "VLRT"))
    left = by_server.height - SERVERS_MAX
    more = f" {words.plural(left, 'more server')} {'is' if left == 1 else 'are'} not drawn." if left > 0 else ""
    said = "most visits at once" if longest == "queue_max" else "mean of a window"
    text = (
        f"From {words.clock(begin)} to {words.clock(end)}; the queue is the {said}. Marks below a line are windows in "
        f"which VLRT arrived.{more} The table has {words.plural(windows.height, 'row')}; the first ones follow."
    )
    return (
        f"<div class='tailrace'><table style='margin:0 0 8px'><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"
        f"</table><p style='margin:0 0 8px;opacity:.7'>{escape(text)}</p></div>"
    )


def _row(name: str, windows: pl.DataFrame, longest: str, begin: int, end: int) -> str:
    columns = (windows["window"].to_numpy() - begin) * (WIDTH - 1) // max(end - begin, 1)
    queue = windows[longest].to_numpy().astype(np.float64)
    peak, vlrt = float(queue.max()), windows["vlrt"].to_numpy()
    name = escape(foreign.name(name), quote=True)
    shape = (
        f"<svg width='{WIDTH}' height='{HEIGHT + MARK}' role='img' aria-label='Queue of {name}'>"
        f"<polyline points='{_points(columns, queue, peak)}' style='fill:none;stroke:currentColor'/>"
        f"<path d='{_marks(columns[vlrt > 0])}' style='stroke:#d1442f'/></svg>"
    )
    most = words.count(peak) if longest == "queue_max" else f"{peak:,.2f}"
    cells = "".join(f"<td style='{CELL}'>{one}</td>" for one in (name, shape, most, words.count(int(vlrt.sum()))))
    return f"<tr>{cells}</tr>"


def _points(columns: NDArray[np.int64], queue: NDArray[np.float64], peak: float) -> str:
    """The largest value of each column of pixels. Between the windows that are there, nothing changed."""
    at, first = np.unique(columns, return_index=True)
    largest = np.maximum.reduceat(queue, first)
    heights = HEIGHT - 1 - largest * (HEIGHT - 2) / max(peak, 1e-9)
    return " ".join(f"{x},{y:.1f}" for x, y in zip(at.tolist(), heights.tolist(), strict=True))


def _marks(columns: NDArray[np.int64]) -> str:
    return "".join(f"M{x} {HEIGHT}v{MARK}" for x in np.unique(columns).tolist())
