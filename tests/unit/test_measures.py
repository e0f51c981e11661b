"""Every measure against a table small enough to compute by hand, and against its entry in the reference."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import builders
from builders import T0
from tailrace import experiment
from tailrace.errors import UsageError
from tailrace.study import drawn
from tailrace.study.measured import Measured
from tailrace.study.measures import MEASURES, dimension
from tailrace.study.runs import check
from tailrace.units import MILLISECOND, SECOND

ROOT = Path(__file__).parents[2]
MS, S = MILLISECOND, SECOND

SYSTEM = experiment.from_table(
    {
        "tiers": {"web": {"count": 2, "calls": ["app"]}, "app": {}, "other": {}},
        "nodes": {"app": {"cores": 2}},
        "workloads": {"w": {"clients": 1, "entry": "web"}},
    }
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Ten seconds: six requests to web1 and web2 and one elsewhere, with their visits, samples and events."""

    def request(server: str, sent: int, took: int, **more: Any) -> dict[str, Any]:
        return {"server": server, "sent": T0 + sent, "end": T0 + sent + took, "interaction": "Home", **more}

    def visit(server: str, arrival: int, took: int) -> dict[str, Any]:
        at = T0 + arrival
        return {"server": server, "sent": at, "arrival": at, "departure": at + took, "interaction": "Home"}

    def busy(place: str, number: int, value: float) -> dict[str, Any]:
        return {"place": place, "time": T0 + (number + 1) * 50 * MS, "value": value}

    requests = [
        request("web1", -1 * S, 5 * MS),  # in the ramp: not measured
        request("web1", 0, 4 * MS),
        request("web2", 1 * S, 6 * MS, interaction="Story"),
        request("web1", 2 * S, 20 * MS),
        request("web2", 3 * S, 3004 * MS, drops=1),
        request("web1", 4 * S, 9006 * MS, drops=2),
        request("web1", 5 * S, 1 * S, status="timeout"),
        request("other", 6 * S, 8 * S),
    ]
    visits = [visit("web1", 0, 4 * MS), visit("web1", 1 * MS, 1 * MS), visit("app", 2 * MS, 100 * MS)]
    visits += [visit("web2", 5 * S, 50 * MS)]
    for called in visits[1], visits[3]:
        called["parent"] = 3
    visits[2]["start"] = T0 + 3 * MS
    visits = [{"visit": number + 1, **row} for number, row in enumerate(visits)]
    samples = [busy("app", k, value) for k, value in enumerate((0.2, 0.97, 1.0, 0.4, 1.0, 0.6))]
    samples += [busy("web1", 0, 0.5), busy("web2", 0, 0.1), {**busy("app", 9, 2.2e9), "metric": "cpu_hz"}]
    events = [
        {"place": "web1", "kind": "drop", "begin": T0 + 3 * S},
        {"place": "web1", "kind": "drop", "begin": T0 + 4 * S},
        {"place": "app", "kind": "drop", "begin": T0 + 4 * S},
        {"place": "app", "kind": "gc", "begin": T0 + 1 * S, "end": T0 + 1 * S + 300 * MS},
        {"place": "app", "kind": "gc", "begin": T0 + 2 * S, "end": T0 + 2 * S + 100 * MS},
        {"place": "web1", "kind": "drop", "begin": T0 - 1 * S},
    ]
    dataset = builders.run(
        tmp_path_factory.mktemp("measured") / "run",
        requests=builders.requests(*sorted(requests, key=lambda row: int(row["end"]))),
        visits=builders.visits(*sorted(visits, key=lambda row: int(row["departure"]))),
        samples=builders.samples(*sorted(samples, key=lambda row: int(row["time"]))),
        events=builders.events(*sorted(events, key=lambda row: int(row["begin"]))),
    )
    return Measured(dataset, SYSTEM, T0, T0 + 10 * S)


GC = {"series": "gc", "place": "app"}
BUSY = {"series": "cpu_busy", "place": "app"}
VLRT = {"series": "vlrt", "place": "web"}

