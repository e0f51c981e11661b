"""Writes the page of all incidents: one self-contained file, which works from a folder."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from tailrace import whole
from tailrace.report import page, words
from tailrace.watch.listing import Incident

PAGE = "index.html"
WIDTH, HEIGHT = 96, 24
"""Of a sparkline, in CSS pixels: two for each of its 48 bars."""


def write(folder: Path, found: Sequence[Incident]) -> Path:
    path = folder / PAGE
    whole.write(path, html(found).encode())
    return path


def html(found: Sequence[Incident]) -> str:
    """Equal incidents give equal text."""
    return page.render(
        _asset("incidents.html.j2"),
        title=f"Tailrace: {words.plural(len(found), 'incident')}",
        numbers={"begin_ms": 0, "length": 1, "window": 1, "axes": [], "lines": [], "groups": {}},
        css=_asset("incidents.css"),
        more_scripts=(_asset("incidents.js"),),
        sections=[("answer", "Incidents")],
        headline=words.plural(len(found), "incident"),
        incidents=[_row(incident) for incident in found],
        causes=sorted({_cause(incident) for incident in found}),
        servers=sorted({words.name(server) for each in found for server in _servers(each)}),
    )


def _asset(name: str) -> str:
    return resources.files("tailrace.watch").joinpath(f"page/{name}").read_text(encoding="utf-8")


def _servers(incident: Incident) -> list[str]:
    return [server for server in (incident.dropper, incident.origin) if server is not None]


def _cause(incident: Incident) -> str:
    if incident.failed is not None:
        return "not explained"
    return words.cause(incident.cause) if incident.cause else "no VLRT"


def _row(incident: Incident) -> dict[str, Any]:
    begin, end = incident.begin, incident.end
    part = incident.vlrt / incident.requests if incident.requests else 0.0
    return {
        "name": words.name(incident.name),
        "report": incident.report,
        "when": words.clock(begin) if begin is not None else "–",
        "length": words.duration(end - begin) if begin is not None and end is not None else "–",
        "vlrt": words.count(incident.vlrt),
        "share": words.share(part),
        "dropper": words.name(incident.dropper) if incident.dropper else "–",
        "origin": words.name(incident.origin) if incident.origin else "–",
        "cause": _cause(incident),
        "servers": "\n".join(words.name(server) for server in _servers(incident)),
        "sentence": words.sentence(incident.sentence or incident.failed or ""),
        "bars": _bars(incident.slots),
        "most": words.count(max(incident.slots, default=0)),
    }


def _bars(slots: Sequence[int]) -> list[dict[str, str]]:
    """Rectangles of the sparkline; the tallest is as high as the picture."""
    most, width = max(slots, default=0), WIDTH / max(len(slots), 1)
    return [
        {"x": f"{i * width:g}", "y": f"{HEIGHT - height:.1f}", "height": f"{height:.1f}", "width": f"{width:g}"}
        for i, number in enumerate(slots)
        if (height := max(1.0, HEIGHT * number / most) if number else 0.0)
    ]
