"""Two hosts are recorded live, each on its own, and so is the bridge between them: the joined hosts are its record."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tailrace
from recorders import MISSING, SECOND, Hosts, end, recording, served, started, two_hosts
from tailrace.cli import perform
from tailrace.dataset import Dataset
from tailrace.units import MILLISECOND

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")

# Requests at irregular moments, each on a connection of its own.
ASKING = """
import http.client, random, sys, time
draw = random.Random(7)
for number in range(int(sys.argv[2])):
    one = http.client.HTTPConnection(sys.argv[1], 80)
    one.request("GET", f"/page{number % 3}")
    one.getresponse().read()
    one.close()
    time.sleep(draw.uniform(0.001, 0.02))
"""
REQUESTS = 300


def recorded(hosts: Hosts, tmp_path: Path) -> dict[str, Dataset]:
    """What three recorders see: that of the client's host, that of the server's, and that of the bridge."""
    server = ("--server", f"web={hosts.address}:80")
    places = {
        "client": (f"box=netns:/run/netns/{hosts.client}", "box:eth0"),
        "server": (hosts.node, "box:eth0"),
        "bridge": (f"box=netns:/run/netns/{hosts.switch}", "box:br0"),
    }
    with ExitStack() as stack:
        recorders = []
        for name, (node, interface) in places.items():
            words = ("--node", node, "--interface", interface, *server)
            more = ("--promiscuous",) if name == "bridge" else ()
            recorders.append(stack.enter_context(recording(tmp_path / name, *words, *more)))
        asking = hosts.on(hosts.client, sys.executable, "-c", ASKING, hosts.address, str(REQUESTS))
        with started(*asking) as client:
            assert client.wait(120) == 0
        time.sleep(1)
        for recorder in recorders:
            end(recorder)
    return {name: Dataset.open(tmp_path / name) for name in places}


def test_two_hosts_are_joined_to_what_the_bridge_between_them_saw(tmp_path: Path) -> None:
    with two_hosts(bridged=True) as hosts, served(hosts, tmp_path):
        runs = recorded(hosts, tmp_path)
    words = ["join", *(f"{name}={runs[name].path}" for name in ("client", "server")), "-o", str(tmp_path / "joined")]
    assert perform(words) == 0
    joined = Dataset.open(tmp_path / "joined")
    joined.validate()
    visits = {
        name: run.visits().sort("arrival").collect()
        for name, run in (("joined", joined), ("bridge", runs["bridge"]), ("server", runs["server"]))
    }
    assert visits["joined"].height == visits["bridge"].height >= REQUESTS
    apart = {
        moment: (visits["joined"][moment] - visits["bridge"][moment]).to_numpy() for moment in ("arrival", "departure")
    }
    for moment, difference in apart.items():
        # A busy kernel may hold back single packets between two places, and no bound is known for that.
        assert np.median(abs(difference)) < MILLISECOND
        # The clock of both hosts is the same, and the earlier view counts.
        later = (visits["joined"][moment] - visits["server"][moment]).to_numpy()
        assert np.median(later) < MILLISECOND
    [clock] = [clock for clock in joined.topology.clocks if clock.capture == "server"]
    assert clock.bound_ns is not None
    assert abs(clock.offset_ns) <= clock.bound_ns < 10 * MILLISECOND
    ours, theirs = (tailrace.windows(run, SECOND) for run in (joined, runs["bridge"]))
    both = ours.join(theirs, on="window", how="full", suffix="_bridge").fill_null(0)
    # A visit at the edge of a window may fall on either side.
    for column, moment in (("arrivals", "arrival"), ("departures", "departure")):
        moved = (visits["joined"][moment] // SECOND != visits["bridge"][moment] // SECOND).sum()
        assert (both[column].cast(pl.Int64) - both[f"{column}_bridge"].cast(pl.Int64)).abs().max() <= moved
    # Means differ by no more than the time by which the visits differ.
    differing = sum(int(abs(difference).sum()) for difference in apart.values())
    assert (both["queue_mean"] - both["queue_mean_bridge"]).abs().sum() * SECOND <= differing * (1 + 1e-6) + 1
