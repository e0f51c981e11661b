"""Queues with and without a change, and the concurrency at which a tier answers most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders import SMALL
from tailrace import advise
from tailrace.advise import drawings, page
from tailrace.advise.queues import Knee
from tailrace.advise.serialise import to_json
from tailrace.experiment import from_table

CHAIN: dict[str, Any] = SMALL | {
    "kernel": {"syn": "linux-3.3"},
    "duration": "6 s",
    "ramp": "0 s",
    "tiers": {
        "web": {"workers": 8, "backlog": 8, "calls": {"app": {}}},
        "app": {"workers": 100, "calls": {"db": {}}},
        "db": {},
    },
    "interactions": {
        "page": {"at": {"web": {"compute": "1 ms", "calls": {"part": 1}}}},
        "part": {"at": {"app": {"compute": "1 ms", "calls": {"query": 1}}}},
        "query": {"at": {"db": {"compute": "1 ms"}}},
    },
    "workloads": {"w": {"kind": "poisson", "rate": 150.0, "interaction": "page"}},
    "stalls": [{"kind": "freeze", "place": "app", "at": "2 s", "for": "400 ms"}],
}


def test_the_queues_are_those_of_the_tier_that_drops_and_of_the_stalled_one(tmp_path: Path) -> None:
    found = advise.advise(from_table(CHAIN), tmp_path, replications=2)
    assert found.queues is not None
    web, app = found.queues.lines
    assert (web.tier, app.tier) == ("web", "app")
    assert max(web.now) == 8 + 8 + 1  # workers, backlog and one more
    assert max(app.now) == 8  # all workers of web
    text = page.html(found)
    assert "Longest queue of web" in text
    assert 'id="queues"' in text
    assert 'id="twin"' not in text
    assert [line["tier"] for line in to_json(found)["queues"]] == ["web", "app"]


def test_the_knee_is_the_lowest_concurrency_with_nearly_all_answers() -> None:
    knee = Knee("app", ((1, 100.0), (2, 190.0), (4, 290.0), (8, 300.0), (16, 20.0)))
    assert knee.at == 4
    assert drawings.sentence(knee) == (
        "app answers most with 4 requests inside: 300 a second at most. "
        "With 16 or more it answers 20 a second: it is stalled then."
    )
    assert len(drawings.knee(knee).curves[0].points) == 5
