"""The page of an advice, in one file that needs no network: the answer, bars of what each change leaves, distributions
with and without the best change, the lines to copy, and what limits all this."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from itertools import groupby
from typing import Any

from tailrace.advise import drawings, undone
from tailrace.advise.advice import Advice, Effect, Ranked
from tailrace.advise.answer import hints, predicted, sentences, surge_words
from tailrace.advise.changing import as_options
from tailrace.advise.drawings import AFTER, NOW
from tailrace.advise.outcomes import EDGES
from tailrace.advise.remedies import EFFORTS
from tailrace.report import Section, page, words
from tailrace.report.plots import Bar, Plot, Scale, Tick, counted

WRAPPED = "#changes th, #lines th, #others th { white-space: normal } #changes small { font-weight: normal }"
BAR = 0.6
"""Of the room of a bar."""


def html(advice: Advice) -> str:
    """The whole page; equal advice gives equal text."""
    best = advice.best
    now, do, *mind = sentences(advice)
    plots = [_bars(advice)] if advice.ranked else []
    spread = [_histogram(advice.base, best)] if best else []
    sections = [
        ("answer", "Answer", True),
        ("changes", "Changes", bool(advice.ranked)),
        ("responses", "Response times", bool(best)),
        ("queues", "Queues", advice.queues is not None),
        ("lines", "Lines to change", bool(best)),
        ("others", "Not better", bool(advice.useless)),
        ("twin", "The twin", bool(advice.compared)),
        ("limits", "Method", True),
    ]
    return page.render(
        _template("advice.html.j2"),
        parts={"parts.html.j2": _template("parts.html.j2")},
        title=f"Tailrace advice for {advice.name}",
        numbers={"begin_ms": 0, "length": 1, "window": 1, "axes": [], "lines": [], "groups": {}},
        css=page.asset("page/plots.css") + WRAPPED,
        sections=[(anchor, text) for anchor, text, present in sections if present],
        name=advice.name,
        headline=do,
        answer=[now, *mind],
        complete=advice.complete,
        replications=advice.replications,
        undone=undone.sentence(advice.undone),
        plots=plots,
        spread=spread,
        rows=_rows(advice),
        queues=_queues(advice),
        knee=drawings.sentence(knee) if (knee := advice.queues and advice.queues.knee) else "",
        compared=advice.compared,
        files=_files(advice),
        unnamed=hints(advice),
        set_options=as_options(best.changes) if best else [],
        useless=[(what, words.count(left)) for what, left in advice.useless],
        screened=words.count(advice.screened),
        notes=[words.sentence(note) for note in advice.notes],
        sources=[(one.words, "; ".join(one.sources), " ".join(one.hurts)) for one in advice.ranked if one.helps],
    )


def section(advice: Advice | None, answer: Sequence[str], reasons: Sequence[str]) -> Section:
    """The advice as a section of a diagnosis' report: the answer, the changes, and the lines of the best. Without an
    advice, `reasons` says why."""
    body = page.fragment(
        _template("section.html.j2"),
        {"parts.html.j2": _template("parts.html.j2")},
        answer=answer,
        undone=undone.sentence(advice.undone) if advice else "",
        reasons=[words.sentence(reason) for reason in reasons],
        plots=[_bars(advice)] if advice and advice.ranked else [],
        rows=_rows(advice) if advice else [],
        files=_files(advice) if advice else [],
        unnamed=hints(advice) if advice else "",
    )
    return Section("advice", "What to change", body)


def _queues(advice: Advice) -> list[Plot]:
    if advice.queues is None:
        return []
    knee = [drawings.knee(advice.queues.knee)] if advice.queues.knee else []
    return [drawings.queue(line) for line in advice.queues.lines] + knee


def _template(name: str) -> str:
    return resources.files("tailrace.advise").joinpath(f"page/{name}").read_text(encoding="utf-8")


def _rows(advice: Advice) -> list[dict[str, Any]]:
    return [_now(advice.base), *(_row(number, one) for number, one in enumerate(advice.ranked, 1))]


def _now(base: Effect) -> dict[str, Any]:
    return {
        "change": "nothing",
        "vlrt": predicted(base.vlrt),
        "median": words.duration(base.first.median_ns),
        "p999": words.duration(base.first.p999_ns),
        "failed": words.count(base.failed.mean),
        "surge": "–",
        "effort": "–",
        "mark": "",
        "number": "–",
        "smallest": "",
        "bottleneck": "",
        "caution": "",
        "of_part": False,
    }


def _row(number: int, one: Ranked) -> dict[str, Any]:
    return _now(one.effect) | {
        "number": str(number),
        "change": one.words,
        "surge": surge_words(one.surge) or "–",
        "effort": EFFORTS[one.effort],
        "mark": "" if one.helps else "no better than nothing",
        "smallest": one.smallest,
        "bottleneck": words.name(one.bottleneck) if one.bottleneck else "",
        "caution": one.caution,
        "of_part": one.of_part,
    }


def _bars(advice: Advice) -> Plot:
    """One bar for each change, with the interval; the first is the present."""
    effects = [("nothing", advice.base), *((str(k), one.effect) for k, one in enumerate(advice.ranked, 1))]
    known = [end for _, effect in effects for end in (effect.vlrt.mean, effect.vlrt.high or 0.0)]
    y = counted(known)
    room = 1 / len(effects)
    bars = tuple(
        Bar(
            left=(k + (1 - BAR) / 2) * room,
            width=BAR * room,
            height=_height(y, effect.vlrt.mean),
            words=f"{label}: {predicted(effect.vlrt)}",
            slot=AFTER if k else NOW,
            low=None if effect.vlrt.low is None else _height(y, effect.vlrt.low),
            high=None if effect.vlrt.high is None else _height(y, effect.vlrt.high),
        )
        for k, (label, effect) in enumerate(effects)
    )
    ticks = tuple(Tick((k + 0.5) * room, label) for k, (label, _) in enumerate(effects))
    legend = (("now", NOW), ("with the change of this number", AFTER))
    return Plot("Requests of 1 s or more, with 90 % intervals", "", "requests", ticks, y.ticks, bars, legend=legend)


def _histogram(base: Effect, best: Ranked) -> Plot:
    """Response times of the first replication, without and with the change."""
    both = (NOW, "now", base.first.histogram), (AFTER, "with the change", best.effect.first.histogram)
    y = counted([float(count) for _, _, counts in both for count in counts])
    room = 1 / len(EDGES)
    bars = [
        Bar((k + 0.5 * half) * room, room / 2, _height(y, count), f"{_range(k)} {label}: {words.count(count)}", slot)
        for half, (slot, label, counts) in enumerate(both)
        for k, count in enumerate(counts)
        if count
    ]
    ticks = tuple(Tick(k * room, words.duration(edge)) for k, edge in enumerate(EDGES) if k % 10 == 1)
    legend = tuple((label, slot) for slot, label, _ in both)
    return Plot("Response times, first replication", "", "requests", ticks, y.ticks, tuple(bars), legend=legend)


def _height(y: Scale, count: float) -> float:
    return min(1.0, max(0.0, y.at(count))) if count > 0 else 0.0


def _range(k: int) -> str:
    last = k + 1 == len(EDGES)
    return f"{words.duration(EDGES[k])} or more" if last else f"up to {words.duration(EDGES[k + 1])}"


def _files(advice: Advice) -> list[dict[str, Any]]:
    """The lines of the best change, file by file."""
    if advice.best is None:
        return []
    found = advice.lines(advice.best)
    return [
        {"software": software, "tier": tier, "file": file, "lines": list(lines)}
        for (software, tier, file), lines in groupby(found, key=lambda line: (line.software, line.tier, line.file))
    ]
