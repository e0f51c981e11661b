"""Systems without some of their troubles, and the number of very slow requests that remain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace import sim
from tailrace.experiment import from_table, layout
from tailrace.score import drawing, graphs, papers, removing, without
from tailrace.score.figures import may_be_told
from tailrace.score.graphs import GUEST
from tailrace.score.stalls import BALANCER, BURST, NEIGHBOUR, OVERHEAD, SOFT
from tailrace.score.troubles import TROUBLES, Table

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def of_papers(seed: int) -> Table:
    return papers.draw(seed, EXPERIMENTS)


@pytest.mark.parametrize("draw", [drawing.draw, graphs.draw, of_papers])
def test_nothing_is_left_of_a_trouble_that_is_removed_and_all_of_the_others(draw: Callable[[int], Table]) -> None:
    seen = set()
    for seed in range(80):
        table = removing.complete(draw(seed))
        kinds = removing.troubles(table)
        seen |= set(kinds)
        for kind in kinds:
            left = removing.without(table, {kind})
            assert set(removing.troubles(left)) == set(kinds) - {kind}
            sim.lower(from_table(left))
        for shape in removing.SHAPES:
            sim.lower(from_table(removing.without(table, {shape})))
        assert removing.without(table, ()) == table == removing.complete(draw(seed))
        assert removing.troubles(removing.without(table, kinds)) == ()
    if draw == of_papers:
        assert seen >= {"frequency-step", NEIGHBOUR, BURST}
    else:  # A batch holds places, so it counts as a burst.
        assert len(seen - {"memory", "packet-loss", "lock"}) == len(TROUBLES) - 1
        assert seen >= {"memory", "packet-loss"}


def of_guests(*, apart: bool) -> Table:
    """A drawn graph with guests, or with two tiers of different ways on one machine, and no injected stall."""
    drawn = (graphs.draw(seed) for seed in range(300))
    return removing.complete(
        next(
            table
            for table in drawn
            if not table["stalls"]
            and (GUEST in table["workloads"]) == apart
            and NEIGHBOUR in removing.troubles(removing.complete(table))
        )
    )


@pytest.mark.parametrize("apart", [True, False], ids=["guests", "tiers of two ways"])
def test_without_neighbours_systems_have_machines_of_their_own(apart: bool) -> None:
    table = of_guests(apart=apart)
    shared, own = (
        max(len(known.servers_on(node.name)) for node in known.nodes)
        for known in (layout.topology(from_table(one)) for one in (table, removing.without(table, {NEIGHBOUR})))
    )
    assert own == 1 < shared


def test_without_bursts_as_many_come_evenly() -> None:
    drawn = (removing.complete(graphs.draw(seed)) for seed in range(300))
    waves = next(table for table in drawn if table["workloads"]["users"]["kind"] == "modulated")
    users = removing.without(waves, {BURST})["workloads"]["users"]
    rates = [removing.per_second(rate) for rate in waves["workloads"]["users"]["rates"]]
    assert users["kind"] == "poisson"
    assert min(rates) < users["rate"] < max(rates)


def test_without_bursts_a_trace_comes_evenly_and_crowds_do_not_come(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("time,interaction\n1,page\n1,page\n1,other\n1,page\n")
    table = removing.complete(
        {
            "duration": "8 s",
            "tiers": {"web": {}},
            "interactions": {name: {"at": {"web": {"compute": "1 ms"}}} for name in ("page", "other")},
            "workloads": {
                "users": {"kind": "trace", "file": str(tmp_path / "trace.csv")},
                "crowd": {"clients": 10, "interaction": "page", "begin": "2 s"},
            },
        }
    )
    left = removing.without(table, {BURST})["workloads"]
    assert left.keys() == {"users"}
    assert (left["users"]["rate"], left["users"]["mix"]) == (0.5, {"page": 3, "other": 1})


@pytest.mark.parametrize(
    ("left", "credit"),
    [
        ({"": 0, "a": 100, "b": 0, "ab": 100}, {"a": 100, "b": 0, "unknown": 0}),  # by a alone
        ({"": 0, "a": 0, "b": 0, "ab": 100}, {"a": 100, "b": 100, "unknown": 0}),  # by both together
        ({"": 0, "a": 100, "b": 100, "ab": 100}, {"a": 100, "b": 100, "unknown": 0}),  # each of them would do
        ({"": 0, "a": 60, "b": 40, "ab": 100}, {"a": 60, "b": 40, "unknown": 0}),  # some by each
        ({"": 90, "a": 100, "b": 92, "ab": 100}, {"a": 10, "b": 2, "unknown": 90}),  # nearly all by neither
        ({"": 90, "a": 20, "b": 100, "ab": 100}, {"a": 0, "b": 80, "unknown": 20}),  # one removal removes, and not all
    ],
)
def test_a_trouble_may_be_reported_for_what_its_removal_removes(left: dict[str, int], credit: dict[str, int]) -> None:
    """`left` is the number of VLRT for each set of troubles."""
    found = without.shared_out(100, "ab", set(), lambda gone: left["".join(sorted({"a", "b"} - gone))])
    assert found == credit


def test_unknown_is_right_for_what_no_monitor_records() -> None:
    assert without.shared_out(100, ["unknown"], set(), lambda gone: 100 - 70 * len(gone)) == {"unknown": 100}
    assert without.shared_out(100, [], set(), lambda gone: 100) == {"unknown": 100}


def test_without_its_overhead_a_request_costs_the_same_however_many_run() -> None:
    tier = {"inflation": {"free": 8, "slope": 0.5}}
    table = removing.complete(drawing.draw(0))
    changed = table | {"tiers": {name: one | tier for name, one in table["tiers"].items()}}
    assert removing.without(removing.complete(changed), {OVERHEAD}) == removing.without(table, {OVERHEAD})


def test_limits_are_to_blame_where_bursts_reach_them_and_not_where_something_stalls() -> None:
    def left(gone: frozenset[str]) -> int:
        return 0 if gone & {"workload-burst", "freeze", SOFT, BALANCER} else 100

    for trouble, right in (("workload-burst", 100), ("freeze", 0)):
        found = without.shared_out(100, [trouble], {SOFT, BALANCER}, left)
        assert (found[SOFT], found[BALANCER], found["unknown"]) == (right, 100, 0)
    assert SOFT not in without.shared_out(100, ["freeze"], {"freeze"}, left)


def test_every_part_of_a_tie_must_be_right_and_one_trouble_may_have_two_names() -> None:
    credit = {"freeze": 5, "neighbour": 3, "log-flush or writeback": 7}
    told = ("freeze or neighbour", "freeze or cpu-quota", "log-flush", "log-flush or writeback", "cpu-quota")
    assert [may_be_told(cause, credit) for cause in told] == [3, 0, 7, 7, 0]


def test_a_burst_that_is_all_there_is_has_all_very_slow_requests() -> None:
    table = removing.complete(drawing.draw(23_000_112))
    n = without.vlrt_of(table, 950_000_000)
    assert removing.troubles(table) == (BURST,)
    assert without.credit(table, n, (), 950_000_000) == {BURST: n, "unknown": 0}
    assert n > 100
