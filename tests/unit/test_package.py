"""The replication package: what it holds, and that its checksums and counts are true."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from builders import SMALL
from doors import told

ROOT = Path(__file__).parents[2]


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


def test_a_package_says_what_made_it_and_what_it_holds(tmp_path: Path) -> None:
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
    assert manifest["figures"]["two figure-1"]["seeds"] == [1]
    assert manifest["figures"]["two figure-1"]["diagnosed"] == 1
    assert set(manifest["figures"]["two figure-1"]["files"]) == {"expected.toml", "experiment.toml"}
    assert {"python", "polars", "tailrace"} <= set(manifest["versions"])
    text = (out / "summary.md").read_text()
    assert "| **one** | 1 of 1 | 1 of 1 | none | none |" in text
    assert "| **two** | 0 of 1 | 1 of 1 | none | none |" in text
    assert "- two Figure 1, fails: A \\| claim." in text
    assert [figure["paper"] for figure in json.loads((out / "one.json").read_text())["figures"]] == ["one"]


def test_the_citation_states_the_version() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    version = cargo["workspace"]["package"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
