"""Two causes at once: neither change is enough alone, and the answer says so. A change that moves the trouble names
where it goes."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace import advise
from tailrace.advise import advising
from tailrace.advise.advice import Advice
from tailrace.advise.answer import causes, sentences
from tailrace.advise.remedies import backlog, workers
from tailrace.advise.serialise import to_json
from tailrace.experiment import from_table

FREEZES = [
    {"kind": "freeze", "place": place, "at": at, "for": "300 ms"} for place, at in (("shop", "1 s"), ("blog", "2 s"))
]
TWO: dict[str, Any] = {
    "duration": "4 s",
    "ramp": "500 ms",
    "kernel": {"syn": ["1 s", "3 s"]},
    "tiers": {name: {"workers": 4, "backlog": 4} for name in ("shop", "blog")},
    "interactions": {"page": {"at": {name: {"compute": "1 ms"} for name in ("shop", "blog")}}},
    "workloads": {
        name: {"kind": "poisson", "rate": 200.0, "interaction": "page", "entry": name} for name in ("shop", "blog")
    },
    "stalls": FREEZES,
}
"""Two servers with clients of their own, and a freeze of each."""


@pytest.fixture(scope="module")
def both() -> Advice:
    """Of the changes of one server each: earlier repetitions would end the loss at both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advising, "REMEDIES", (backlog.REMEDY, workers.REMEDY))
        return advise.advise(from_table(TWO), replications=3)


def test_two_causes_take_two_changes(both: Advice) -> None:
    assert both.best is not None
    assert len(both.best.remedies) == 2
    singles = [one for one in both.ranked if len(one.remedies) == 1]
    assert singles
    assert max(one.removes for one in singles) < 0.99 <= both.best.removes
    _, do, _ = sentences(both)
    assert "both are needed, because to " in do
    assert " alone leaves " in do


def test_a_pair_has_the_keys_of_both_changes_and_at_most_four_are_tried(both: Advice) -> None:
    pairs = [one for one in both.ranked if len(one.remedies) == 2]
    assert 1 <= len(pairs) <= 4
    for pair in pairs:
        first, _, second = pair.words.partition(" and ")
        assert first
        assert second
        assert pair.removes > max(one.removes for one in both.ranked if len(one.remedies) == 1) + 0.01
    best = to_json(both)["ranked"][0]
    places = {key.split(".")[1] for key in best["keys"]}
    assert places == {"shop", "blog"}


def test_a_single_cause_takes_one_change() -> None:
    found = advise.advise(from_table(TWO | {"stalls": FREEZES[:1]}), replications=3)
    assert found.best is not None
    assert len(found.best.remedies) == 1
    assert all(len(one.remedies) == 1 for one in found.ranked)
    assert causes(found.experiment) == ["freeze at shop"]


def test_what_lets_more_requests_through_names_the_tier_that_drops_them_then() -> None:
    table: dict[str, Any] = {
        "duration": "4 s",
        "ramp": "500 ms",
        "kernel": {"syn": ["1 s", "3 s"]},
        "tiers": {
            "web": {"workers": 10, "backlog": 4, "calls": {"app": {"kept": False}}},
            "app": {"workers": 8, "backlog": 8},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "100 us", "calls": {"part": 1}}}},
            "part": {"at": {"app": {"compute": "1 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 400.0, "interaction": "page"}},
        "stalls": [{"kind": "freeze", "place": "app", "at": "1 s", "for": "400 ms"}],
    }
    found = advise.advise(from_table(table), replications=3)
    named = {one.words: one.bottleneck for one in found.ranked if one.bottleneck}
    assert set(named.values()) == {"app"}
    assert any("workers of web" in name or "asynchronous" in name for name in named), named
    shown = {one["change"]: one["bottleneck"] for one in to_json(found)["ranked"]}
    assert {name: shown[name] for name in named} == named
