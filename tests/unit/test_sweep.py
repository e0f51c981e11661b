"""What can be varied, and the table of a sweep."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
import tomli_w

from builders import SMALL
from tailrace.errors import TailraceError, UsageError
from tailrace.sweep import page, parse, sweep, terminal
from tailrace.sweep.table import column
from tailrace.units import SECOND


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("k=1,2,5", ["1", "2", "5"]),
        ("k=1000:4000:1500", ["1000", "2500", "4000"]),
        ("k=0.1:0.3:0.1", ["0.1", "0.2", "0.3"]),
        ("k=50ms:150ms:50ms", ["50 ms", "100 ms", "150 ms"]),
        ("k=50:150:50ms", ["50 ms", "100 ms", "150 ms"]),
        ("k=apache,nginx", ["apache", "nginx"]),
        ("k=1,10:30:10", ["1", "10", "20", "30"]),
        ('k=["3 s", "9 s"],["1 s", "3 s"]', ['["3 s", "9 s"]', '["1 s", "3 s"]']),
    ],
)
def test_values_are_lists_or_ranges_with_units(text: str, values: list[str]) -> None:
    assert list(parse(text).values) == values


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("k", "expected KEY=a,b,c or KEY=FROM:TO:STEP"),
        ("k=1:9:0", "must go up by a step above 0"),
        ("k=9:1:1", "must go up by a step above 0"),
        ("k=a:b:c", "must be FROM:TO:STEP"),
        ("k=1ms:2s:1ms", "has several units (ms, s)"),
        ("k=1,1", "a value occurs twice"),
        ("k=0:1000000:1", "are 1000001 values, at most 10000"),
    ],
)
def test_what_cannot_be_varied_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert sentence in str(raised.value)


def test_a_measure_is_named_with_its_values() -> None:
    assert column("share_over:over=3s,place=web") == ("share_over", {"over": 3 * SECOND, "place": "web"})
    with pytest.raises(UsageError, match="over is missing: share_over needs it"):
        column("share_over")
    for text, sentence in (
        ("queue_mx:place=web", "--measure queue_mx:place=web: measure must be the name of a measure"),
        ("queue_max:plac=web", "plac is not for queue_max, which takes place; did you mean 'place'?"),
        ("response_percentile:percentile=200", "percentile must be from 0 to 100, got 200"),
        ("response_percentile:percentile=most", "percentile must be a number, got most"),
        ("drops:place=", "expected MEASURE:KEY=VALUE"),
        ("drops:place=web,place=app", "place occurs twice"),
        ("arrivals:place=web,window=0s", "window must be above 0"),
        (
            "level:metric=cpu_busy,place=web,statistic=mode",
            "statistic must be the name of a statistic (cv, max, mean, sd)",
        ),
        ("fluctuation:series=queues,place=web", "got 'queues'; did you mean 'queue'?"),
    ):
        with pytest.raises(UsageError) as raised:
            column(text)
        assert sentence in str(raised.value)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "experiment.toml"
    file.write_text(tomli_w.dumps(SMALL))
    return file


def test_the_table_has_a_row_a_run_with_keys_seed_and_measures(small: Path, tmp_path: Path) -> None:
    varied = [parse("workloads.w.clients=10,20"), parse("workloads.w.think=500 ms,1 s")]
    found = sweep(small, varied, tmp_path / "out", seeds=3, extra=[column("queue_max:place=web")])
    table = pl.read_parquet(tmp_path / "out/sweep.parquet")
    assert table.equals(found.frame)
    assert table.columns[:4] == ["workloads.w.clients", "workloads.w.think", "seed", "throughput"]
    assert table["workloads.w.clients"].dtype == pl.Int64
    assert {"response_p99", "share_over_3s", "utilisation_web", "queue_max_web"} <= set(table.columns)
    assert table.select("workloads.w.clients", "workloads.w.think", "seed").n_unique() == table.height == 12
    rates = table.group_by("workloads.w.clients").agg(pl.col("throughput").mean()).sort("workloads.w.clients")
    assert rates["throughput"][1] > 1.5 * rates["throughput"][0]


def test_the_page_shows_each_measure_with_its_interval(small: Path, tmp_path: Path) -> None:
    found = sweep(small, [parse("workloads.w.clients=10,20")], tmp_path / "out", seeds=2)
    text = page.html(found)
    mean = found.interval("throughput", ["10"]).mean
    assert f"throughput at 10: {mean:.4g} 1/s" in text or f"throughput: {mean:.4g}" in text
    assert text == page.html(found)


def test_the_terminal_has_a_line_for_each_combination(small: Path, tmp_path: Path) -> None:
    varied = [parse("workloads.w.clients=10,20"), parse("workloads.w.think=500 ms,1 s")]
    found = sweep(small, varied, tmp_path / "out", seeds=2, extra=[column("share_over:over=2s,place=web")])
    head, *rows = terminal.lines(found)
    names = ["clients", "think", "throughput 1/s", "response_mean ms", "response_p99 ms", "share_over_1s %", "drops"]
    assert re.split(r"  +", head) == [*names, "share_over_2s_web %"]
    assert [re.split(r"  +", row.strip())[:2] for row in rows] == [
        [c, t] for c in ("10", "20") for t in ("500 ms", "1 s")
    ]
    rate = found.interval("throughput", ["20", "1 s"])
    assert f"{rate.mean:.4g} ± {rate.half:.2g}" in rows[3]
    [whole] = terminal.lines(sweep(small, [], tmp_path / "out", seeds=2))[1:]
    assert "±" in whole


def test_a_sweep_without_samples_has_no_utilisation(small: Path, tmp_path: Path) -> None:
    found = sweep(small, [], tmp_path / "out", 1, ["sampling.interval=0s"])
    assert [name for name in found.columns if name.startswith("utilisation")] == []
    with pytest.raises(UsageError, match="nor was anything: sampling"):
        sweep(small, [], tmp_path / "in", 1, ["sampling.interval=0s"], [column("utilisation:place=web")])


def test_a_sweep_of_nothing_is_one_configuration_with_all_its_seeds(small: Path, tmp_path: Path) -> None:
    found = sweep(small, [], tmp_path / "out", seeds=3)
    assert found.frame.columns[:2] == ["seed", "throughput"]
    assert found.frame["seed"].n_unique() == found.frame.height == 3
    mean = found.interval("throughput", [])
    assert mean.mean == pytest.approx(found.frame["throughput"].mean())
    text = page.html(found)
    assert "3 runs of one configuration" in text
    assert f"{mean.mean:.4g} ±" in text
    assert 'id="plots"' not in text


def test_a_sweep_that_cannot_be_is_refused_before_anything_runs(small: Path, tmp_path: Path) -> None:
    with pytest.raises(TailraceError, match=r"workloads\.w\.client is not a known key; did you mean 'clients'"):
        sweep(small, [parse("workloads.w.client=1,2")], tmp_path / "out")
    with pytest.raises(UsageError, match="a key can be varied once"):
        sweep(small, [parse("seed=1,2"), parse("seed=3,4")], tmp_path / "out")
    with pytest.raises(
        UsageError, match=r"^workloads\.w\.clients=2, seed=1: place must be the name of a server or tier"
    ):
        sweep(small, [parse("workloads.w.clients=2")], tmp_path / "in", 1, extra=[column("queue_max:place=wep")])
    with pytest.raises(
        UsageError, match="--vary seed: every combination is run with several seeds; set their number with"
    ):
        sweep(small, [parse("seed=1,2")], tmp_path / "out")
    many = [parse(f"{key}=1:10000:1") for key in ("workloads.w.clients", "tiers.web.workers", "tiers.web.backlog")]
    with pytest.raises(UsageError, match="1,000,000,000,000 combinations, 5 seeds: over 100,000 runs; vary less"):
        sweep(small, many, tmp_path / "out")
    assert not (tmp_path / "out").exists()
