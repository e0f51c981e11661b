"""The report on one screen of a terminal: the answer, a table of chains, each chain with timelines, and open questions.

Colour only repeats a word or a sign, so the report reads the same without colour; lines fit the console's width.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tailrace.diagnosis.finding import Diagnosis, Episode, Finding, Verdict
from tailrace.foreign import listed
from tailrace.report import charts, words
from tailrace.report.recording import Recording

CHAINS_MAX = 3
"""Chains that are shown completely, so that the answer stays on one screen."""
LINES_MAX = 12
"""Further episodes that have one line each."""
SPARKS_MAX = 60
BLOCKS = " ▁▂▃▄▅▆▇█"
SIGNS: dict[Verdict, tuple[str, str]] = {
    "found": ("●", "green"),
    "absent": ("○", "dim"),
    "unknown": ("?", "yellow"),
}


def print_terminal(diagnosis: Diagnosis, console: Console, recording: Recording | None = None) -> None:
    """Print the report; with the recording, each chain has small timelines."""
    _answer(diagnosis, console)
    if diagnosis.summary:
        _summary(diagnosis, console)
    _episodes(diagnosis, console, recording)
    if diagnosis.unknown:
        console.print(Text("Not known", style="bold"))
        for gap in diagnosis.unknown:
            line = Text(f"{words.sentence(gap.what)}. Would settle it: {words.sentence(gap.datum)}")
            console.print(_hanging("?", "yellow", line))
        console.print()
    for note in diagnosis.notes:
        console.print(Text(words.sentence(note), style="dim"))
    for flaw in recording.flaws[:LINES_MAX] if recording is not None else ():
        console.print(Text(words.sentence(flaw), style="yellow"))
    threshold = f"VLRT from {words.duration(diagnosis.threshold_ns)}: {words.sentence(diagnosis.threshold_reason)}."
    console.print(Text(f"{threshold} Windows of {words.duration(diagnosis.window_ns)}.", style="dim"))


def _answer(diagnosis: Diagnosis, console: Console) -> None:
    console.print()
    for k, sentence in enumerate(diagnosis.answer):
        console.print(Text(words.sentence(sentence), style="bold" if k == 0 else ""))
    part = diagnosis.vlrt / diagnosis.requests if diagnosis.requests else 0.0
    facts = f"{words.plural(diagnosis.requests, 'request')} · {words.count(diagnosis.vlrt)} VLRT ({words.share(part)})"
    if diagnosis.vlrt:
        facts += f" · {words.share(diagnosis.explained)} explained"
        facts += f" · {words.plural(len(diagnosis.episodes), 'episode')}"
    if diagnosis.unanswered:
        facts += f" · {words.count(sum(one.requests for one in diagnosis.unanswered))} not answered"
    console.print(Text(facts, style="dim"))
    console.print()


def _summary(diagnosis: Diagnosis, console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("dropped by", "origin", "cause", "overflow"):
        table.add_column(heading, overflow="fold")
    table.add_column("VLRT", justify="right", no_wrap=True)
    for row in diagnosis.summary:
        table.add_row(
            *(Text(words.name(cell) if cell else "–") for cell in (row.dropper, row.origin)),
            Text(words.cause(row.cause), style="bold"),
            Text(words.CTQO_WORDS[row.ctqo]),
            Text(words.count(row.vlrt)),
        )
    console.print(table)
    console.print()


def _episodes(diagnosis: Diagnosis, console: Console, recording: Recording | None) -> None:
    """The first episode of each chain is shown completely, the others as "like" it."""
    begin = recording.begin if recording is not None else diagnosis.begin or 0
    first: dict[tuple[str | None, str | None, str], int] = {}
    lines = 0
    for index, this in enumerate(diagnosis.episodes):
        chain = (this.dropper, this.origin, this.cause)
        if chain not in first and len(first) < CHAINS_MAX:
            first[chain] = index + 1
            _episode(index, this, begin, console)
            if recording is not None:
                console.print(Padding(Sparks(recording, diagnosis, index), (0, 0, 0, 2)))
            console.print()
            continue
        lines += 1
        if lines <= LINES_MAX:
            like = f", like episode {first[chain]}" if chain in first else f": {words.cause(this.cause)}"
            console.print(Text.assemble((f"Episode {index + 1}", "bold"), f"  {_facts(this, begin)}{like}"))
    if lines > LINES_MAX:
        console.print(Text(f"and {words.plural(lines - LINES_MAX, 'more episode')}"))
    if lines:
        console.print()


def _facts(this: Episode, begin: int) -> str:
    return f"{words.count(this.vlrt)} VLRT at {words.moment(this.begin, begin)}"


def _episode(index: int, this: Episode, begin: int, console: Console) -> None:
    facts = f"{_facts(this, begin)}, {words.clock(this.begin)}"
    console.print(Text.assemble((f"Episode {index + 1}", "bold"), f"  {facts}"))
    for number, finding in enumerate(this.findings, 1):
        console.print(_finding(number, finding))
    if this.ledger is not None:
        console.print(_hanging("  =", "", Text.assemble(("Ledger: ", "bold"), words.sentence(this.ledger.sentence))))


def _finding(number: int, finding: Finding) -> Table:
    sign, style = SIGNS[finding.verdict]
    title = words.STEP_TITLES[finding.step]
    text = Text.assemble((f"{title}: ", "bold"), words.sentence(finding.sentence))
    if finding.verdict != "found":
        text = Text.assemble((f"{title} ({finding.verdict}): ", "bold"), words.sentence(finding.sentence))
    if finding.missing:
        text.append(f" Would settle it: {words.sentence(finding.missing)}", style="yellow")
    if finding.inputs:
        text.append(f" (from {listed(finding.inputs)})", style="dim")
    return _hanging(f"{number} {sign}", style, text)


def _hanging(sign: str, style: str, text: Text) -> Table:
    """A sign and a paragraph beside it."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"  {sign}", style=style), text)
    return grid


