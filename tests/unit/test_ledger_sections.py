"""What the ledger looks at and replays of a recording with many episodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import T0
from systems import Slow, system
from tailrace.diagnosis import tables, vlrt
from tailrace.diagnosis.ledger import nearby, verdict
from tailrace.diagnosis.ledger.sections import Sections
from tailrace.diagnosis.ledger.trial import Trial
from tailrace.diagnosis.spans import length, overlap, spans

S, MS = 1_000_000_000, 1_000_000


def test_in_a_busy_recording_little_calm_time_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tables.look(system(Slow("app", 14.0, 14.8), seconds=30.0), 50 * MS)
    slow = vlrt.find(seen, None)
    [cluster] = slow.clusters
    whole = nearby.nearby(seen, slow, slow.clusters)
    assert whole.tolist() == [[seen.begin, seen.end + 1]]
    few = nearby.visits(seen, slow.calm) // 2
    monkeypatch.setattr(nearby, "VISITS", few)
    found = nearby.nearby(seen, slow, slow.clusters)
    near = cluster.begin - nearby.NEAR_NS, slow.answered(cluster) + nearby.NEAR_NS
    assert length(found) < length(whole)
    assert overlap(found, *near)[0] == near[1] - near[0], "all that is near"
    calm = nearby.visits(
        seen, spans([(max(b, c), min(e, d)) for b, e in found.tolist() for c, d in slow.calm.tolist()])
    )
    assert calm == pytest.approx(few, rel=0.1)


def test_no_calm_time_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tables.look(system(Slow("app", 14.0, 14.8), seconds=30.0), 50 * MS)
    slow = replace(vlrt.find(seen, None), calm=spans([]))
    monkeypatch.setattr(nearby, "VISITS", 1)
    [cluster] = slow.clusters
    [(begin, end)] = nearby.nearby(seen, slow, slow.clusters).tolist()
    assert (begin, end) == (cluster.begin - nearby.NEAR_NS, slow.answered(cluster) + nearby.NEAR_NS)


def test_episodes_of_one_overload_share_their_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stalls follow each other without calm time between them. The result is that of sections of their own."""
    memory = system(Slow("app", 4.0, 4.8), Slow("app", 8.0, 8.8), seconds=20.0)
    seen = tables.look(memory, 50 * MS)
    slow = vlrt.find(seen, None)
    slow = replace(slow, calm=spans([(T0, T0 + 2 * S), (T0 + 14 * S, T0 + 20 * S)]))
    assert len(slow.clusters) == 2
    replayed: list[int] = []
    times = Trial.times

    def counted(self: Trial, without: frozenset[tuple[str, str]], **how: bool) -> object:
        replayed.append(len(self.visits))
        return times(self, without, **how)

    monkeypatch.setattr(Trial, "times", counted)
    together = verdict.judge(seen, slow)
    shared = len(replayed)
    usual = Sections.usual
    monkeypatch.setattr(Sections, "alike", lambda self, number: [number])
    monkeypatch.setattr(
        Sections, "usual", lambda self, number: usual(Sections(self._removable, [self._usual[number]], [None]), 0)
    )
    replayed.clear()
    alone = verdict.judge(seen, slow)
    assert shared < len(replayed)
    for one, other in zip(together, alone, strict=True):
        assert one is not None
        assert other is not None
        assert one.shares == other.shares
        assert one.replayed == other.replayed
        assert one.shares[0].cause == "freeze"
