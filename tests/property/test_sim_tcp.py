"""Lost connections: numbers and times that follow from the plan by arithmetic."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from plans import MS, Plan, S, call, connector, counts, run, server, station, system, trace


def at_once(n: int, **more: object) -> Plan:
    return trace([0] * n, **more)


@pytest.mark.parametrize(("workers", "backlog"), [(1, 0), (1, 4), (10, 128), (150, 128)])
def test_an_accept_queue_holds_one_more_than_its_backlog(workers: int, backlog: int) -> None:
    """`sk_acceptq_is_full` compares with >: of 500 at once, workers + backlog + 1 find a place."""
    load = at_once(500, syn={"repeats": [], "give_up": S})
    counted = counts(station({"constant": 1e6}, load, workers=workers, backlog=backlog, duration=S))
    assert counted["drops"] == [500 - workers - backlog - 1]
    assert counted["failed"] == counted["drops"][0]


def frozen(kept: bool) -> Plan:
    """`rpc-vs-async` III: 1,000 requests a second, a stall of 0.4 s, 150 threads and a backlog of 128."""
    regular = [k * MS + MS // 10 for k in range(3000)]
    plan = station({"constant": 0.5e6}, trace(regular, kept=kept), workers=150, backlog=128, duration=4 * S)
    stall = {"begin": S, "end": 1400 * MS, "kind": "freeze", "effect": {"freeze": {"group": 0}}}
    return {**plan, "stalls": [stall]}


def test_a_stall_loses_what_comes_in_it_less_the_places_there_are(tmp_path: Path) -> None:
    """400 arrive in the stall. The server accepts none, so 129 of them find a place and 271 do not; afterwards 150
    threads and 129 places take all. A second later those are repeated, each with another, and are served as fast as
    they arrive."""
    seen = run(frozen(kept=False), tmp_path)
    lost = seen.events.filter(pl.col("kind") == "drop")["begin"]
    assert lost.to_list() == [k * MS + MS // 10 for k in range(1129, 1400)]
    assert (seen.requests.filter(pl.col("drops") > 0)["connected"] - lost.sort() == S).all()
    assert seen.report["counts"]["over_1s"] == 400 - 129


def test_kept_connections_lose_nothing() -> None:
    counted = counts(frozen(kept=True))
    assert counted["drops"] == [0]
    assert counted["failed"] == counted["over_1s"] == 0


@pytest.mark.parametrize(("seconds", "give_up"), [([1, 2, 3, 4, 5, 7, 11], 19), ([1, 3, 7, 15], 31), ([3, 9, 21], 45)])
def test_the_modes_of_response_times_are_the_sender_s_schedule(
    seconds: list[int], give_up: int, tmp_path: Path
) -> None:
    """A server with one worker and one place serves two at a time: of 2·k at once, two more get in at each repeat."""
    n = 2 * (len(seconds) + 2)
    syn = {"repeats": [s * S for s in seconds], "give_up": give_up * S}
    load = at_once(n, syn=syn)
    requests = run(station({"constant": 1e6}, load, workers=1, backlog=0, duration=S), tmp_path).requests.sort("end")
    modes = [t for s in [0, *seconds] for t in (s * S + MS, s * S + 2 * MS)]
    assert (requests["end"] - requests["sent"]).to_list() == [*modes, give_up * S, give_up * S]
    assert requests["drops"].to_list() == [k for k in range(len(seconds) + 1) for _ in "ab"] + [len(seconds) + 1] * 2
    assert requests["status"].to_list()[-3:] == ["ok", "timeout", "timeout"]


def test_a_caller_whose_call_cannot_connect_fails() -> None:
    syn = {"repeats": [S], "give_up": 3 * S}
    front = server("front", connectors=[connector(1, kept=False, syn=syn)])
    back = server("back", [1], workers=1, backlog=0)
    programs: list[list[Plan]] = [[call()], [{"wait": {"constant": 10e9}}]]
    counted = counts(system([front, back], programs, at_once(5), duration=S))
    assert (counted["answered"], counted["failed"], counted["drops"]) == (2, 3, [0, 6])


def test_data_that_met_a_full_queue_comes_again_in_doubling_steps(tmp_path: Path) -> None:
    """The second drop mode: all SYNs pass while the queue is empty, the last ACKs find it full, the data is repeated
    after 0.2, 0.4, 0.8 and 1.6 s."""
    syn = {"repeats": [S], "give_up": 3 * S, "data_repeats": [200 * MS, 600 * MS, 1400 * MS, 3000 * MS]}
    plan = station({"constant": 10e9}, at_once(30, syn=syn), workers=1, backlog=4, duration=S)
    seen = run({**plan, "latency": MS}, tmp_path)
    assert seen.report["counts"]["drops"] == [0]
    lost = seen.events.filter(pl.col("kind") == "data_drop").sort("begin")
    acknowledged = 3 * MS
    moments = lost.group_by("begin", maintain_order=True).len()
    assert moments["len"].to_list() == [24] * 4
    assert [t - acknowledged for t in moments["begin"]] == [0, 200 * MS, 600 * MS, 1400 * MS]
    given_up = seen.requests.filter(pl.col("status") == "timeout")
    assert given_up.height == 24
    assert set(given_up["end"]) == {acknowledged + 3 * S}
    assert set(given_up["data_drops"]) == {5}
