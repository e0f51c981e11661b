"""`knobs.toml` accounts for every number of a paper's experiment files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from builders import SMALL
from tailrace.errors import InputError
from tailrace.experiment import read as read_experiment
from tailrace.reproduce import as_dict, find, knobs, page, reproduce, shelf

ROOT = Path(__file__).parents[2]
SHELF = ROOT / "experiments"
KNOB: dict[str, Any] = {"key": "rubbos.db", "kind": "chosen", "from": "A <guess>.", "view": ["figure-1"]}


def paper(folder: Path, known: dict[str, Any], **files: dict[str, Any]) -> Path:
    """A paper with these experiment files of its base and with its knobs."""
    base = folder / "p" / "base"
    base.mkdir(parents=True)
    for name, table in files.items():
        (base / f"{name}.toml").write_text(tomli_w.dumps(table))
    (base / "knobs.toml").write_text(tomli_w.dumps(known))
    return base.parent


@pytest.mark.parametrize("name", sorted({entry.paper for entry in shelf.entries(SHELF)}))
def test_the_papers_account_for_their_numbers(name: str) -> None:
    found = knobs.read(SHELF / name)
    assert found
    every = {entry.name for entry in shelf.entries(SHELF)}
    seen = {view.split()[-1] for number in found for view in number.knob.view}
    assert seen <= every, "figures in view exist"


def test_several_keys_may_have_one_reason(tmp_path: Path) -> None:
    files = {"a": {"rubbos": {"db": "2 ms", "app": "1 ms"}}}
    found = knobs.read(paper(tmp_path, {"knobs": [{**KNOB, "key": ["rubbos.db", "rubbos.app"]}]}, **files))
    assert {number.key: number.value for number in found} == {"rubbos.db": "2 ms", "rubbos.app": "1 ms"}


def test_values_come_from_the_files(tmp_path: Path) -> None:
    files = {"a": {"rubbos": {"db": "2 ms"}}, "b": {"rubbos": {"db": "3 ms"}, "description": "1 of 2"}}
    found = knobs.read(paper(tmp_path, {"knobs": [KNOB]}, **files))
    assert [(number.file, number.value) for number in found] == [("base/a.toml", "2 ms"), ("base/b.toml", "3 ms")]


def test_a_name_with_a_space_is_quoted_as_for_set(tmp_path: Path) -> None:
    files = {"a": {"interactions": {"SELECT a": {"at": {"web": {"compute": "2 ms"}}}}}}
    key = 'interactions."SELECT a".at.web.compute'
    [found] = knobs.read(paper(tmp_path, {"knobs": [{**KNOB, "key": key}]}, **files))
    assert found.key == key
    file = tmp_path / "experiment.toml"
    file.write_text(tomli_w.dumps({**SMALL, "interactions": {**SMALL["interactions"], **files["a"]["interactions"]}}))
    assert (
        read_experiment(file, [f"{found.key}=3 ms"], add=True).interactions["SELECT a"].at["web"].compute == 3_000_000
    )


def test_numbers_in_lists_are_numbers(tmp_path: Path) -> None:
    """Of a list of tables, each table has the key; a list of numbers is one value."""
    stalls = [{"kind": "freeze", "at": "5 s"}, {"kind": "freeze", "at": "9 s"}, {"kind": "freeze", "at": "9 s"}]
    files = {"a": {"stalls": stalls, "nodes": {"db": {"clocks": ["1 GHz", "2 GHz"]}}}}
    found = knobs.read(paper(tmp_path, {"knobs": [{**KNOB, "key": ["stalls[].at", "nodes.db.clocks"]}]}, **files))
    assert [(number.key, number.value) for number in found] == [
        ("stalls[].at", "5 s"),
        ("stalls[].at", "9 s"),
        ("nodes.db.clocks", "1 GHz, 2 GHz"),
    ]
    assert [number.settable for number in found] == [False, False, True]
    with pytest.raises(InputError, match=r"sets stalls\[\].at = 5 s, which is neither a knob nor given"):
        knobs.read(paper(tmp_path / "again", {"knobs": [{**KNOB, "key": "nodes.db.clocks"}]}, **files))


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ({}, "base/a.toml sets rubbos.db = 2 ms, which is neither a knob nor given"),
        ({"knobs": [KNOB, {**KNOB, "key": "rubbos.app"}]}, "rubbos.app is set by no experiment file"),
        ({"given": {"rubbos.app": "II"}}, "rubbos.app is set by no experiment file"),
        ({"knobs": [{**KNOB, "file": "base/c.toml"}]}, "base/c.toml does not set rubbos.db"),
        ({"knobs": [{**KNOB, "kind": "guessed"}]}, "knobs[0].kind must be"),
        ({"knobs": [{"key": "rubbos.db"}]}, "knobs[0].kind is missing"),
    ],
)
def test_what_is_not_accounted_for_is_an_error(tmp_path: Path, known: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as raised:
        knobs.read(paper(tmp_path, known, a={"rubbos": {"db": "2 ms"}}))
    assert sentence in str(raised.value)


def test_the_page_and_the_json_list_them(tmp_path: Path) -> None:
    folder = paper(tmp_path, {"knobs": [KNOB]}, a={"rubbos": {"db": "2 ms"}}) / "figure-1"
    folder.mkdir()
    (folder / "expected.toml").write_text(
        tomli_w.dumps({"paper": "p", "title": "t", "shows": "s", "runs": [{"name": "r"}]})
    )
    known = {"knobs": [KNOB], "given": dict.fromkeys(("duration", "ramp", *PAGES), "I")}
    (folder / "experiment.toml").write_text(tomli_w.dumps(SMALL))
    (folder.parent / "base" / "knobs.toml").write_text(tomli_w.dumps(known))
    shutil.copytree(folder, folder.parent / "figure-2")
    made = reproduce(find(tmp_path, "p"), tmp_path / "out", seeds=1, workers=1)
    [number] = as_dict(made)["knobs"]["p"]
    assert number == {**KNOB, "value": "2 ms", "file": "base/a.toml"}
    text = page.html(made)
    assert "Numbers that p does not give" in text
    assert "A &lt;guess&gt;." in text


PAGES = ("interactions.page.at.web.compute", "workloads.w.clients", "workloads.w.think")
