"""The table of today's servers (docs/ctqo-2026.md) is what the bench made from its numbers."""

# ruff: noqa: E402 (the path comes first: benches are no package)

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benches" / "today"))

import table
from fronts import FRONTS, ORIGINS, Place, Tools

PAGE = (ROOT / "docs" / "ctqo-2026.md").read_text()
FOUND: dict[str, Any] = json.loads((ROOT / "benches" / "results" / "today.json").read_text())


@pytest.mark.parametrize("condition", FOUND)
def test_the_page_has_the_table_of_each_condition(condition: str) -> None:
    assert table.table({condition: FOUND[condition]}) in PAGE


def test_the_page_has_every_server_that_the_bench_knows() -> None:
    for rows in FOUND.values():
        assert list(rows) == [front.name for front in FRONTS]


def test_the_chain_of_most_requests_is_shown_and_its_share() -> None:
    frozen = {"dropper": "front", "origin": "origin", "cause": "freeze", "ctqo": "upstream", "vlrt": 3}
    other = {"dropper": None, "origin": None, "cause": "unknown", "ctqo": "none", "vlrt": 2}
    assert table.said([]) == table.said([{"rows": []}]) == "no VLRT"
    more = {**frozen, "vlrt": 5}
    assert table.said([{"rows": [other, frozen]}, {"rows": [more]}]) == (
        "front drops, origin: freeze, upstream (80% of VLRT)"
    )
    assert table.said([{"rows": [other]}]) == "nothing is dropped, cause unknown, none (100% of VLRT)"


@pytest.mark.parametrize("template", ["nginx.conf", "haproxy.cfg", "apache.conf", "envoy.yaml", "pgbouncer.ini"])
def test_a_configuration_has_no_word_left(tmp_path: Path, template: str) -> None:
    place = Place("10.0.0.3", 80, "10.0.0.4:8000", tmp_path, small=False)
    text = Path(place.render(template, {"PROTOCOL": "http_protocol_options"})).read_text()
    assert "10.0.0.3" in text
    for word in ("FOLDER", "ORIGIN", "HOST", "PORT", "PROTOCOL"):
        assert word not in text


def test_tomcat_has_the_papers_queues_only_when_they_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "venv/lib/python3").mkdir(parents=True)
    [threads] = [front for front in FRONTS if front.name == "Tomcat, threads"]
    shipped, small = (
        threads.start(Tools(tmp_path), Place("10.0.0.3", 80, "10.0.0.4:8000", tmp_path, small)).command
        for small in (False, True)
    )
    assert small == [*shipped, "maxThreads=150", "maxConnections=150", "acceptCount=128"]


def test_what_stands_behind_a_front_is_known() -> None:
    assert {name for front in FRONTS for name in front.behind} == ORIGINS.keys()
