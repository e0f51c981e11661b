"""What arises by itself on the testbed, and how long it was there: counters and tables in, stalls out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import polars as pl

from tailrace import experiment
from tailrace.dataset import REQUESTS
from tailrace.experiment import truth
from tailrace.testbed import stalls
from tailrace.testbed.settings import settings
from tailrace.testbed.system import System
from tailrace.units import MILLISECOND, SECOND

EXPERIMENTS = Path(__file__).parents[2] / "experiments/testbed"


def of(name: str, tmp_path: Path) -> System:
    """Servers that are known and not up."""
    found = experiment.read(EXPERIMENTS / name)
    addresses = dict.fromkeys(experiment.places.nodes(found), "10.77.0.2")
    return System(found, cast(Any, None), settings(found, addresses, tmp_path), {}, tmp_path)


def sent(folder: Path, rows: list[tuple[int, int]]) -> None:
    """A table of requests: when each was meant to be sent, and when it was."""
    folder.mkdir(parents=True, exist_ok=True)
    times = {"intended": [row[0] for row in rows], "sent": [row[1] for row in rows]}
    pl.DataFrame({"server": ["web"] * len(rows), **times}).write_parquet(folder / REQUESTS.file)


def test_a_batch_lasts_from_its_first_request_to_its_last(tmp_path: Path) -> None:
    steady = [(number * MILLISECOND, number * MILLISECOND) for number in range(10_000)]
    batch = [(4 * SECOND, 4 * SECOND + 100_000 * number) for number in range(600)]
    sent(tmp_path / "raw/load", steady + batch)
    sent(tmp_path, steady)
    assert stalls.arose(of("burst", tmp_path), tmp_path) == [
        truth.Stall("workload-burst", "web", 4 * SECOND, 4 * SECOND + 59_900_000)
    ]
