"""The report as one HTML file, which a performance engineer shows to the team.

The file contains its styles, scripts and numbers and fetches nothing; equal input gives equal bytes. Names come from
captures, so the template makes every value visible and escapes it, and a content security policy refuses all scripts
but those of the report.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata, resources
from types import MappingProxyType
from typing import Any

import jinja2
from markupsafe import Markup, escape

from tailrace import foreign
from tailrace.diagnosis.finding import STEPS, CauseEvidence, Diagnosis, Episode, Finding
from tailrace.report import accounts, charts, ledgers, words
from tailrace.report.histogram import Histogram, histogram
from tailrace.report.payload import payload, script_json
from tailrace.report.recording import Recording
from tailrace.report.section import Section

OPEN_EPISODES = 3
"""Episodes that are open at first; with many episodes, a reader wants the list."""
CHARTED_EPISODES = 500
"""Episodes that have charts. Further episodes have only text, and the page says so."""
COMPILED = 8
"""Templates that are kept compiled: a process writes pages of few kinds."""
DASHES = ("", "7 3", "2 3", "9 3 2 3")
SCRIPTS = ("vendor/uPlot.iife.min.js", "page/chart.js", "page/report.js")

UNIT_AFTER_NUMBER = re.compile(r"(?<=\d) (?=(?:ns|µs|ms|s|min|h|[kMGT]?B|[kMG]?Hz|%)(?!\w))")

NO_DATA = {
    "vlrt": "No window of this episode contains a VLRT request.",
    "drops": "No lost connection attempt was recorded in this interval.",
    "overflow": "No queue lengths were recorded.",
    "millibottleneck": "No samples of the origin's resources were recorded.",
    "cause": "The recording has no evidence for a cause that could be drawn.",
}

LIMIT_SOURCES = {
    "topology": "configuration",
    "samples": "the kernel's count",
    "plateau": "a plateau of the queue",
    "unknown": "not known",
}


def html(recording: Recording, diagnosis: Diagnosis, more: Sequence[Section] = ()) -> str:
    """The whole page, with further sections behind those of the diagnosis."""
    css = asset("page/plots.css") if more else ""
    return render(asset("page/report.html.j2"), css=css, **_context(recording, diagnosis, more))


def render(
    template: str,
    *,
    title: str,
    numbers: dict[str, Any],
    css: str = "",
    parts: Mapping[str, str] = MappingProxyType({}),
    more_scripts: tuple[str, ...] = (),
    **context: Any,
) -> str:
    """A page from a template that extends base.html.j2. Its scripts draw `numbers` (`payload`). The page also has `css`
    and `more_scripts`. `parts` are further templates that it imports, by name.

    The template needs `sections` (anchor and text of each) in its context, and fills the block `main`.
    """
    scripts = [*(asset(path) for path in SCRIPTS), *more_scripts]
    whole = {
        **context,
        "title": title,
        "script_hashes": Markup(" ".join(_hash(s) for s in scripts)),
        "vendor_css": Markup(asset("vendor/uPlot.min.css")),
        "css": Markup(asset("page/report.css") + css),
        "scripts": [Markup(s) for s in scripts],
        "licence": Markup("uPlot: " + asset("vendor/uPlot.LICENSE").replace("--", "- -")),
        "numbers": Markup(script_json(numbers)),
        "version": _version(),
    }
    return _compiled(template, tuple(sorted(parts.items()))).render(whole) + "\n"


def fragment(template: str, parts: Mapping[str, str], **context: Any) -> Markup:
    """A part of a page, as safe as `render` makes the whole."""
    return Markup(_compiled(template, tuple(sorted(parts.items()))).render(context))


def load() -> None:
    """Compile the templates of the report, for a process that forks others which write reports."""
    environment = _compiled(asset("page/report.html.j2"), ()).environment
    for name in _own_templates():
        environment.get_template(name)


def _own_templates() -> list[str]:
    names = (file.name for file in resources.files(__package__).joinpath("page").iterdir())
    return sorted(name for name in names if name.endswith(".j2"))


@lru_cache(maxsize=COMPILED)
def _compiled(template: str, parts: tuple[tuple[str, str], ...]) -> jinja2.Template:
    return _environment(dict(parts)).from_string(template)


def _environment(parts: Mapping[str, str]) -> jinja2.Environment:
    own = jinja2.FunctionLoader(lambda name: asset(f"page/{name}"))
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.DictLoader(parts), own]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=foreign.html,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = prose
    return environment


def prose(text: str) -> Markup:
    """Escaped text in which backticks mark code, and a number stays on one line with its unit."""
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(foreign.html(text))))
    return Markup(UNIT_AFTER_NUMBER.sub("\u00a0", safe))


def _version() -> str:
    try:
        return metadata.version("tailrace")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def asset(path: str) -> str:
    """A file of the report: page/… or vendor/…"""
    return resources.files("tailrace.report").joinpath(path).read_text(encoding="utf-8")


def _context(recording: Recording, diagnosis: Diagnosis, more: Sequence[Section]) -> dict[str, Any]:
    groups = {"overview": charts.overview(recording, diagnosis)}
    drawn = ledgers.with_columns(recording, diagnosis, CHARTED_EPISODES)
    for i in range(min(len(diagnosis.episodes), CHARTED_EPISODES)):
        group = charts.episode(recording, diagnosis, i)
        groups[f"e{i + 1}"] = ledgers.beside(group, drawn, diagnosis, i)
    episodes = [_episode(recording, diagnosis, i, groups.get(f"e{i + 1}")) for i in range(len(diagnosis.episodes))]
    drawing = histogram(recording, diagnosis)
    return {
        "title": f"Tailrace: {words.sentence(diagnosis.answer[0])}" if diagnosis.answer else "Tailrace",
        "numbers": payload(drawn, groups),
        "sections": _sections(diagnosis, bool(groups["overview"].charts), more),
        "more": more,
        "when": _when(diagnosis, recording),
        "answer": [words.sentence(s) for s in diagnosis.answer] or ["No answer."],
        "path": _path(diagnosis),
        "figures": _figures(recording, diagnosis),
        "overview": {"charts": [chart_context(c) for c in groups["overview"].charts]},
        "episodes": episodes,
        "episodes_title": words.plural(len(episodes), "episode"),
        "open_all": all(e["open"] for e in episodes),
        **_histogram(diagnosis, drawing),
        "summary": [_summary_row(diagnosis, i) for i in range(len(diagnosis.summary))],
        "unanswered": accounts.unanswered(diagnosis),
        "unknown": [{"what": words.sentence(u.what), "datum": words.sentence(u.datum)} for u in diagnosis.unknown],
        "method": _method(recording, diagnosis),
        "notes": [words.sentence(n) for n in diagnosis.notes],
    }


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _sections(diagnosis: Diagnosis, drawn: bool, more: Sequence[Section]) -> list[tuple[str, str]]:
    sections = [
        ("recording", "Recording", drawn),
        ("responses", "Response times", bool(diagnosis.histogram)),
        ("summary", "Summary", bool(diagnosis.summary)),
        ("unanswered", "Not answered", bool(diagnosis.unanswered)),
        ("episodes", "Episodes", bool(diagnosis.episodes)),
        *((section.anchor, section.title, True) for section in more),
        ("unknown", "Not known", bool(diagnosis.unknown)),
        ("method", "Method", True),
    ]
    return [(anchor, text) for anchor, text, present in sections if present]


def _when(diagnosis: Diagnosis, recording: Recording) -> str:
    begin, end = diagnosis.begin or recording.begin, diagnosis.end or recording.end
    return f"Recorded {words.clock(begin)}, {words.duration(end - begin)} long"


def _path(diagnosis: Diagnosis) -> list[dict[str, str]]:
    """The most frequent chain in the order in which it happened."""
    if not diagnosis.summary or not diagnosis.vlrt:
        return []
    row = max(diagnosis.summary, key=lambda r: r.vlrt)
    links = []
    if row.cause != "unknown":
        links.append({"role": "Cause", "what": words.cause(row.cause)})
    if row.origin is not None:
        links.append({"role": "Origin", "what": words.name(row.origin)})
    if row.dropper is not None:
        if row.ctqo != "none":
            links.append({"role": "Queue overflow", "what": words.CTQO_WORDS[row.ctqo]})
        links.append({"role": "Drops packets", "what": words.name(row.dropper)})
    if not links:
        return []
    return [
        *links,
        {"role": "Take very long", "what": f"{words.count(row.vlrt)} of {words.count(diagnosis.vlrt)} VLRT"},
    ]


def _figures(recording: Recording, diagnosis: Diagnosis) -> list[dict[str, str]]:
    part = diagnosis.vlrt / diagnosis.requests if diagnosis.requests else 0.0
    figures = [
        ("Requests", words.count(diagnosis.requests), "in the recording"),
        (
            "Very long response times",
            words.count(diagnosis.vlrt),
            f"{words.share(part)} of all, over {words.duration(diagnosis.threshold_ns)}",
        ),
    ]
    middle = recording.response_ns_p50 if recording.response_ns_p50 is not None else median(diagnosis)
    if middle is not None:
        figures.append(("Half of all requests", words.duration(middle), "or less"))
    if diagnosis.vlrt:
        figures.append(("Explained", words.share(diagnosis.explained), "of the VLRT have a cause"))
        figures.append(("Episodes", words.count(len(diagnosis.episodes)), "of VLRT sent close together"))
    if diagnosis.unanswered:
        figures.append(("Not answered", words.count(sum(u.requests for u in diagnosis.unanswered)), "see below"))
    return [{"label": a, "value": b, "note": c} for a, b, c in figures]


def median(diagnosis: Diagnosis) -> int | None:
    """Median response time, with the accuracy of a histogram bin."""
    total = sum(n for _, _, n in diagnosis.histogram)
    below = 0
    for low, high, n in sorted(diagnosis.histogram):
        below += n
        if 2 * below >= total:
            return (low + high) // 2
    return None


def _histogram(diagnosis: Diagnosis, drawing: Histogram | None) -> dict[str, Any]:
    if drawing is None:
        return {"histogram": None}
    repeated = [words.duration(m.retransmission_ns) for m in diagnosis.modes if m.retransmission_ns is not None]
    many = len(repeated) > 1
    times = " and ".join(filter(None, (", ".join(repeated[:-1]), *repeated[-1:])))
    intro = (
        f"The {'clusters' if many else 'cluster'} near {times} {'stand' if many else 'stands'} "
        f"at the {'times' if many else 'time'} at which a sender repeats a lost packet."
        if repeated
        else "There is no cluster at a retransmission time."
    )
    summary = "Response times. " + "; ".join(f"{f.label}, {f.detail}" for f in drawing.flags) + "."
    return {
        "histogram": True,
        "h": drawing,
        "histogram_intro": intro,
        "histogram_summary": summary,
        "bar_width": words.duration(drawing.width_ns),
        "bars": [(words.duration(b.low), words.duration(b.high), words.count(b.requests)) for b in drawing.table],
        "modes": [
            {
                "centre": words.duration(m.centre_ns),
                "requests": words.count(m.requests),
                "retransmission": words.duration(m.retransmission_ns) if m.retransmission_ns is not None else "–",
                "lost": "–" if m.attempts_lost is None else str(m.attempts_lost),
            }
            for m in diagnosis.modes
        ],
    }


def _summary_row(diagnosis: Diagnosis, index: int) -> dict[str, Any]:
    row = diagnosis.summary[index]
    part = row.vlrt / diagnosis.vlrt if diagnosis.vlrt else 0.0
    return {
        "dropper": words.name(row.dropper) if row.dropper else "–",
        "origin": words.name(row.origin) if row.origin else "not known",
        "cause": words.cause(row.cause),
        "ctqo": words.CTQO_WORDS[row.ctqo],
        "meaning": words.CTQO_MEANING[row.ctqo],
        "vlrt": words.count(row.vlrt),
        "share": words.share(part),
        "percent": f"{100 * part:.2f}",
    }


def episode_title(this: Episode) -> str:
    """The chain in one line, for the list of episodes."""
    cause = "cause unknown" if this.cause == "unknown" else words.cause(this.cause)
    origin = f" at {words.name(this.origin)}" if this.origin else ""
    lost_nothing = ", no packet lost" if this.findings[1].verdict == "absent" else ""
    dropped = f", dropped by {words.name(this.dropper)}" if this.dropper else lost_nothing
    return f"{cause[:1].upper()}{cause[1:]}{origin}{dropped}"


def _episode(recording: Recording, diagnosis: Diagnosis, index: int, group: charts.Group | None) -> dict[str, Any]:
    this = diagnosis.episodes[index]
    begin = recording.begin
    return {
        "number": index + 1,
        "open": index < OPEN_EPISODES and group is not None,
        "title": episode_title(this),
        "vlrt": f"{words.count(this.vlrt)} VLRT",
        "at": words.moment(this.begin, begin),
        "length": f"{words.duration(this.end - this.begin)} long",
        "clock": words.clock(this.begin),
        "begin_s": f"{(this.begin - begin) / 1e9:.6f}",
        "end_s": f"{(this.end - begin) / 1e9:.6f}",
        "findings": [_finding(f, recording, group) for f in this.findings],
        "wave": [
            {
                "server": words.name(w.server),
                "rise": words.moment(w.rise, begin),
                "full": "–" if w.full is None else words.moment(w.full, begin),
                "longest": words.count(w.queue_length_max)
                + (f" ± {words.count(w.queue_length_error)}" if w.queue_length_error else ""),
                "limit": "–" if w.queue_max is None else words.count(w.queue_max),
                "source": LIMIT_SOURCES[w.limit_source],
            }
            for w in this.wave
        ],
        "causes": [_evidence(c) for c in this.causes],
        "account": accounts.account(this.account, recording.traces, unheard="vlrt_unheard" in this.findings[1].numbers),
        "ledger": ledgers.ledger(this.ledger),
        "ledger_charts": [chart_context(c) for c in (group.charts if group else ()) if c.step is None],
    }


def _finding(finding: Finding, recording: Recording, group: charts.Group | None) -> dict[str, Any]:
    number = STEPS.index(finding.step) + 1
    shown = finding.verdict == "found" and finding.begin is not None and finding.end is not None
    begin, end = finding.begin or 0, finding.end or 0
    return {
        "number": number,
        "title": words.STEP_TITLES[finding.step],
        "short": words.STEP_WORDS[finding.step] + (f" · {words.name(finding.place)}" if finding.place else ""),
        "verdict": finding.verdict,
        "sentence": words.sentence(finding.sentence),
        "missing": words.sentence(finding.missing or ""),
        "inputs": foreign.listed(finding.inputs),
        "numbers": [(words.label(k), words.number(k, v)) for k, v in finding.numbers.items()],
        "from": f"{(begin - recording.begin) / 1e9:.6f}" if shown else None,
        "to": f"{(end - recording.begin) / 1e9:.6f}" if shown else None,
        "charts": [chart_context(c) for c in (group.charts if group else ()) if c.step == number],
        "nodata": NO_DATA[finding.step] if group else "Charts are drawn for the first episodes only.",
    }


def _evidence(evidence: CauseEvidence) -> dict[str, str]:
    def or_dash(text: str | None) -> str:
        return "–" if text is None else text

    return {
        "cause": words.cause(evidence.cause),
        "place": or_dash(words.name(evidence.place) if evidence.place else None),
        "verdict": evidence.verdict,
        "share": or_dash(None if evidence.share is None else words.share(evidence.share)),
        "coverage": or_dash(None if evidence.coverage is None else words.share(evidence.coverage)),
        "sentence": words.sentence(evidence.sentence),
        "missing": words.sentence(evidence.missing)
        if evidence.missing and evidence.missing not in evidence.sentence
        else "",
    }


def chart_context(chart: charts.Chart) -> dict[str, Any]:
    """The values that the macro `chart` needs."""
    return {
        "title": chart.title,
        "shape": chart.shape,
        "summary": chart.summary,
        "flat": chart.flat,
        "legend": [{"label": c.label, "slot": c.slot, "dash": DASHES[c.dash]} for c in chart.curves],
    }


def _method(recording: Recording, diagnosis: Diagnosis) -> list[tuple[str, str]]:
    threshold = f"{words.duration(diagnosis.threshold_ns)}: {diagnosis.threshold_reason}"
    return [
        ("A request is a VLRT from", threshold),
        ("Window", f"{words.duration(diagnosis.window_ns)}, by the time at which a request was sent, arrived or left"),
        *recording.provenance,
    ]