CASES: list[tuple[str, dict[str, Any], float]] = [
    ("throughput", {}, 0.4),
    ("throughput", {"place": "other"}, 0.0),
    ("clients", {}, 1),
    ("requests", {}, 6),
    ("requests", {"place": "web2"}, 2),
    ("requests", {"place": "other"}, 1),
    ("failures", {}, 1),
    ("response_mean", {"place": "web2"}, (6 + 3004) / 2 * MS),
    ("response_mean", {"interaction": "Story"}, 6 * MS),
    ("response_percentile", {"percentile": 80}, 3004 * MS),
    ("response_percentile", {"percentile": 100}, 9006 * MS),
    ("share_over", {"over": 1 * S}, 3 / 6),
    ("count_over", {"over": 3 * S}, 2),
    ("share_under", {"under": 10 * MS}, 2 / 6),
    ("count_between", {"over": 3 * S, "under": 4 * S}, 1),
    ("share_between", {"over": 3 * S, "under": 4 * S}, 1 / 6),
    ("retransmitted", {}, 2 / 6),
    ("drops", {}, 3),
    ("drops", {"place": "web"}, 2),
    ("utilisation", {"place": "web"}, 0.3),
    ("overhead", {"place": "web", "demand": 500 * MS}, 0.3 - 0.4 * 0.5 / 2),
    ("overhead", {"place": "app", "demand": 500 * MS}, (0.2 + 0.97 + 1.0 + 0.4 + 1.0 + 0.6) / 6 - 0.4 * 0.5 / 2),
    ("cache_misses", {"place": "web", "demand": 500 * MS, "least": 7.0, "each": 2.0}, 7 + 2 * 20),
    ("utilisation_max", {}, (0.2 + 0.97 + 1.0 + 0.4 + 1.0 + 0.6) / 6),
    ("level", {"metric": "cpu_busy", "place": "app", "statistic": "max"}, 1.0),
    ("lead", {"metric": "cpu_busy", "server": "web1", "place": "web", "begin": 0, "end": 10 * S}, 0.4),
    ("clock_rate", {"place": "app"}, 2.2e9),
    ("saturated_longest", {"place": "app"}, 100 * MS),
    ("saturated_share", {"place": "app"}, 3 / 6),
    ("queue_max", {"place": "web"}, 2),
    ("queue_mean", {"place": "app"}, 100 * MS / (10 * S)),
    ("fluctuation", {"series": "queue", "place": "app", "statistic": "max"}, 1),
    ("fluctuation", {"series": "response", "place": "web1", "window": 10 * S}, 0),
    (
        "fluctuation",
        {"series": "response", "place": "web1", "window": 3 * S, "statistic": "mean"},
        (12 + 9006) / 2 * MS,
    ),
    ("fluctuation", {"series": "cpu_busy", "place": "app", "statistic": "max"}, 1.0),
    (
        "fluctuation",
        {"series": "response", "place": "web", "window": 10 * S, "statistic": "mean", "interaction": "Story"},
        6 * MS,
    ),
    ("arrivals", {"place": "web"}, 0.3),
    ("arrivals", {"place": "web", "window": 5 * S}, 0.3),
    ("arrivals", {"place": "web", "window": 5 * S, "statistic": "sd"}, 0.1),
    ("arrivals", {"place": "web", "window": 5 * S, "statistic": "cv"}, 1 / 3),
    ("visit_mean", {"place": "web"}, (4 + 1 + 50) / 3 * MS),
    ("visit_share", {"server": "web1", "place": "web"}, 2 / 3),
    ("visit_share", {"server": "web1", "place": "web", "begin": 9 * S, "end": 9 * S}, 0.0),
    ("assigned_share", {"server": "web2", "place": "web", "begin": 0, "end": 1 * S}, 1 / 2),
    ("assigned_share", {"server": "web2", "place": "web", "begin": 1 * S, "end": 9 * S}, 0.0),
    ("assigned_max", {"place": "web"}, 1),
    ("collection_per_minute", {"place": "app"}, 2400 * MS),
    ("collection_longest", {"place": "app"}, 300 * MS),
    ("collections", {"place": "app"}, 2),
    ("queue_together", {"place": "web"}, 2),
    ("episodes", {"when": GC}, 2),
    ("episodes", {"when": {**GC, "gap": 2 * S}}, 1),
    ("episodes", {"when": GC, "per": 5 * S}, 1),
    ("episodes", {"when": {**BUSY, "gap": 0}}, 2),
    ("episodes", {"when": {**BUSY, "gap": 0, "lasts": 100 * MS}}, 1),
    ("episodes", {"when": {**BUSY, "most": 0.5}}, 1),
    ("episode_period", {"when": GC}, 1 * S),
    ("episode_period", {"when": {**GC, "place": "web"}}, 0),
    ("episode_length", {"when": GC}, 200 * MS),
    ("episode_length", {"when": BUSY}, 200 * MS),
    ("episode_size", {"when": {**VLRT, "gap": 1 * S}, "statistic": "max"}, 3),
    ("episode_size", {"when": {**VLRT, "gap": 1 * S, "over": 3 * S}}, 2),
    ("coincidence", {"when": VLRT, "meets": {"series": "drop", "place": "web"}}, 2 / 3),
    ("coincidence", {"when": {"series": "drop", "place": "web"}, "meets": VLRT}, 1),
    ("coincidence", {"when": GC, "meets": VLRT}, 0),
    ("coincidence", {"when": GC, "meets": VLRT, "near": 1000 * MS}, 1 / 2),
    ("coincidence_by_chance", {"when": GC, "meets": {**VLRT, "gap": 2 * S}}, (2050 + 100 + 200) / 10_000),
    ("lag", {"when": {"series": "drop", "place": "web"}, "meets": GC, "near": 900 * MS}, 1 * S),
    ("lag", {"when": GC, "meets": VLRT}, 0),
]


