"""Random numbers depend on the entity that draws them: the same plan gives the same bytes, and two plans can be
compared."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from plans import MS, Plan, S, call, changed, closed, connector, counts, exponential, run, server, system


def stalling(backlog: int, duration: int) -> Plan:
    """7,000 clients, three tiers, a database that freezes for 0.4 s every 15 s."""
    servers = [
        server("web", [0, None], workers=150, backlog=backlog, connectors=[connector(1, pool={"size": 50})]),
        server("app", [1, None], workers=50, connectors=[connector(2, pool={"size": 50})]),
        server("db", [None, 2], workers=50),
    ]
    programs = [
        [{"compute": exponential(0.1 * MS)}, call(), {"compute": exponential(0.1 * MS)}],
        [{"compute": exponential(0.2 * MS)}, call(of=1), {"compute": exponential(0.2 * MS)}],
        [{"compute": exponential(0.5 * MS)}],
    ]
    freezes = [
        {"begin": at, "end": at + 400 * MS, "kind": "freeze", "effect": {"freeze": {"group": 2}}}
        for at in range(5 * S, duration, 15 * S)
    ]
    return system(servers, programs, closed(7000, exponential(7e9)), duration=duration, stalls=freezes)


def test_common_random_numbers_make_a_difference_several_times_less_uncertain() -> None:
    """How many more requests take over a second with a backlog of 128 than with 160, in 20 pairs of runs: two stalls,
    32 places. A ratio of two variances from 20 pairs is known within a factor of about two; less than 4 would hardly be
    worth the streams."""

    def slow(backlog: int, replication: int) -> int:
        return int(counts(changed(stalling(backlog, 35 * S), replication=replication))["over_1s"])

    small = [slow(128, i) for i in range(20)]
    paired = [a - slow(160, i) for i, a in enumerate(small)]
    independent = [a - slow(160, 100 + i) for i, a in enumerate(small)]
    assert statistics.fmean(paired) > 20
    assert statistics.variance(independent) > 4 * statistics.variance(paired)


TABLES = ("visits", "requests", "samples", "events")


def digests(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / f"{name}.parquet").read_bytes()).hexdigest() for name in TABLES}


def test_the_same_plan_gives_the_same_bytes_and_another_replication_does_not(tmp_path: Path) -> None:
    plan = changed(stalling(128, 8 * S), sample=50 * MS)
    for name, replication in (("a", 0), ("b", 0), ("other", 1)):
        run(changed(plan, replication=replication), tmp_path / name)
    first, second, other = (digests(tmp_path / name) for name in ("a", "b", "other"))
    assert first == second
    assert all(first[name] != other[name] for name in TABLES)


def test_another_process_gives_the_same_bytes(tmp_path: Path) -> None:
    plan = changed(stalling(128, 8 * S), sample=50 * MS)
    run(plan, tmp_path / "here")
    (tmp_path / "there").mkdir()
    program = "import sys; from tailrace import _core; _core.simulate(sys.argv[1], sys.argv[2])"
    arguments = [sys.executable, "-c", program, json.dumps(plan), str(tmp_path / "there")]
    path = os.pathsep.join(sys.path)
    subprocess.run(arguments, check=True, env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": path})
    assert digests(tmp_path / "here") == digests(tmp_path / "there")


def test_sampling_does_not_change_a_simulation(tmp_path: Path) -> None:
    """Three odd intervals against none: the same visits and requests, to the byte."""
    plan = stalling(128, 8 * S)
    seen = []
    for every in (0, 50 * MS, 333_333, 7_777_777):
        folder = tmp_path / str(every)
        run(changed(plan, sample=every), folder)
        seen.append({name: digests(folder)[name] for name in ("visits", "requests")})
    assert all(digest == seen[0] for digest in seen)
