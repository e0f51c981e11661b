"""HAProxy's queue, and the attempts to connect that it repeated.

`haproxy-queue.log` is what HAProxy 2.6 wrote about thirty clients at once, for two servers of which one refused all
connections, and about twenty clients of one server that serves two requests at once, 0.12 s each. Another backend
refused as well.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset

FILES = Path(__file__).parents[1] / "golden" / "readers" / "accesslog"


def waiting(run: Dataset) -> list[float]:
    found = run.samples().filter(pl.col("metric").cast(pl.String) == "pool_waiting").sort("time")
    return found.select("value").collect().to_series().to_list()


def test_how_many_waited_in_the_queue_is_pool_waiting() -> None:
    run = readers.read(f"lb={FILES / 'haproxy-queue.log'}")
    # Twenty come at once, and two are served. Each 0.12 s two leave the queue.
    assert max(waiting(run)) == 18
    peak = waiting(run).index(18)
    assert waiting(run)[peak::5][:5] == pytest.approx([18, 14, 10, 6, 2], abs=2)
    notes = " ".join(run.manifest.notes)
    assert "waited in HAProxy's own queue: 22, up to 1.1 s, and up to 18 left the queue while one waited" in notes


def test_attempts_that_haproxy_repeated_are_no_lost_packets() -> None:
    run = readers.read(f"lb={FILES / 'haproxy-queue.log'}")
    assert any(
        "again for 30 requests, because 87 attempts failed; 1 of them went to another" in n for n in run.manifest.notes
    )
    assert run.visits().collect()["drops"].sum() == 0


@pytest.mark.parametrize("copies", [1, 100])
def test_a_second_of_connecting_counts_as_a_lost_attempt_only_without_retries(tmp_path: Path, copies: int) -> None:
    line = (
        "lb haproxy[7]: 10.0.0.9:41822 [20/Nov/2026:16:49:{:02}.120] http-in app/app1 0/0/1004/12/1016 200 512 - - "
        '---- 1/1/0/0/{} 0/0 "GET /page HTTP/1.1"\n'
    )
    path = tmp_path / "lb.log"
    for retries, drops in (("0", 40), ("1", 0), ("+1", 0)):
        path.write_text("".join(line.format(i, retries) for i in range(40)) * copies)
        assert readers.read(path).visits().collect()["drops"].sum() == drops * copies