@pytest.mark.parametrize(("name", "values", "by_hand"), CASES, ids=lambda value: str(value))
def test_a_measure_is_what_a_hand_computes(run: Measured, name: str, values: dict[str, Any], by_hand: float) -> None:
    assert MEASURES[name].compute(run, **values) == pytest.approx(by_hand)


def test_overhead_is_over_the_cores_that_a_tier_can_use(tmp_path: Path) -> None:
    """Two servers of at most 1.5 cores share the two cores of one node: at 0.8 and 0.4 of 1.5 they use 1.8 of the 2."""
    shared = {"node": "host", "cores": 1.5, "count": 2}
    found = experiment.from_table(
        {
            "tiers": {"app": shared, "db": {"node": "host", "cores": 0.5}, "wide": {"cores": 4}},
            "nodes": {"host": {"cores": 2}},
            "workloads": {"w": {"clients": 1, "entry": "app"}},
        }
    )
    rows = [("app1", 0.8), ("app2", 0.4), ("db", 0.6), ("wide", 0.7), ("host", 0.9)]
    samples = [{"place": place, "time": T0 + 50 * MS, "value": value} for place, value in rows]
    dataset = builders.run(tmp_path / "run", samples=builders.samples(*samples))
    run = Measured(dataset, found, T0, T0 + 1 * S)
    expected = {"app": 1.8 / 2, "app1": 0.8, "db": 0.6, "wide": 0.7, "host": 0.9}
    assert {place: MEASURES["overhead"].compute(run, place=place, demand=1) for place in expected} == pytest.approx(
        expected
    )


def test_every_measure_has_a_case() -> None:
    assert sorted({name for name, _, _ in CASES}) == sorted(MEASURES)


def test_the_reference_has_every_measure_with_its_sentence_and_values() -> None:
    text = (ROOT / "docs/reference/measures.md").read_text()
    for name, measure in MEASURES.items():
        [row] = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        assert " ".join((measure.compute.__doc__ or "").split()) in row
        for parameter in list(inspect.signature(measure.compute).parameters.values())[1:]:
            assert f"`{parameter.name}`{'' if parameter.default is parameter.empty else '?'}" in row


def test_an_error_about_missing_samples_lists_existing_ones(run: Measured) -> None:
    with pytest.raises(UsageError, match="cpu_busy was not sampled at other; places that were: app, web1, web2"):
        MEASURES["utilisation"].compute(run, place="other")
    with pytest.raises(UsageError, match="gc_share was not sampled at app; there: cpu_busy, cpu_hz"):
        MEASURES["level"].compute(run, metric="gc_share", place="app")


