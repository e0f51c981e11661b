"""Traces that were kept for their duration have an edge, and complete or randomly sampled ones have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tailrace import readers
from tailrace.diagnosis import diagnose
from tailrace.readers.spans_chosen import Edge, edge
from tailrace.topology import Server, Topology
from tailrace.units import MILLISECOND, parse_moment

SEEDS = range(40)


def system(name: str, random: np.random.Generator, n: int = 20_000) -> tuple[Any, Any, Any]:
    """Durations in ms, longest calls in ms and interactions of a complete recording."""
    kind = random.integers(0, 3, n)
    own, call = random.exponential(20, n) * (1 + kind), random.exponential(40, n)
    if name == "stalls":
        call += np.where(random.random(n) < 0.05, random.uniform(0, 3000, n), 0)
    elif name == "lost":
        own += random.choice([0, 1000, 3000], n, p=[0.9, 0.08, 0.02])
    elif name == "lost anywhere":
        gap = random.choice([0, 1000, 3000], n, p=[0.7, 0.25, 0.05])
        in_call = random.random(n) < 0.5
        own, call = own + np.where(in_call, 0, gap), call + np.where(in_call, gap, 0)
    elif name == "lost twice":
        own += random.choice([0, 1000], n, p=[0.6, 0.4])
        call += random.choice([0, 1000], n, p=[0.6, 0.4])
    elif name == "lost data":
        own, call = own / 10, call / 10 + random.choice([0, 200, 600], n, p=[0.8, 0.15, 0.05])
    elif name == "timed out twice":
        twice = random.random(n) < 0.2
        own, call = own + 150 * twice, np.where(twice, 150, call)
    elif name == "two modes":
        slow = np.where(random.random(n) < 0.3, 10, 1)
        own, call = own * slow, call * slow
    elif name == "floor of the call":
        call += 100
    elif name == "own floor":
        own += 100
    elif name == "two floors":
        own, call = own + 40, call + 60
    elif name == "filled up":
        own = np.maximum(own, 100 - call)
    elif name == "narrow":
        own, call = random.lognormal(3, 0.05, n), random.lognormal(3, 0.05, n)
    elif name == "broad":
        own, call = random.lognormal(3, 1.5, n), random.lognormal(3, 1.5, n)
    elif name == "gamma":
        own, call = random.gamma(8, 5, n), random.gamma(2, 20, n)
    elif name == "no calls":
        own, call = own + 100, np.zeros(n)
    elif name == "whole milliseconds":
        own, call = np.ceil(own), np.ceil(call)
    return own + call, call, kind


SYSTEMS = (
    *("plain", "stalls", "lost", "floor of the call", "own floor", "two floors", "filled up", "narrow", "broad"),
    *("gamma", "no calls", "whole milliseconds"),
    *("lost anywhere", "lost twice", "lost data", "timed out twice", "two modes"),
)


def found(took: Any, call: Any, kind: Any, kept: Any) -> Edge | None:
    ns = [np.round(column[kept] * MILLISECOND).astype(np.int64) for column in (took, call)]
    return edge(*ns, kind[kept].astype(np.uint64))


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("share", [1.0, 0.1, 0.02])
def test_complete_and_randomly_sampled_traces_have_no_edge(name: str, share: float) -> None:
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        took, call, kind = system(name, random)
        assert found(took, call, kind, random.random(len(took)) < share) is None, seed


def above(name: str, seed: int, threshold_ms: int, share: float) -> float:
    """The edge in ms of traces above a latency and a share of the others."""
    random = np.random.default_rng(seed)
    took, call, kind = system(name, random)
    at = found(took, call, kind, (took >= threshold_ms) | (random.random(len(took)) < share))
    assert at is not None, seed
    return at.at / MILLISECOND


@pytest.mark.parametrize("name", ["plain", "stalls", "broad"])
@pytest.mark.parametrize(("threshold_ms", "share"), [(100, 0.0), (100, 0.005), (150, 0.0)])
def test_traces_above_a_latency_have_an_edge_there(name: str, threshold_ms: int, share: float) -> None:
    """Also if a few of the others are kept at random."""
    for seed in SEEDS:
        assert 0.99 <= above(name, seed, threshold_ms, share) / threshold_ms <= 1.01


@pytest.mark.parametrize("name", ["plain", "stalls", "broad"])
@pytest.mark.parametrize(("threshold_ms", "share"), [(100, 0.03), (120, 0.03), (150, 0.01)])
def test_a_random_share_of_the_others_does_not_hide_the_edge(name: str, threshold_ms: int, share: float) -> None:
    """Of a policy of its own. Some of the share lie just below, so the edge is known less exactly."""
    for seed in SEEDS:
        assert 0.97 <= above(name, seed, threshold_ms, share) / threshold_ms <= 1.01


@pytest.mark.parametrize("name", SYSTEMS)
def test_few_traces_or_one_interaction_prove_nothing(name: str) -> None:
    took, call, kind = system(name, np.random.default_rng(1))
    slow = took >= 150
    assert found(took[:300], call[:300], kind[:300], slow[:300]) is None
    assert found(took, call, np.zeros(len(took)), slow) is None


def zipkin(path: Path, took: Any, call: Any, kind: Any, kept: Any, failed: Any = None) -> Path:
    """Traces of web, which calls app; those in `failed` end with an error."""
    begin, spans = parse_moment("2026-11-20T16:49:00Z") // 1000, []
    for n in np.flatnonzero(kept).tolist():
        whole, inner = int(took[n] * 1000), int(call[n] * 1000)
        for own, parent, service, span_kind, first, length in (
            ("1", None, "web", "SERVER", 0, whole),
            ("2", "1", "web", "CLIENT", whole - inner, inner),
            ("2", "1", "app", "SERVER", whole - inner, inner),
        ):
            about = {"traceId": f"{n + 1:x}", "id": own, "name": f"kind-{'abc'[kind[n]]}", "kind": span_kind}
            about |= {"timestamp": begin + 10_000 * n + first, "duration": length} | (
                {"parentId": parent} if parent else {}
            )
            if failed is not None and failed[n]:
                about["tags"] = {"error": "true"}
            spans.append({**about, "localEndpoint": {"serviceName": service}})
    path.write_text(json.dumps(spans))
    return path


def test_slow_traces_of_a_file_are_requests_without_visits_and_the_finding_says_why(tmp_path: Path) -> None:
    took, call, kind = system("stalls", np.random.default_rng(3), 6000)
    whole = readers.read(zipkin(tmp_path / "whole.json", took, call, kind, took > 0))
    assert whole.manifest.rows["visits"] == 12_000
    assert {server.chosen for server in whole.topology.servers} == {None}
    slow = readers.read(zipkin(tmp_path / "slow.json", took, call, kind, took >= 150))
    assert "visits" not in slow.manifest.rows
    assert {server.chosen for server in slow.topology.servers} == {True}
    assert "faster traces were left out" in " ".join(slow.manifest.notes)
    assert slow.manifest.rows["requests"] == (took >= 150).sum()
    said = [finding.sentence for episode in diagnose(slow).episodes for finding in episode.findings]
    assert any("tail sampling" in sentence for sentence in said)


def test_errors_alone_are_requests_without_visits(tmp_path: Path) -> None:
    """One request that succeeded shows that others were kept, too; few failures show nothing."""
    took, call, kind = system("plain", np.random.default_rng(5), 3000)
    failed = np.random.default_rng(6).random(3000) < 0.2
    alone = readers.read(zipkin(tmp_path / "alone.json", took, call, kind, failed, failed))
    assert "visits" not in alone.manifest.rows
    assert alone.manifest.rows["requests"] == failed.sum()
    [said] = [note for note in alone.manifest.notes if "requests failed" in note]
    assert "An access log or a counter of all requests of the same time would settle it" in said
    kept = Topology(servers=(Server(name="web", kept=1.0),))
    whole = readers.read(tmp_path / "alone.json", topology=kept).manifest
    assert whole.rows["visits"] == 2 * failed.sum()
    assert any("the topology says that they were not kept because they failed" in note for note in whole.notes)
    one = failed.copy()
    one[np.flatnonzero(~failed)[0]] = True
    for name, kept in (("whole", took > 0), ("one", one), ("few", failed & (np.arange(3000) < 300))):
        run = readers.read(zipkin(tmp_path / f"{name}.json", took, call, kind, kept, failed))
        assert run.manifest.rows["visits"] == 2 * kept.sum(), name
    same = readers.read(zipkin(tmp_path / "same.json", took, call, np.zeros(3000, int), failed, failed))
    assert same.manifest.rows["visits"] == 2 * failed.sum()


@pytest.mark.parametrize(
    ("others", "visits"),
    [("failed", True), ("all", False), ("nearly", False), ("few", False), ("calls", False)],
    ids=["outage", "choice", "choice of most", "unknown", "calls behind"],
)
def test_another_input_shows_whether_everything_failed(tmp_path: Path, others: str, visits: bool) -> None:
    """An access log has the same requests, or others that succeeded; one that has fewer, or more that failed as well,
    may see another part of the system."""
    rng = np.random.default_rng(8)
    took, call, kind = system("plain", rng, 3000)
    failed = rng.random(3000) < 0.2
    traces = zipkin(tmp_path / "traces.json", took, call, kind, failed, failed)
    some = rng.random(3000)
    which = {"failed": failed, "all": failed | True, "nearly": failed | (some < 0.01), "few": failed & (some < 0.3)}
    rows = np.repeat(np.flatnonzero(which.get(others, failed)), 3 if others == "calls" else 1)
    begin = parse_moment("2026-11-20T16:49:00Z") / 10**9
    (tmp_path / "access.log").write_text(
        "".join(
            f'10.0.0.9 - - [20/Nov/2026:16:49:00 +0000] "GET /{"abc"[kind[n]]} HTTP/1.1" {500 if failed[n] else 200} 9 '
            f"msec={begin + n / 100 + took[n] / 1000:.3f} rt={took[n] / 1000:.3f}\n"
            for n in rows.tolist()
        )
    )
    run = readers.read(traces, f"web={tmp_path / 'access.log'}")
    with_visits = run.visits().select(pl.col("server").cast(pl.String)).unique().collect()["server"].to_list()
    assert ("app" in with_visits) == visits
    said = " ".join(note for note in run.manifest.notes if note.startswith("traces.json"))
    expected = {"failed": "none are missing", "few": "would settle it", "calls": "would settle it"}
    assert expected.get(others, "only traces with errors were kept") in said
    chosen = {server.name: server.chosen for server in run.topology.servers}
    assert chosen["app"] is (None if visits else True)
