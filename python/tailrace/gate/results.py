"""Writes the checks of a gate as JUnit XML and as GitHub's annotations."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from tailrace import foreign
from tailrace.gate import Check

SUITE = "tailrace gate"
# docs.github.com/actions/reference/workflow-commands: a message ends at its line, a property also at "," and ":".
_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = _IN_MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


def junit(checks: Sequence[Check], of: str, answer: Sequence[str]) -> bytes:
    """One test case for each check. The answer of the diagnosis stands below each failure."""
    failed = sum(check.verdict != "passed" for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failed), "errors": "0", "skipped": "0"}
    suites = ElementTree.Element("testsuites", {"name": SUITE, **counts})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": foreign.visible(of), **counts})
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "tailrace.gate", "name": check.name})
        sentence = foreign.visible(check.sentence)
        if check.verdict == "passed":
            ElementTree.SubElement(case, "system-out").text = sentence
        else:
            failure = ElementTree.SubElement(case, "failure", {"type": check.verdict, "message": sentence})
            failure.text = "\n".join((sentence, *map(foreign.visible, answer)))
    ElementTree.indent(suites)
    written: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def for_github(checks: Sequence[Check], of: str, answer: Sequence[str]) -> list[str]:
    """GitHub's workflow commands: an error for each check that was not passed, and a notice with the answer."""
    lines = []
    for check in checks:
        if check.verdict != "passed":
            title = f"{SUITE}: {check.name} {check.verdict} ({foreign.visible(of)})".translate(_IN_PROPERTY)
            lines.append(f"::error title={title}::{foreign.visible(check.sentence).translate(_IN_MESSAGE)}")
    if lines and answer:
        said = "\n".join(map(foreign.visible, answer)).translate(_IN_MESSAGE)
        lines.append(f"::notice title={SUITE}%3A why::{said}")
    return lines
