"""Drawings of queues and of the bottleneck's concurrency, for the page of an advice."""

from __future__ import annotations

from tailrace.advise.queues import Knee, Queue
from tailrace.report import words
from tailrace.report.plots import Curve, Plot, Point, Tick, nice, number, scale
from tailrace.units import SECOND

NOW, AFTER = 0, 2
"""Colours."""


def queue(line: Queue) -> Plot:
    """The longest queue in each window, without and with the change."""
    y = scale([*line.now, *line.after])
    count = max(len(line.now), len(line.after))
    end = count * line.window / SECOND
    step = nice(end / 5)
    ticks = tuple(Tick(k * step / end, number(k * step)) for k in range(int(end / step) + 1))
    curves = tuple(
        Curve(
            label,
            slot,
            tuple(Point((k + 0.5) / count, y.at(value), "") for k, value in enumerate(values)),
            dots=False,
        )
        for label, slot, values in (("now", NOW, line.now), ("with the change", AFTER, line.after))
        if values
    )
    title = f"Longest queue of {words.name(line.tier)}"
    said = f"now up to {words.count(max(line.now))}" + (
        f", with the change up to {words.count(max(line.after))}" if line.after else ""
    )
    return Plot(title, "s", "requests", ticks, y.ticks, curves=curves, said=said)


def knee(found: Knee) -> Plot:
    """Answers a second by concurrency, on a logarithmic axis."""
    rates = [rate for _, rate in found.points]
    y = scale(rates)
    room = 1 / len(found.points)
    at = [(k + 0.5) * room for k in range(len(found.points))]
    points = tuple(
        Point(x, y.at(rate), f"{inside} or more inside: {words.count(rate)} answers a second")
        for x, (inside, rate) in zip(at, found.points, strict=True)
    )
    ticks = tuple(Tick(x, words.count(inside)) for x, (inside, _) in zip(at, found.points, strict=True))
    title = f"Answers of {words.name(found.tier)} by the requests inside it, now"
    return Plot(
        title,
        "requests inside, from here to the next",
        "answers a second",
        ticks,
        y.ticks,
        curves=(Curve("now", NOW, points),),
    )


def sentence(found: Knee) -> str:
    """Where more concurrency no longer brings more answers."""
    name, last = words.name(found.tier), found.points[-1]
    most = max(rate for _, rate in found.points)
    text = f"{name} answers most with {words.count(found.at)} requests inside: {words.count(most)} a second at most."
    if last[1] < most / 2:
        text += f" With {words.count(last[0])} or more it answers {words.count(last[1])} a second: it is stalled then."
    return text