def test_a_server_is_one_of_its_place_and_a_window_no_wider_than_there_are(run: Measured) -> None:
    with pytest.raises(UsageError, match=r"server must be the name of a server of web \(web1, web2\), got 'web3'"):
        MEASURES["visit_share"].compute(run, server="web3", place="web")
    with pytest.raises(UsageError, match="window must be from 1 ms to 10 s"):
        MEASURES["fluctuation"].compute(run, series="queue", place="app", window=11 * S)


@pytest.mark.parametrize("name", ["level", "lead", "fluctuation"])
@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("cpu_hz_max", "hertz"),
        ("cpu_hz", "hertz"),
        ("cpu_busy", "share"),
        ("rss_bytes", "bytes"),
        ("run_queue", "count"),
    ],
)
def test_what_is_sampled_keeps_its_unit(name: str, metric: str, unit: str) -> None:
    assert dimension(name, {"series" if name == "fluctuation" else "metric": metric}) == unit
    assert drawn.unit_of(metric) == unit


@pytest.mark.parametrize(
    ("when", "sentence"),
    [
        ("queue", "when must be a table like"),
        ({"series": "gc"}, "when must be a table like"),
        ({"series": "queues", "place": "web"}, "when.series must be the name of a series or kind of event"),
        ({"series": "queue", "place": "web"}, "when needs least or most, in the unit of queue"),
        ({"series": "drops", "place": "web", "over": 1}, "when.over is for vlrt alone, got drops"),
    ],
)
def test_an_episode_says_what_it_lacks(when: Any, sentence: str) -> None:
    assert sentence in str(check("episodes", {"when": when}, ""))


def test_a_histogram_counts_what_is_above_its_last_edge_too(run: Measured) -> None:
    assert drawn.histogram(run, [0, 10 * MS, 1 * S, 4 * S]) == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("series", "place", "values"),
    [
        ("cpu_busy", "app", [(0.2 + 0.97) / 2, (1.0 + 0.4) / 2, (1.0 + 0.6) / 2, None]),
        ("queue", "app", [1, 1, 0, 0]),
        ("queue_mean", "app", [0.98, 0.02, 0, 0]),
        ("arrivals", "web1", [2, 0, 0, 0]),
        ("response", "web", [0.004, None, None, None]),
        ("response", "app", [0.1, None, None, None]),
        ("vlrt", "web", []),
    ],
)
def test_a_series_has_a_value_for_each_window(
    run: Measured, series: str, place: str, values: list[float | None]
) -> None:
    found = drawn.series(run, series, place, 0, 400 * MS, 100 * MS)
    if series == "vlrt":
        [line] = drawn.series(run, series, place, 3 * S, 6 * S, 1 * S)
        assert line["values"] == [1, 1, 1]
        return
    [line] = found
    assert line["first"] == 50 * MS
    assert line["values"] == pytest.approx(values)


def test_a_series_of_one_page_counts_what_its_requests_cause(tmp_path: Path) -> None:
    def visit(number: int, request: int, arrival: int, departure: int) -> dict[str, Any]:
        at = {"sent": T0 + arrival, "arrival": T0 + arrival, "departure": T0 + departure}
        return {"visit": number, "request": request, "server": "app", "interaction": "SELECT", **at}

    asked = [
        {"request": number, "server": "web1", "interaction": page, "sent": T0, "end": T0 + 450 * MS}
        for number, page in ((1, "Story"), (2, "Home"), (3, "Story"))
    ]
    visits = [visit(3, 3, 100 * MS, 140 * MS), visit(1, 1, 50 * MS, 320 * MS), visit(2, 2, 60 * MS, 330 * MS)]
    dataset = builders.run(tmp_path / "run", requests=builders.requests(*asked), visits=builders.visits(*visits))
    run = Measured(dataset, SYSTEM, T0, T0 + 1 * S)
    [story] = drawn.series(run, "queue", "app", 0, 500 * MS, 100 * MS, "Story")
    [every] = drawn.series(run, "queue", "app", 0, 500 * MS, 100 * MS)
    assert story["values"] == [1, 2, 1, 1, 0]
    assert every["values"] == [2, 3, 2, 2, 0]
    [took] = drawn.series(run, "response", "app", 0, 200 * MS, 100 * MS, "Story")
    assert took["values"] == pytest.approx([0.27, 0.04])
    assert drawn.series(run, "queue", "app", 0, 500 * MS, 100 * MS, "Search") == []


