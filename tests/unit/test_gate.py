"""The gate: what passes, what does not, what cannot be settled, and what pipelines read of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from doors import run_folder, told
from systems import Memory, Slow, system
from tailrace.cli import perform
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.serialise import as_dict, to_json
from tailrace.gate import Check, Limits, judge, passed, results
from tailrace.report import stored
from tailrace.report.stored import Stored
from tailrace.topology import Topology

STOPPED = system(Slow("app", 4.0, 4.6)).event("app", "gc", 4.0, 4.6)


def found(memory: Memory) -> Stored:
    return stored.of(diagnose(memory))


def verdicts(of: Stored, limits: Limits) -> dict[str, str]:
    return {check.name: check.verdict for check in judge(of, limits)}


def test_a_calm_run_passes_every_limit() -> None:
    calm = found(system())
    limits = Limits(1, 0.0, 2_000_000_000, 0, True, calm)
    assert set(verdicts(calm, limits).values()) == {"passed"}
    assert len(verdicts(calm, limits)) == 6


def test_a_tail_fails_each_limit_that_it_exceeds() -> None:
    tail = found(STOPPED)
    assert tail.vlrt > 0
    limits = Limits(tail.requests + 1, tail.vlrt / tail.requests / 2, 500_000_000, 0, True, found(system()))
    failed = {"requests", "vlrt", "response", "drops", "new-tail"}
    assert {name for name, verdict in verdicts(tail, limits).items() if verdict == "failed"} == failed
    kept = Limits(tail.requests, tail.vlrt / tail.requests, 60_000_000_000, None, False, tail)
    assert set(verdicts(tail, kept).values()) == {"passed"}


def test_missing_data_do_not_pass() -> None:
    nothing = found(Memory(Topology()))
    checks = judge(nothing, Limits(1, 0.5, 1))
    assert {check.name: check.verdict for check in checks} == {
        "requests": "failed",
        "vlrt": "unknown",
        "response": "unknown",
    }
    assert not passed(checks)
    plain = as_dict(diagnose(STOPPED))
    for step in plain["episodes"][0]["findings"]:
        if step["step"] == "drops":
            step |= {"verdict": "unknown", "missing": "a capture"}
    [_, drops] = judge(stored.checked(plain, "d"), Limits(no_drops=True))
    assert (drops.verdict, "Would settle it: a capture." in drops.sentence) == ("unknown", True)


def test_a_histogram_decides_only_outside_of_its_last_bin() -> None:
    tail = found(STOPPED)
    last = max(tail.histogram, key=lambda each: each.lower_ns)
    for most, verdict in (
        (last.lower_ns - 1, "failed"),
        (last.lower_ns, "unknown"),
        (last.upper_ns - 1, "passed"),
    ):
        assert verdicts(tail, Limits(response_max_ns=most))["response"] == verdict


@pytest.mark.parametrize(
    ("changed", "verdict"), [({}, "passed"), ({"origin": "db"}, "failed"), ({"cause": "disk"}, "failed")]
)
def test_a_tail_is_new_if_its_origin_or_its_cause_is(changed: dict[str, str], verdict: str) -> None:
    tail = found(STOPPED)
    [chain, *_] = tail.summary
    baseline = tail.model_copy(update={"summary": (chain.model_copy(update=changed),)})
    assert verdicts(tail, Limits(baseline=baseline))["new-tail"] == verdict


HOSTILE = Check("drops", "failed", "web\x1b[31m\x00\n::stop-commands::x dropped 100% <b>")


def test_hostile_names_reach_neither_xml_nor_workflow_commands() -> None:
    xml = ElementTree.fromstring(results.junit([HOSTILE], "r\x1bn", ["a\x00b"]))
    assert (xml.get("tests"), xml.get("failures")) == ("1", "1")
    message = xml.find("testsuite/testcase/failure").get("message")  # type: ignore[union-attr]
    assert message == "web\\u001b[31m\\u0000\\u000a::stop-commands::x dropped 100% <b>"
    lines = results.for_github([HOSTILE], "a,b:c", ["one\ntwo"])
    assert all(line.isprintable() and line.startswith(("::error title=", "::notice title=")) for line in lines)
    assert "a%2Cb%3Ac" in lines[0]
    assert "100%25" in lines[0]


def said(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str]:
    code = perform([str(word) for word in words])
    return code, capsys.readouterr().out


def test_the_command_decides_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, junit = run_folder(), tmp_path / "gate.xml"
    code, out = said(capsys, "gate", run / "diagnosis.json", "--max-vlrt", "100%", "--junit", junit, "--github")
    assert (code, out.count("passed")) == (0, 2)
    assert ElementTree.parse(junit).getroot().get("failures") == "0"
    words = ("--threshold", "1ms", "--junit", junit, "--github", "--quiet")
    code, out = said(capsys, "gate", run, "--max-vlrt", "0", *words)
    assert (code, "requests" in out.splitlines()[-3], "::error title=" in out) == (1, True, True)
    assert ElementTree.parse(junit).getroot().get("failures") == "1"
    assert said(capsys, "gate", run / "diagnosis.json", "--min-requests", "1")[0] == 0
    assert said(capsys, "gate", run / "diagnosis.json", "--min-requests", 10**9)[0] == 1
    (tmp_path / "d.json").write_text(to_json(diagnose(STOPPED)))
    code, out = said(capsys, "gate", tmp_path / "d.json", "--max-vlrt", "0", "--json")
    assert (code, json.loads(out)["passed"]) == (1, False)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"version": 2}', '{"version": 1, "requests": "many"}', "\x00", "[" * 5000],
)
def test_a_file_that_is_no_diagnosis_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "d.json").write_text(content)
    assert told("gate", tmp_path / "d.json", "--no-drops") == 2


def test_wrong_words_are_refused(tmp_path: Path) -> None:
    file = run_folder() / "diagnosis.json"
    assert told("gate", file) == 2
    assert told("gate", file, "--max-vlrt", "7") == 2
    assert told("gate", file, "--no-drops", "--threshold", "1s") == 2
    assert told("gate", tmp_path / "missing", "--no-drops") == 2
