"""Recordings reduced to the quality of real ones: what is missing, and what is left."""

from __future__ import annotations

from pathlib import Path
from random import Random

import polars as pl
import pytest

from plans import made
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.score import drawing, sweep, thinning
from tailrace.score.thinning import WAYS, Tables
from tailrace.units import SECOND

SEED = 23_000_112


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return made(drawing.draw(SEED), tmp_path_factory.mktemp("thin") / "run")


def tables(run: Dataset, way: str) -> Tables:
    frames = (frame.collect() for frame in (run.requests(), run.visits(), run.samples(), run.events()))
    return WAYS[way](Tables(run.topology, *frames), Random(1))


def test_every_way_leaves_a_valid_run_folder(run: Dataset, tmp_path: Path) -> None:
    seen = set()
    for seed in range(20):
        seen.add(thinning.thin(run, tmp_path / str(seed), seed))
        Dataset.open(tmp_path / str(seed)).validate()
    assert seen == set(WAYS)


def test_samples_each_second_are_the_means_and_sums_of_what_they_replace(run: Dataset) -> None:
    before, after = run.samples().collect(), tables(run, "samples each second").samples
    assert after.height < before.height / 5
    assert after["interval_ns"].max() == SECOND
    for metric, part in after.partition_by("metric", as_dict=True).items():
        of = before.filter(pl.col("metric").cast(pl.String) == str(metric[0]))
        weight = pl.lit(1) if metric[0] in thinning.COUNTED else pl.col("interval_ns")
        sums = [frame.select((pl.col("value") * weight).sum()).item() for frame in (of, part)]
        assert sums[1] == pytest.approx(sums[0])


def test_of_one_server_and_its_machine_nothing_is_sampled(run: Dataset) -> None:
    places = set(tables(run, "no samples of one server").samples["place"].cast(pl.String))
    unseen = [s for s in run.topology.servers if s.name not in places and s.node not in places]
    assert len(unseen) == 1


def test_at_one_place_only_entries_and_what_they_call_are_seen(run: Dataset) -> None:
    seen = tables(run, "visits of one place")
    entries = {server.name for server in run.topology.servers if not run.topology.callers_of(server.name)}
    assert set(seen.visits["caller"].drop_nulls().cast(pl.String)) <= entries
    assert seen.requests.height == run.requests().collect().height
    assert seen.visits["downstream_ns"].is_null().any()


def test_one_in_a_hundred_is_lost_and_nothing_names_a_visit_that_is_not_there(run: Dataset) -> None:
    seen, before = tables(run, "1 % lost"), run.requests().collect().height
    assert 0.98 < seen.requests.height / before < 0.995
    assert set(seen.visits["parent"].drop_nulls()) <= set(seen.visits["visit"])
    assert set(seen.visits["request"].drop_nulls()) <= set(seen.requests["request"])


def test_a_sweep_of_poor_recordings_says_what_is_missing_and_is_not_mixed_with_others(tmp_path: Path) -> None:
    [whole] = sweep.sweep([SEED], tmp_path, systems=sweep.CHAINS, processes=1)
    [thin] = sweep.sweep([SEED], tmp_path, systems=sweep.CHAINS, thin=True, processes=1)
    assert whole["thinned"] == ""
    assert thin["thinned"] in WAYS
    assert len((tmp_path / sweep.LINES).read_text().splitlines()) == 2


@pytest.mark.parametrize("line", ["a diary\n", "[" * 100_000 + "\n", "1e999\n"])
def test_a_file_that_no_sweep_wrote_stays_as_it_is(tmp_path: Path, line: str) -> None:
    (tmp_path / sweep.LINES).write_text(line)
    with pytest.raises(InputError, match=sweep.LINES):
        sweep.sweep([SEED], tmp_path, processes=1)
    assert (tmp_path / sweep.LINES).read_text() == line


def test_a_link_in_the_place_of_the_lines_is_refused(tmp_path: Path) -> None:
    (tmp_path / sweep.LINES).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="symbolic link"):
        sweep.sweep([SEED], tmp_path, processes=1)
    assert not (tmp_path / "elsewhere").exists()
