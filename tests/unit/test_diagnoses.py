"""`tailrace reproduce --diagnose`: whether the diagnosis finds the cause that a paper names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from typer.testing import CliRunner

from builders import SMALL
from tailrace.cli.commands import app
from tailrace.errors import InputError, UsageError
from tailrace.experiment import from_table
from tailrace.reproduce import Reproduction, find, outcome, page, reproduce
from tailrace.reproduce.diagnoses import Diagnosed
from tailrace.reproduce.expected import read
from tailrace.units import SECOND

STALLED: dict[str, Any] = {
    **SMALL,
    "duration": "12 s",
    "tiers": {"web": {"workers": 10, "backlog": 10}},
    "workloads": {"w": {"clients": 400, "think": "1 s", "interaction": "page"}},
    "stalls": [{"kind": "burn", "place": "web", "at": "5 s", "for": "0.5 s", "weight": 100}],
}
"""A server whose CPU a neighbour takes for half a second, in which 200 requests come and 21 find a place."""


def figure(folder: Path, **keys: Any) -> Path:
    folder.mkdir(parents=True)
    table = {
        "paper": "p",
        "title": "t",
        "shows": "s",
        "seeds": 2,
        "runs": [{"name": "stalled"}, {"name": "calm", "set": {"stalls": []}}],
        **keys,
    }
    (folder / "experiment.toml").write_text(tomli_w.dumps(STALLED))
    (folder / "expected.toml").write_text(tomli_w.dumps(table))
    return folder


def made(folder: Path, diagnosed: int = 1, **keys: Any) -> Reproduction:
    figure(folder / "p" / "figure-1", **keys)
    return reproduce(find(folder, "p"), folder / "out", workers=1, diagnosed=diagnosed)


def test_a_cause_that_the_paper_names_is_found(tmp_path: Path) -> None:
    found = made(tmp_path, cause="neighbour", origin="web")
    stalled, calm = found.outcomes[0].diagnoses
    assert stalled.vlrt > 20
    assert stalled.reported == {"neighbour": stalled.vlrt}
    assert (stalled.as_paper, stalled.at_origin, stalled.right) == (stalled.vlrt,) * 3
    assert (stalled.verdict, stalled.replications, stalled.gone) == ("holds", 1, stalled.vlrt)
    assert (calm.vlrt, calm.verdict) == (0, None)
    assert found.diagnosed == (1, 1)
    text = page.html(found)
    assert "the diagnosis finds the paper&#39;s cause in 1 of 1 runs" in text
    assert "tailrace reproduce p figure-1 --diagnose<" in text


def test_a_cause_that_was_not_there_is_not_found(tmp_path: Path) -> None:
    runs = [{"name": "stalled", "cause": ["memory", "log-flush"]}, {"name": "unnamed", "cause": []}]
    stalled, unnamed = made(tmp_path, diagnosed=2, cause="writeback", runs=runs).outcomes[0].diagnoses
    assert (stalled.cause, stalled.as_paper, stalled.verdict) == (("memory", "log-flush"), 0, "fails")
    assert stalled.right == stalled.vlrt
    assert (stalled.gone, stalled.gone_share, unnamed.gone) == (0, "0 %", None)
    assert (unnamed.verdict, unnamed.replications) == (None, 2)


def test_nothing_is_diagnosed_unless_it_is_requested(tmp_path: Path) -> None:
    figure(tmp_path / "p" / "figure-1")
    found = reproduce(find(tmp_path, "p"), tmp_path / "out", seeds=1, workers=1)
    assert found.outcomes[0].diagnoses == ()
    assert "What the diagnosis finds" not in page.html(found)


@pytest.mark.parametrize(
    ("share", "verdict"),
    [({}, "holds"), ({"as_paper": 94}, "fails"), ({"right": 94}, "fails"), ({"at_origin": 94}, "fails")],
)
def test_cause_origin_and_removal_must_agree(share: dict[str, int], verdict: str) -> None:
    counts = {"vlrt": 100, "as_paper": 95, "at_origin": 95, "right": 95, "removable": 100} | share
    assert Diagnosed("r", ("neighbour",), "db", 1, reported={}, **counts).verdict == verdict


def test_causes_and_places_have_known_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cause must be the name of a cause .*did you mean 'writeback'"):
        read(figure(tmp_path / "a", cause="writebak"))
    with pytest.raises(InputError, match=r"runs\[0\]\.cause must be the name of a cause"):
        read(figure(tmp_path / "b", runs=[{"name": "r", "cause": "burn"}]))
    with pytest.raises(UsageError, match="origin of stalled must be the name of a tier or server"):
        made(tmp_path, origin="wbe")


def test_the_command_says_what_it_finds(tmp_path: Path) -> None:
    figure(tmp_path / "p" / "figure-1", cause="neighbour", origin="web")
    words = ["reproduce", "--all", "--diagnose", "--experiments", str(tmp_path), "-o", str(tmp_path / "out"), "-j", "1"]
    text = CliRunner().invoke(app, words).stdout
    assert "neighbour 100 %" in text
    assert "neighbour at web, the reported origin of 100 %; without that, 100 % are gone: finds it" in text
    assert "diagnosis @ calm: no request was very slow" in text
    as_json = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert as_json["summary"]["diagnoses_held"] == 1
    assert as_json["figures"][0]["diagnoses"][0]["verdict"] == "holds"
    assert (tmp_path / "out" / "all.html").exists()


@pytest.mark.parametrize("words", [[], ["p", "--all"]])
def test_a_paper_or_all_is_named(tmp_path: Path, words: list[str]) -> None:
    figure(tmp_path / "p" / "figure-1")
    found = CliRunner().invoke(app, ["reproduce", *words, "--experiments", str(tmp_path)])
    assert isinstance(found.exception, UsageError)


def test_a_run_of_many_requests_is_diagnosed_for_a_shorter_time(tmp_path: Path) -> None:
    def lasts(clients: int, embedded: list[str]) -> int:
        table = {**STALLED, "duration": "200 s"}
        table["workloads"] = {"w": {"clients": clients, "think": "1 s", "interaction": "page", "embedded": embedded}}
        return outcome._diagnosed(from_table(table))

    assert lasts(400, []) == 120 * SECOND
    assert lasts(20_000, []) == 50 * SECOND
    assert lasts(20_000, ["page"]) == 25 * SECOND
