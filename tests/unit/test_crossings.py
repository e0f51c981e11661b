"""The place between runs at which a value reaches a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from builders import SMALL
from tailrace.errors import InputError
from tailrace.reproduce import expected, find, page, reproduce
from tailrace.reproduce.crossings import Crossing, crossed
from tailrace.study.intervals import interval

AT_ONE = Crossing(name="1 %", value="lost", reaches=1, runs=("few", "some", "many"))


def test_what_reaches_it_alike_in_all_seeds_is_joined_by_straight_lines_seed_by_seed() -> None:
    lost = {("lost", run): [at] * 3 for run, at in (("few", 0.2), ("some", 0.8), ("many", 1.6))}
    cpu = {("cpu", "few"): [60.0] * 3, ("cpu", "some"): [70.0, 72.0, 77.0], ("cpu", "many"): [80.0, 80.0, 83.0]}
    assert crossed(AT_ONE, "cpu", lost | cpu) == pytest.approx([72.5, 74.0, 78.5])
    assert crossed(AT_ONE, "lost", lost) == pytest.approx([1, 1, 1])
    falling = {cell: [2 - at for at in found] for cell, found in lost.items()}
    assert crossed(AT_ONE, "cpu", falling | cpu) == pytest.approx([72.5, 74.0, 78.5])


def test_only_seeds_that_all_runs_have_count() -> None:
    found = {("lost", "few"): [0.0] * 2, ("lost", "some"): [0.5] * 4, ("lost", "many"): [1.5, 1.5, 99, 99]}
    assert crossed(AT_ONE, "lost", found) == pytest.approx([1, 1])
    one = {cell: numbers[:1] for cell, numbers in found.items()}
    assert crossed(AT_ONE, "lost", one) == pytest.approx([1])


def test_what_is_not_reached_has_no_number() -> None:
    found = {("lost", run): [at] * 2 for run, at in (("few", 1.1), ("some", 1.2), ("many", 1.2))}
    assert crossed(AT_ONE, "lost", found) is None
    barely = found | {("lost", "few"): [0.0, 1.9]}  # on average, and without the first not
    assert crossed(AT_ONE, "lost", barely) is None


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """1 % at half of the way, of losses that replications hardly agree on."""
    stream, held = np.random.default_rng(1), 0
    for _ in range(400):
        means = {"few": (0.2, 4000), "some": (0.6, 4400), "many": (1.4, 4800)}
        lost = {("lost", run): list(stream.gamma(16, mean / 16, 32)) for run, (mean, _) in means.items()}
        clients = {("clients", run): [float(at)] * 32 for run, (_, at) in means.items()}
        found = interval(crossed(AT_ONE, "clients", lost | clients) or ())
        held += found.low is not None and found.high is not None and found.low < 4600 < found.high
    assert 0.92 * 400 < held < 0.98 * 400


def figure(folder: Path, reaches: float, **changes: Any) -> None:
    """Of 20 clients and of 60, who think for a second: some 20 and 60 requests a second."""
    folder.mkdir(parents=True)
    runs = [{"name": f"WL {clients}", "set": {"workloads.w.clients": clients}} for clients in (20, 60)]
    table: dict[str, Any] = {
        **{"paper": "p", "title": "t", "shows": "s", "seeds": 5, "runs": runs},
        "crossings": [{"name": "there", "value": "rate", "reaches": reaches, "runs": ["WL 20", "WL 60"]}],
        "values": [
            {"name": "rate", "measure": "throughput", "run": "there"},
            {"name": "load", "measure": "clients", "run": "there", "paper": 42},
        ],
        "claims": [{"says": "It takes more than 21.", "less": [21, "load @ there"]}],
        **changes,
    }
    (folder / "experiment.toml").write_text(tomli_w.dumps(SMALL))
    (folder / "expected.toml").write_text(tomli_w.dumps(table))


def test_a_claim_of_what_no_run_reaches_is_undecided(tmp_path: Path) -> None:
    figure(tmp_path / "p" / "figure-1", 1)
    [outcome] = reproduce(find(tmp_path, "p"), tmp_path / "out").outcomes
    assert [claim.verdict for claim in outcome.claims] == ["undecided"]
    assert outcome.claims[0].why == "rate reaches 1 between no two runs of 'there'"
    assert outcome.cells == ()


def test_values_along_the_way_are_measured_and_only_the_crossing_is_shown(tmp_path: Path) -> None:
    figure(tmp_path / "p" / "figure-1", 40)
    found = reproduce(find(tmp_path, "p"), tmp_path / "out")
    [outcome] = found.outcomes
    assert [(cell.value, cell.run) for cell in outcome.cells] == [("rate", "there"), ("load", "there")]
    assert outcome.cell("rate", "there").ours.interval.mean == pytest.approx(40, abs=1)
    assert 21 < outcome.cell("load", "there").ours.interval.mean < 59
    assert [claim.verdict for claim in outcome.claims] == ["holds"]
    assert "It takes more than 21." in page.html(found)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"value": "rte"}, "got 'rte'; did you mean 'rate'?"),
        ({"runs": ["WL 20", "WL 6"]}, "got 'WL 6'; did you mean 'WL 60'?"),
        ({"runs": ["WL 20"]}, "crossings[0].runs"),
        ({"name": "WL 20"}, "runs and crossings must have different names, got 'WL 20' twice"),
    ],
)
def test_errors_say_what_is_wrong_with_a_plan(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    crossing = {"name": "there", "value": "rate", "reaches": 1, "runs": ["WL 20", "WL 60"], **changes}
    figure(tmp_path / "p", 1, crossings=[crossing])
    with pytest.raises(InputError) as raised:
        expected.read(tmp_path / "p")
    assert sentence in str(raised.value)


def test_lines_go_through_runs_alone(tmp_path: Path) -> None:
    lines = {"form": "lines", "title": "t", "x": "workloads.w.clients", "lines": [{"value": "rate"}]}
    figure(tmp_path / "p", 1, panels=[lines])
    with pytest.raises(InputError, match="must be a key that every run of the lines sets to a number; 'there' has"):
        expected.read(tmp_path / "p")