def test_a_stay_without_an_end_goes_on() -> None:
    stays = pl.LazyFrame({"label": ["app"] * 3, "begin": [0, 5, 5], "end": [5, None, 7]})
    assert drawn.inside(stays).collect()["value"].to_list() == [1, 0, 1, 2, 1]


def test_only_queues_and_response_times_are_of_one_page(run: Measured) -> None:
    sentence = "interaction is for the series queue and response, got drops"
    with pytest.raises(UsageError, match=sentence):
        drawn.series(run, "drops", "web", 0, 1 * S, 100 * MS, "Story")
    values = {"series": "drops", "place": "web", "interaction": "Story"}
    assert check("fluctuation", values, "values[0].") == f"values[0].{sentence}"


def test_what_waits_for_a_connection_is_assigned(tmp_path: Path) -> None:
    def visit(number: int, server: str, start: int, departure: int, **more: Any) -> dict[str, Any]:
        at = {"sent": T0 + start, "arrival": T0 + start, "start": T0 + start, "departure": T0 + departure}
        return {"visit": number, "server": server, **at, **more}

    calls = [
        visit(2, "app", 1 * MS, 5 * MS, parent=1),
        visit(4, "app", 5 * MS, 9 * MS, parent=3),  # has waited until the first was back
        visit(5, "app", 9 * MS, 10 * MS, parent=3),  # the same request again
        visit(7, "app", 10 * MS, 11 * MS, parent=6),
    ]
    callers = [visit(1, "web1", 0, 6 * MS), visit(3, "web1", 2 * MS, 10 * MS), visit(6, "web1", 10 * MS, 12 * MS)]
    visits = builders.visits(*sorted(callers + calls, key=lambda row: int(row["departure"])))
    run = Measured(builders.run(tmp_path / "run", visits=visits), SYSTEM, T0, T0 + 1 * S)
    assert MEASURES["assigned_max"].compute(run, place="app") == 2
    assert MEASURES["queue_max"].compute(run, place="app") == 1


def test_what_callers_assign_is_unknown_without_their_logs(tmp_path: Path) -> None:
    at = {"sent": T0, "arrival": T0, "departure": T0 + 5 * MS}
    seen = builders.visits({"visit": 1, "server": "web1", **at}, {"visit": 2, "server": "app", "parent": 1, **at})
    run = Measured(builders.run(tmp_path / "run", visits=seen), SYSTEM, T0, T0 + 1 * S)
    with pytest.raises(UsageError, match="when callers took requests is not recorded"):
        MEASURES["assigned_max"].compute(run, place="app")


def test_requests_are_drawn_when_their_callers_took_them(tmp_path: Path) -> None:
    def visit(number: int, server: str, start: int, departure: int, **more: Any) -> dict[str, Any]:
        at = {"sent": T0 + start, "arrival": T0 + start, "start": T0 + start, "departure": T0 + departure}
        return {"visit": number, "server": server, **at, **more}

    waited = [visit(2, "app", 250 * MS, 260 * MS, parent=1), visit(1, "web1", 40 * MS, 270 * MS)]
    run = Measured(builders.run(tmp_path / "run", visits=builders.visits(*waited)), SYSTEM, T0, T0 + 1 * S)
    [came], [taken] = (drawn.series(run, name, "app", 0, 300 * MS, 100 * MS) for name in ("arrivals", "assigned"))
    assert (came["values"], taken["values"]) == ([0, 0, 1], [1, 0, 0])


def test_collections_are_drawn_as_shares_of_each_window(tmp_path: Path) -> None:
    pauses = [(150 * MS, 320 * MS), (330 * MS, 350 * MS), (420 * MS, 420 * MS)]
    events = builders.events(*({"begin": T0 + a, "end": T0 + b, "kind": "gc", "place": "app"} for a, b in pauses))
    run = Measured(builders.run(tmp_path / "run", events=events), SYSTEM, T0, T0 + 1 * S)
    [line] = drawn.series(run, "collecting", "app", 0, 500 * MS, 100 * MS)
    assert line["values"] == pytest.approx([0, 0.5, 1, 0.4, 0])
    assert drawn.unit_of("collecting") == "share"
    assert drawn.series(run, "collecting", "web1", 0, 500 * MS, 100 * MS) == []
