"""The samples of each place and metric, apart from the others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tailrace.dataset.apart import apart

SCHEMA = {
    "place": pl.Categorical,
    "metric": pl.Categorical,
    "time": pl.Int64,
    "interval_ns": pl.Int64,
    "value": pl.Float64,
}


def samples(rows: list[tuple[str, str, int]]) -> pl.LazyFrame:
    values = [(place, metric, time, 10, time / 2) for place, metric, time in rows]
    return pl.LazyFrame(values, schema=SCHEMA, orient="row")


@pytest.mark.parametrize("places", [2, 300])
def test_each_place_and_metric_has_its_samples_in_order(places: int) -> None:
    """With 300 places and metrics, the number of a pair needs more than 16 bits."""
    rows = [(f"p{time % places}", f"m{time % (places + 1)}", time) for time in range(3 * places)]
    found = list(apart(samples(rows)))
    expected: dict[tuple[str, str], list[int]] = {}
    for place, metric, time in rows:
        expected.setdefault((place, metric), []).append(time)
    assert [(one.place, one.metric) for one in found] == list(expected)
    for one, times in zip(found, expected.values(), strict=True):
        assert one.when.time.tolist() == times
        assert one.value.tolist() == [time / 2 for time in times]
        assert np.all(one.when.interval_ns == 10)


def test_metrics_that_were_sampled_at_the_same_times_share_these(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share them, too, if the samples are read in several parts. Metrics of other times have their own."""
    monkeypatch.setattr("tailrace.dataset.apart.AT_ONCE", 7)
    rows = [("p", metric, time) for time in range(20) for metric in ("a", "b", "c") if metric != "c" or time != 15]
    a, b, c = apart(samples(rows))
    assert a.when is b.when
    assert a.when.time.tolist() == list(range(20))
    assert c.when.time.tolist() == [time for time in range(20) if time != 15]
    assert [len(one.value) for one in (a, b, c)] == [20, 20, 19]


def test_no_samples_have_no_places() -> None:
    assert list(apart(samples([]))) == []
