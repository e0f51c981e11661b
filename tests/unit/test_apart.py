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
        assert one.time.tolist() == times
        assert one.value.tolist() == [time / 2 for time in times]
        assert np.all(one.interval_ns == 10)


def test_no_samples_have_no_places() -> None:
    assert list(apart(samples([]))) == []
