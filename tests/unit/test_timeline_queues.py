"""The shape of queues: plateau, onset, congestion point, freezes."""

from __future__ import annotations

import polars as pl
import pytest

from builders import T0, visits
from tailrace import timeline

WINDOW = 50_000_000


def starts(count: int) -> list[int]:
    return [i * WINDOW for i in range(count)]


CALM = [3, 5, 4, 6, 2, 4, 5, 3] * 10


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        (CALM, None),
        ([*CALM, 60, 150, 260, 278, 278, 277, 278, 90, 8, *CALM], 278),
        ([*CALM, 60, 150, 260, 300, 250, 150, 60, *CALM], None),
        ([*CALM, 80, 180, 278, 278, 278, 340, 420, 428, 428, 428, 427, 200, *CALM], 428),
        ([*CALM, 80, 180, 278, 278, 278, 278, 281, 100, *CALM], 278),
        ([30] * 40, None),
        ([], None),
    ],
    ids=["calm", "sticks", "turns over", "a second process", "one beyond", "constant", "empty"],
)
def test_plateau_is_where_a_risen_queue_sticks(queue: list[int], expected: int | None) -> None:
    found = timeline.plateau(queue)
    assert (found.queue_length if found else None) == expected


def test_plateau_counts_its_runs() -> None:
    episode = [60, 150, 278, 278, 278, 90]
    found = timeline.plateau([*CALM, *episode, *CALM, *episode, *CALM])
    assert found == timeline.Plateau(queue_length=278, windows=6, runs=2)


def test_onset_is_the_first_window_of_the_rise() -> None:
    queue = [*CALM, 40, 90, 160, 278, 278, *CALM]
    assert timeline.onset(starts(len(queue)), queue) == len(CALM) * WINDOW


def test_onset_bridges_a_dip_and_stops_at_an_earlier_episode() -> None:
    queue = [*CALM, 200, 250, *CALM, 60, 5, 160, 278, *CALM]
    rise = (2 * len(CALM) + 2) * WINDOW
    assert timeline.onset(starts(len(queue)), queue) == rise
    assert timeline.onset(starts(len(queue)), queue, peak=(len(CALM) + 1) * WINDOW) == len(CALM) * WINDOW
    assert timeline.onset(starts(len(queue)), queue, dips=0) == rise + 2 * WINDOW


def test_no_rise_has_no_onset() -> None:
    assert timeline.onset(starts(len(CALM)), CALM) is None
    assert timeline.onset([], []) is None


def curve(point: float, count: int = 3000) -> pl.DataFrame:
    """Load up to 60; throughput 100 per unit of load up to `point`, flat after, with a ripple."""
    load = [(i * 0.618 % 1) ** 2 * 60 + 0.05 for i in range(count)]
    work = [100 * min(at, point) * (1 + 0.1 * ((i * 0.37) % 1 - 0.5)) for i, at in enumerate(load)]
    table = {"server": ["db"] * count, "window": starts(count), "queue_mean": load, "work": work}
    return pl.DataFrame(table).with_columns(departures=(pl.col("work") / 20).cast(pl.Int64))


@pytest.mark.parametrize("true", [6.0, 15.0, 30.0])
def test_congestion_point_is_where_throughput_stops_following_load(true: float) -> None:
    frame = curve(true)
    point = timeline.congestion_point(frame["queue_mean"], frame["work"])
    assert point is not None
    assert point.queue_length == pytest.approx(true, rel=0.12)
    assert point.throughput == pytest.approx(100 * true, rel=0.12)
    assert point.intervention is None or point.intervention >= point.queue_length * 0.9


def test_a_server_that_was_never_congested_has_no_point() -> None:
    frame = curve(1000.0)
    assert timeline.congestion_point(frame["queue_mean"], frame["work"]) is None
    assert timeline.congestion_point([], []) is None
    assert timeline.congestion_point([1.0] * 50, [2.0] * 50) is None


def test_freezes_are_distinguished_from_congestion() -> None:
    point = timeline.congestion_point(curve(15.0)["queue_mean"], curve(15.0)["work"])
    assert point is not None
    frame = curve(15.0).with_columns(
        work=pl.when((pl.col("queue_mean") > 30) & (pl.col("window") > 1000 * WINDOW)).then(0.0).otherwise("work")
    )
    states = timeline.classify(frame, point)
    high = states.filter(pl.col("queue_mean") > 30)
    assert set(high.filter(pl.col("window") > 1000 * WINDOW)["state"]) == {"freeze"}
    assert set(high.filter(pl.col("window") <= 1000 * WINDOW)["state"]) == {"congested"}
    assert set(states.filter(pl.col("queue_mean") < 12)["state"]) == {"free"}
    quiet = frame.with_columns(departures=pl.lit(1))
    assert "freeze" not in set(timeline.classify(quiet, point)["state"])


def test_consecutive_windows_become_intervals() -> None:
    frame = pl.DataFrame({"server": ["a"] * 6 + ["b"] * 2, "window": [*starts(6), *starts(2)]})
    frame = frame.with_columns(hot=pl.Series([True, True, False, True, False, True, False, True]))
    found = timeline.stretches(frame, pl.col("hot"), WINDOW)
    rows = [("a", 0, 2, 2), ("b", 1, 2, 1), ("a", 3, 4, 1), ("a", 5, 6, 1)]
    assert found.rows() == [(server, b * WINDOW, e * WINDOW, n) for server, b, e, n in rows]
    assert timeline.stretches(frame, pl.col("hot"), WINDOW, gap=1).filter(pl.col("server") == "a").height == 1


def test_work_counts_heavy_interactions_more() -> None:
    ms = 1_000_000
    rows = []
    for i in range(40):
        begin = T0 + i * 100 * ms
        rows.append({"interaction": "light", "arrival": begin, "departure": begin + ms})
        rows.append({"interaction": "heavy", "arrival": begin + 50 * ms, "departure": begin + 54 * ms})
    frame = visits(*rows)
    table = pl.DataFrame(
        {
            "server": ["web"] * 80,
            "window": sorted({row["arrival"] // WINDOW * WINDOW for row in rows}),
            "arrivals": [1] * 80,
            "queue_mean": [0.1] * 80,
        }
    )
    service = timeline.service_times(frame, table, WINDOW)
    assert service.select("interaction", "service_ns", "units").rows() == [
        ("heavy", 4.0 * ms, 16),
        ("light", 1.0 * ms, 4),
    ]
    windows = pl.DataFrame(
        {
            "server": ["web", "web"],
            "interaction": ["heavy", "light"],
            "window": [0, 0],
            "queue_area_ns": [WINDOW, WINDOW],
            "departures": [2, 3],
        }
    )
    work = timeline.work_throughput(windows, service, WINDOW)
    assert work.rows() == [("web", 0, 2.0, 5, (2 * 16 + 3 * 4) * 20.0)]
