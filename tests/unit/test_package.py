"""The replication package: what it holds, and that its checksums and counts are true."""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from builders import SMALL
from doors import told
from tailrace.errors import InputError
from tailrace.reproduce import earlier, find, page, printing, reproduce

ROOT = Path(__file__).parents[2]
DIAGNOSED = {
    **{"run": "r", "cause": ["freeze"], "origin": None, "replications": 1, "vlrt": 20},
    **{"reported": {"freeze": 18, "unknown": 2}, "as_paper": 18, "at_origin": 0, "right": 18, "removable": 18},
    "gone": 20,
}
"""What the JSON of a reproduction has of a run: the diagnosis finds the paper's cause for too few requests."""


def papers(folder: Path) -> Path:
    """Two papers: a claim of the first holds, and one of the second does not."""
    for paper, less in (("one", [0, "rate"]), ("two", ["rate", 0])):
        figure = folder / paper / "figure-1"
        figure.mkdir(parents=True)
        table: dict[str, Any] = {
            **{"paper": paper, "title": "t", "shows": "s", "seeds": 1, "runs": [{"name": "r"}]},
            "values": [{"name": "rate", "measure": "throughput", "unit": "req/s", "paper": 20}],
            "claims": [{"says": "A | claim.", "less": less}],
        }
        (figure / "expected.toml").write_text(tomli_w.dumps(table))
        (figure / "experiment.toml").write_text(tomli_w.dumps(SMALL))
    return folder


