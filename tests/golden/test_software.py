"""The lines to change, for each software: one text with the lines of every kind of change.

`make golden` rewrites the expectations; review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from changes import CHANGES, system
from tailrace.advise.software import SOFTWARE, lacking, of_step
from tailrace.advise.software.steps import steps

FOLDER = Path(__file__).parent / "software"


def text_of(software: str) -> str:
    base = system({}, {})
    found = []
    for what, changed in CHANGES.items():
        own = [line for step in steps(base, changed) for line in of_step(software, step)]
        found += [f"{what}:"] * bool(own)
        for line in own:
            note = f"  ({line.note})" if line.note else ""
            found.append(f"  {line.file}: {line.now or '(nothing)'} -> {line.then or '(nothing)'}{note}")
    return "".join(f"{line}\n" for line in found)


@pytest.mark.parametrize("software", SOFTWARE)
def test_lines(software: str) -> None:
    text, file = text_of(software), FOLDER / f"{software}.txt"
    if os.environ.get("TAILRACE_GOLDEN") == "rewrite":
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), "if this is an improvement: make golden, and review the diff"


def test_what_lacks_is_software_with_lines_of_its_own() -> None:
    base = system({}, {})
    assert lacking(base, CHANGES["a longer backlog"], {"web": ["nginx"]}) == ""
    assert lacking(base, CHANGES["a longer backlog"], {"app": ["tomcat"]}) == "web"
    assert lacking(base, CHANGES["no pauses of the collector"], {}) == "app"
    assert lacking(base, CHANGES["the full clock rate"], {}) == "", "the clock rate is the machine's"