class Sparks:
    """The episode's timelines in block characters: one line for each series, all over the same interval."""

    def __init__(self, recording: Recording, diagnosis: Diagnosis, index: int) -> None:
        self.recording = recording
        self.group = charts.episode(recording, diagnosis, index)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        once = {
            curve.line: (chart, curve)
            for chart in self.group.charts
            if chart.unit in ("count", "share") and chart.step != 2
            for curve in chart.curves
        }
        rows = list(once.values())
        if not rows:
            return
        labels = [self._label(chart, curve) for chart, curve in rows]
        wide = min(max(map(len, labels)), options.max_width // 3)
        width = max(10, min(SPARKS_MAX, options.max_width - wide - 14))
        lines = []
        for (chart, curve), label in zip(rows, labels, strict=True):
            peaks = self._peaks(curve.line, width)
            most = float(np.nanmax(peaks)) if np.isfinite(peaks).any() else 0.0
            top = 1.0 if chart.unit == "share" else most
            shown = label if len(label) <= wide else label[: wide - 1] + "…"
            bar = spark(peaks, top)
            lines.append(
                Text.assemble((f"{shown:<{wide}} ", "dim"), (bar, "cyan"), f" {charts.value(most, chart.unit)}")
            )
        edge = words.moment(self.group.begin, self.recording.begin), words.moment(self.group.end, self.recording.begin)
        lines.append(Text(f"{'':<{wide}} {edge[0]:<{width - len(edge[1])}}{edge[1]} max", style="dim"))
        yield Group(*lines)

    def _label(self, chart: charts.Chart, curve: charts.Curve) -> str:
        line = self.recording.lines[curve.line]
        what = {"vlrt": "VLRT", "queue_length": "queue", "cpu_busy": "CPU"}.get(line.metric, words.metric(line.metric))
        return f"{words.name(line.place)} {what}" if line.metric != "vlrt" else f"VLRT {words.name(line.place)}"

    def _peaks(self, line: int, width: int) -> np.ndarray:
        """The largest value in each of `width` equal parts of the interval; NaN where there is none."""
        values = self.recording.lines[line].values
        times = self.recording.axes[self.recording.lines[line].axis].times
        edges = np.linspace(self.group.begin, self.group.end, width + 1)
        bounds = np.searchsorted(times, edges)
        peaks = np.full(width, np.nan)
        last = np.nan
        for k in range(width):
            part = values[bounds[k] : bounds[k + 1]]
            known = part[np.isfinite(part)]
            # A part that is narrower than the sampling interval keeps the last value.
            last = float(known.max()) if len(known) else last
            peaks[k] = last
        return peaks


def spark(values: np.ndarray, top: float) -> str:
    """Values from 0 to `top` as characters; a value above 0 has at least the lowest block."""
    steps = len(BLOCKS) - 1
    out = []
    for value in values:
        if not np.isfinite(value) or top <= 0 or value <= 0:
            out.append(BLOCKS[0])
        else:
            out.append(BLOCKS[max(1, min(steps, round(steps * value / top)))])
    return "".join(out)