def browser(folder: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only program on the path: a Chromium that does this."""
    folder.mkdir()
    (folder / "chromium").write_text(f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n{content}\n")
    (folder / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


PRINTS = """
[target] = [word.partition("=")[2] for word in sys.argv if word.startswith("--print-to-pdf=")]
Path(target).write_text("%PDF of " + sys.argv[-1])
"""


def test_pages_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser(tmp_path / "bin", PRINTS, monkeypatch)
    assert printing.pdf(tmp_path / "a page.html", tmp_path / "a.pdf") == ""
    assert (tmp_path / "a.pdf").read_text() == f"%PDF of {(tmp_path / 'a page.html').as_uri()}"


@pytest.mark.parametrize(
    ("content", "why"), [("sys.exit(3)", "made no PDF and ended with 3"), ("", "made no PDF and ended with 0")]
)
def test_a_browser_that_prints_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, why: str
) -> None:
    browser(tmp_path / "bin", content, monkeypatch)
    assert why in printing.pdf(tmp_path / "a.html", tmp_path / "a.pdf")
    assert not (tmp_path / "a.pdf").exists()


def test_a_package_says_what_made_it_and_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "BROWSERS", ())
    shelf, out = papers(tmp_path / "experiments"), tmp_path / "replication"
    words = ("--all", "--diagnose", "--package", "--experiments", shelf, "-o", out, "-j", "1", "--quiet")
    assert told("reproduce", *words) == 0
    assert {path.name for path in out.iterdir() if path.is_file()} == {
        *("one.html", "one.json", "two.html", "two.json", "summary.md", "manifest.json"),
    }
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["files"] == {
        name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in manifest["files"]
    }
    assert set(manifest["files"]) == {"one.html", "one.json", "two.html", "two.json", "summary.md"}
    assert "no Chromium was found" in manifest["skipped"]["one.pdf"]
    assert manifest["figures"]["two figure-1"]["replications"] == [1]
    assert manifest["figures"]["two figure-1"]["first_seed"] == 1
    assert manifest["figures"]["two figure-1"]["diagnosed"] == 1
    assert set(manifest["figures"]["two figure-1"]["files"]) == {"expected.toml", "experiment.toml"}
    assert {"python", "polars", "tailrace"} <= set(manifest["versions"])
    text = (out / "summary.md").read_text()
    assert "| **one** | 1 of 1 | none | 1 of 1 | none | none | 1 |" in text
    assert "| **two** | 0 of 1 | none | 1 of 1 | none | none | 1 |" in text
    assert "- two Figure 1, fails: A \\| claim." in text
    assert [figure["paper"] for figure in json.loads((out / "one.json").read_text())["figures"]] == ["one"]


def test_a_summary_has_the_claims_on_real_servers_and_what_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "BROWSERS", ())
    shelf, out, measured = papers(tmp_path / "experiments"), tmp_path / "replication", tmp_path / "real.json"
    verdicts = ("holds", "fails", "holds")
    scaled = {"claims": [{"says": str(at), "testbed": verdict} for at, verdict in enumerate(verdicts)]}
    figures = [{"paper": "two", "name": "figure-1", "scaled": scaled}, {"paper": "one", "name": "figure-1"}]
    measured.write_text(json.dumps({"figures": figures}))
    changed = (shelf / "one/figure-1/expected.toml").read_text().replace("paper = 20", "paper = 200")
    (shelf / "one/figure-1/expected.toml").write_text(changed)
    words = ("--all", "--package", "--measured", measured, "--experiments", shelf, "-o", out, "-j", "1", "--quiet")
    assert told("reproduce", *words) == 0
    text = (out / "summary.md").read_text()
    assert "| **one** | 1 of 1 | none | 0 of 1 | none | none | 1 |" in text
    assert "| two Figure 1 | 0 of 1 | 2 of 3 | 1 of 1 | none | none | 1 |" in text
    assert "- one Figure 1, rate @ r: the paper has 200 req/s, ours is " in text


def test_a_summary_has_earlier_diagnoses_of_the_cause_that_the_figure_still_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "BROWSERS", ())
    shelf, out, diagnosed = papers(tmp_path / "experiments"), tmp_path / "replication", tmp_path / "earlier.json"
    diagnosed.write_text(json.dumps({"figures": [{"paper": "one", "name": "figure-1", "diagnoses": [DIAGNOSED]}]}))
    expected = shelf / "one/figure-1/expected.toml"
    plain = expected.read_text()
    words = ("--all", "--package", "--measured", diagnosed, "--experiments", shelf, "-o", out, "-j", "1", "--quiet")
    for cause, row in (("freeze", "0 of 1"), ("writeback", "none")):
        expected.write_text(f'cause = "{cause}"\n{plain}')
        assert told("reproduce", *words) == 0
        assert f"| **one** | 1 of 1 | none | 1 of 1 | none | {row} | 1 |" in (out / "summary.md").read_text()
        missed = "reported for 20 VLRT: freeze 90 %, unknown 10 %; 90 % are right" in (out / "summary.md").read_text()
        assert missed == (row != "none")


@pytest.mark.parametrize(
    "content",
    [
        *("{", "[]", '{"figures": 3}', '{"figures": [{"scaled": {}}]}', '{"figures": [3]}'),
        *(
            json.dumps({"figures": [{"paper": "one", "name": "figure-1", "diagnoses": [{**DIAGNOSED, **change}]}]})
            for change in ({"right": 21}, {"vlrt": -1}, {"reported": {"freeze": 21}}, {"run": 3}, {"cause": None})
        ),
    ],
)
def test_a_file_that_is_no_reproduction_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "real.json").write_text(content)
    with pytest.raises(InputError, match=r"real\.json"):
        earlier.read([tmp_path / "real.json"])


def test_replications_can_be_limited(tmp_path: Path) -> None:
    shelf = papers(tmp_path / "experiments")
    file = shelf / "one/figure-1/expected.toml"
    file.write_text(file.read_text().replace("seeds = 1", "seeds = 3"))
    counts = {
        at_most: reproduce(find(shelf, "one"), tmp_path / "out", workers=1, at_most=at_most).outcomes[0].seeds
        for at_most in (None, 2, 9)
    }
    assert counts == {None: (3,), 2: (2,), 9: (3,)}
    text = page.html(reproduce(find(shelf, "one"), tmp_path / "out", workers=1, at_most=2))
    assert "tailrace reproduce one figure-1 --at-most 2<" in text


def test_a_figure_runs_again_with_other_seeds(tmp_path: Path) -> None:
    shelf = papers(tmp_path / "experiments")
    own, other = (
        reproduce(find(shelf, "one"), tmp_path / "out", seeds=2, workers=1, first_seed=first) for first in (None, 7)
    )
    [first], [second] = own.outcomes, other.outcomes
    assert (first.first_seed, second.first_seed) == (1, 7)
    assert first.cell("rate", "r").ours != second.cell("rate", "r").ours
    assert "tailrace reproduce one figure-1 --seeds 2 --first-seed 7<" in page.html(other)
    file = shelf / "one/figure-1/experiment.toml"
    file.write_text(tomli_w.dumps({**SMALL, "seed": 7}))
    assert reproduce(find(shelf, "one"), tmp_path / "out", seeds=2, workers=1).outcomes[0].cells == second.cells


def test_the_citation_states_the_version() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    version = cargo["workspace"]["package"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
