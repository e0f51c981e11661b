"""The lines to change, for each software: one text with the lines of every kind of change.

`make golden` rewrites the expectations; review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from changes import CHANGES, system
from tailrace.advise.software import SOFTWARE, lacking, lines, nowhere, of_step
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


def test_a_change_that_most_software_lacks_names_the_software_that_has_it() -> None:
    base = system({}, {})
    assert "ingress-nginx" in nowhere(base, CHANGES["peak EWMA"], {"web": ["nginx"]})[0]
    assert nowhere(base, CHANGES["peak EWMA"], {"web": ["kubernetes"]}) == []
    prequal = system({"call": {"policy": "prequal"}}, {})
    assert "No software that Tailrace knows has Prequal" in nowhere(base, prequal, {"web": ["envoy"]})[0]
    assert "only HAProxy" in nowhere(base, CHANGES["light calls first"], {"web": ["apache"]})[0]
    assert nowhere(base, CHANGES["light calls first"], {"web": ["haproxy"]}) == []
    newest = system({}, {"order": "newest"})
    assert "a change of code" in nowhere(base, newest, {"app": ["tomcat"]})[0]
    cut_off = CHANGES["silent clients that are cut off"]
    assert "Apache's event MPM before it" in nowhere(base, cut_off, {"web": ["gunicorn"]})[0]
    assert nowhere(base, CHANGES["a longer backlog"], {"web": ["nginx"]}) == []


def test_a_line_says_where_the_value_of_today_comes_from() -> None:
    base, changed = system({}, {}), CHANGES["a longer backlog"]
    [of_experiment, *_] = lines(base, changed, {"web": ["nginx"]})
    assert of_experiment.known == "seen in the experiment"
    [seen, *rest] = lines(base, changed, {"web": ["nginx"]}, {"tiers.web.backlog": "seen in topology.toml"})
    assert seen.known == "seen in topology.toml"
    assert [line.known for line in rest if not line.now] == [""] * sum(not line.now for line in rest)
    [guessed, *_] = lines(base, changed, {"web": ["nginx"]}, {})
    assert guessed.known.startswith("assumed")


def test_services_of_several_tiers_get_periods_of_different_lengths() -> None:
    quota = {"time": "50 ms"}
    base = system({"quota": quota}, {"quota": quota})
    spread = quota | {"phases": "even"}
    changed = system({"quota": spread}, {"quota": spread})
    found = {line.file: line.then for step in steps(base, changed) for line in SOFTWARE["systemd"](step)}
    lengths = {"web.service": "100ms", "app1.service": "97ms", "app2.service": "89ms"}
    assert found == {name: f"CPUQuotaPeriodSec={length}" for name, length in lengths.items()}
