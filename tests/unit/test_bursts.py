"""Which requests came beyond the usual number: what clients send that wait, repeat, or come for a part of the time."""

from __future__ import annotations

import heapq
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from ledgers import shares
from plans import made
from systems import Memory
from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose, tables, vlrt
from tailrace.diagnosis.constants import FEW, STEP_NS, WINDOW_NS
from tailrace.diagnosis.ledger import bursts, excess, retries, systems
from tailrace.diagnosis.ledger.recorded import Recorded, record
from tailrace.diagnosis.ledger.steps import NEVER
from tailrace.experiment import from_table
from tailrace.score import without

S, MS = 1_000_000_000, 1_000_000
CLOSED = {"kind": "closed", "clients": 300, "think": "2 s", "start": "thinking", "interaction": "page"}
STALL = {"kind": "freeze", "place": "web", "at": "8 s", "for": "1.5 s"}


def beyond(folder: Path, users: dict[str, Any], *, compute: str = "2 ms", stalls: tuple[dict[str, Any], ...]) -> int:
    """How many requests of these users came beyond the usual number."""
    return sum(beyond_by_server(folder, {"users": users}, compute=compute, stalls=stalls).values())


def beyond_by_server(
    folder: Path, workloads: dict[str, Any], *, compute: str = "2 ms", stalls: tuple[dict[str, Any], ...]
) -> Counter[str]:
    """The same, by the server that these workloads asked: web, or other, which shares nothing with it."""
    _simulated(folder, workloads, compute=compute, stalls=stalls)
    recorded, found = requests_beyond(folder)
    return Counter(recorded.servers[number] for number in recorded.server[found.requests].tolist())


def requests_beyond(folder: Path) -> tuple[Recorded, bursts.Beyond]:
    view = tables.look(Dataset.open(folder), 50_000_000)
    slow = vlrt.find(view, None)
    assert slow.clusters
    recorded = record(view, slow)
    assert recorded is not None
    again = retries.repeated(view, recorded).visits
    return recorded, bursts.beyond(recorded, recorded.steps.covered(slow.calm) > 0.5, again, view.topology)


def _simulated(
    folder: Path,
    workloads: dict[str, Any],
    *,
    stalls: tuple[dict[str, Any], ...],
    compute: str = "2 ms",
    duration: str = "20 s",
) -> None:
    tier = {"kind": "sync", "workers": 40, "backlog": 64}
    others = {"other": tier} if len(workloads) > 1 else {}
    table = {
        "seed": 5,
        "duration": duration,
        "ramp": "2 s",
        "tiers": {"web": tier, **others},
        "interactions": {"page": {"at": {name: {"compute": compute, "scv": 1.0} for name in ("web", *others)}}},
        "workloads": workloads,
        "stalls": list(stalls),
    }
    sim.simulate(from_table(table), folder)


def test_a_batch_that_comes_at_once_differs_from_a_rate_that_rises() -> None:
    """A batch comes at once, in addition to the usual load. So its size is no part of the usual number."""
    usual = np.arange(2000) * 10 * MS

    def found(more: np.ndarray) -> tuple[int, int]:
        """How many steps the only stretch has, and how many requests came beyond the usual number in it."""
        sent = np.sort(np.concatenate((usual, more)))
        rate = np.ones(2000)
        [within] = excess.stretches(np.bincount(sent // STEP_NS), rate, FEW)
        return within[1] - within[0], len(excess.beyond_usual(sent, rate, [within]))

    lasts, at_once = found(10 * S + np.arange(300) * MS // 10)
    assert lasts * STEP_NS <= WINDOW_NS
    assert 290 <= at_once <= 300
    lasts, rise = found(10 * S + np.arange(300) * 3 * MS)
    assert lasts * STEP_NS > WINDOW_NS
    assert rise > 200


@pytest.mark.parametrize(
    ("lasts", "batches"),
    [(1, [(200, 201)]), (4, [(200, 204)]), (10, []), (30, [])],
    ids=["at once", "in 40 ms", "in 100 ms", "in 300 ms"],
)
def test_a_batch_is_found_within_a_time_in_which_a_little_more_came(lasts: int, batches: list[tuple[int, int]]) -> None:
    """Right before 160 requests and after them, two come in each step for a while, where one is usual."""
    counts = np.ones(400, dtype=np.int64)
    counts[190:240] += 1
    counts[200 : 200 + lasts] += 160 // lasts
    [(begin, end)] = excess.stretches(counts, np.ones(400), FEW)
    assert (end - begin) * STEP_NS > WINDOW_NS
    assert excess.at_once(counts, np.ones(400), FEW, WINDOW_NS // STEP_NS) == batches


@pytest.mark.parametrize(
    ("users", "compute", "stalls"),
    [
        (CLOSED, "2 ms", (STALL,)),
        (CLOSED, "15 ms", ()),
        (CLOSED | {"timeout": "1 s", "retries": 1}, "15 ms", ()),
    ],
    ids=["they come together after a stall", "an overload holds them back", "they give up and repeat"],
)
def test_clients_that_had_to_wait_are_no_burst(
    tmp_path: Path, users: dict[str, Any], compute: str, stalls: tuple[dict[str, Any], ...]
) -> None:
    assert beyond(tmp_path / "run", users, compute=compute, stalls=stalls) == 0


def test_a_load_that_stays_the_same_while_its_connections_wait_is_no_burst(tmp_path: Path) -> None:
    """Clients take a free connection for each request, and open another one if all of them wait."""
    load = {"kind": "poisson", "rate": 150, "interaction": "page"}
    _simulated(tmp_path / "run", {"users": load}, stalls=(STALL,))
    run = Dataset.open(tmp_path / "run")
    requests = run.requests().collect().sort("sent")
    free: list[tuple[int, int]] = []
    connections = []
    for sent, end in requests.select("sent", "end").rows():
        took = heapq.heappop(free)[1] if free and free[0][0] <= sent else len(connections)
        connections.append(took)
        heapq.heappush(free, (end, took))
    pooled = requests.with_columns(client=pl.Series(connections, dtype=pl.UInt32))
    read = {"visits": run.visits(), "samples": run.samples()}
    memory = Memory(run.topology, {"requests": pooled} | {name: table.collect() for name, table in read.items()})
    view = tables.look(memory, 50_000_000)
    slow = vlrt.find(view, None)
    recorded = record(view, slow)
    assert recorded is not None
    assert (recorded.follows >= 0).mean() > 0.2
    calm = recorded.steps.covered(slow.calm) > 0.5
    none = np.empty(0, dtype=np.int64)
    assert len(bursts.beyond(recorded, calm, none, view.topology).requests) == 0


def test_repeated_requests_do_not_hide_that_more_came_for_a_time(tmp_path: Path) -> None:
    changing = {"kind": "modulated", "rates": [80.0, 400.0], "stays": ["4 s", "1 s"], "interaction": "page"}
    assert beyond(tmp_path / "run", changing | {"timeout": "1 s", "retries": 1}, compute="8 ms", stalls=()) > 100


def test_a_burst_for_one_system_takes_no_requests_from_another(tmp_path: Path) -> None:
    """The burst comes together with the stall of a server that it does not reach."""
    workloads = {
        "users": {"kind": "poisson", "rate": 150, "interaction": "page", "entry": "web"},
        "strangers": {"kind": "poisson", "rate": 20, "interaction": "page", "entry": "other"},
        "crowd": {
            "kind": "poisson",
            "rate": 500,
            "begin": "8 s",
            "end": "8.8 s",
            "interaction": "page",
            "entry": "other",
        },
    }
    found = beyond_by_server(tmp_path / "run", workloads, stalls=(STALL,))
    assert found["web"] == 0
    assert found["other"] > 250


def test_clients_of_one_system_that_wait_make_no_burst_of_another(tmp_path: Path) -> None:
    """For five seconds 1,000 clients of web wait, while those of the other system go on as usual."""
    workloads = {
        "users": CLOSED | {"clients": 1000, "entry": "web"},
        "strangers": CLOSED | {"clients": 200, "entry": "other"},
    }
    found = beyond_by_server(tmp_path / "run", workloads, compute="1 ms", stalls=(STALL | {"for": "5 s"},))
    assert found["other"] == 0


@pytest.mark.parametrize(("missing", "found"), [(0, 150), (150, 0)], ids=["beyond the usual", "they make up"])
def test_requests_that_make_up_for_missing_ones_are_no_burst(missing: int, found: int) -> None:
    """Ten come in each step; 150 more come in one step, right after a lull in which none came."""
    counts = np.full(400, 10)
    counts[200 - missing // 10 : 200] = 0
    counts[200] += 150
    stretches = excess.stretches(counts, np.full(400, 10.0), FEW)
    beyond_usual = sum(int(counts[begin:end].sum()) - 10 * (end - begin) for begin, end in stretches)
    assert beyond_usual == pytest.approx(found, abs=15)


def test_a_few_requests_at_once_are_a_burst_only_if_such_requests_are_rare() -> None:
    assert excess.is_more(4, usual=0.01)
    assert not excess.is_more(1, usual=0.01)
    assert not excess.is_more(8, usual=4.0)
    assert not excess.is_more(449, usual=400.0)
    assert excess.is_more(520, usual=400.0)


def test_servers_that_share_no_request_are_of_different_systems() -> None:
    """Of six servers, f calls d, and d calls b; a calls e; c is alone."""
    recorded: Any = SimpleNamespace(
        servers=tuple("abcdef"),
        number={name: number for number, name in enumerate("abcdef")},
        server=np.array([5, 3, 1, 0, 4, 2]),
        ways=dict.fromkeys((("f", "d"), ("d", "b"), ("a", "e"))),
    )
    assert systems.of(recorded).tolist() == [1, 1, 1, 0, 0, 2]


def test_a_burst_is_more_than_chance_makes_of_the_usual() -> None:
    random = np.random.default_rng(1)
    usual = np.sort(random.uniform(0, 30 * S, 6000)).astype(np.int64)
    counts, two = np.bincount(usual // STEP_NS, minlength=3000), np.full(3000, 2.0)
    assert excess.stretches(counts, two, FEW) == [], "chance alone"
    counts[1000] += 200
    (found,) = excess.stretches(counts, two, FEW)
    assert found[0] <= 1000 < found[1]
    batch = np.concatenate((np.arange(20) * 5 * MS, np.full(200, 50 * MS)))
    gone = excess.without_turn(np.sort(batch), two)
    assert 180 <= len(gone) <= 205


def surging(**clients: object) -> dict[str, Any]:
    """700 clients of web and db pause for 2 s in the mean, and db can serve 500/s."""
    return {
        "seed": 4,
        "duration": "40 s",
        "ramp": "3 s",
        "tiers": {
            "web": {"kind": "async", "backlog": 16, "calls": {"db": {"kept": False, "pool": 0}}},
            "db": {"kind": "sync", "workers": 40, "backlog": 16},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"query": 1}}}},
            "query": {"at": {"db": {"compute": "2 ms"}}},
        },
        "workloads": {"users": {"clients": 700, "think": "2 s", "interaction": "page", "entry": "web"} | clients},
    }


def test_clients_that_pause_shorter_are_a_burst_although_many_wait_and_send_nothing(tmp_path: Path) -> None:
    found = shares(made(surging(index_of_dispersion=400), tmp_path / "run"))
    assert found["workload-burst"] >= 0.8


def test_clients_that_wait_for_a_server_that_stopped_are_no_burst(tmp_path: Path) -> None:
    stop = {"kind": "freeze", "place": "db", "at": "8 s", "every": "11 s", "for": "0.8 s"}
    found = shares(made(surging() | {"stalls": [stop]}, tmp_path / "run"))
    assert found["freeze"] >= 0.9
    assert "workload-burst" not in found


def test_clients_that_do_not_pause_are_no_burst(tmp_path: Path) -> None:
    """Each sends a request as soon as it has an answer, and 800 of them are more than db can serve in a second."""
    table = surging(clients=800, think="0 s")
    table["tiers"]["db"] = {"kind": "async", "backlog": 1000}
    run = made(table, tmp_path / "run")
    assert run.requests().select((pl.col("end") - pl.col("sent") > S).sum()).collect().item() > 1000
    assert "workload-burst" not in shares(run)


@pytest.mark.parametrize(("high", "causes"), [(1100.0, {"workload-burst"}), (2600.0, {"unknown"})])
def test_surges_are_the_cause_only_if_the_same_requests_would_not_be_slow_evenly(
    high: float, causes: set[str], tmp_path: Path
) -> None:
    """A server that answers 500 requests a second gets 380 in the mean, or 880."""
    users = {"kind": "modulated", "rates": [200.0, high], "stays": ["3 s", "1200 ms"], "interaction": "page"}
    _simulated(tmp_path / "run", {"users": users}, stalls=(), duration="40 s")
    assert {episode.cause for episode in diagnose(Dataset.open(tmp_path / "run")).episodes} == causes


@pytest.fixture(scope="module")
def closed_surges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clients that send after an answer fill a server in surges."""
    folder = tmp_path_factory.mktemp("closed") / "run"
    users = CLOSED | {"clients": 800, "index_of_dispersion": 300.0}
    _simulated(folder, {"users": users}, stalls=(), duration="40 s")
    return folder


def test_clients_that_wait_for_answers_are_a_burst_if_their_requests_would_not_be_slow_evenly(
    closed_surges: Path,
) -> None:
    """Near a limit, an error in one answer moves what its client sends afterwards. So some of these replays are models
    only if each request is sent when it was recorded."""
    run = Dataset.open(closed_surges)
    found = diagnose(run)
    assert without.vlrt_without(run, ["workload-burst"], vlrt.THRESHOLD_NS) == 0
    assert found.vlrt > 100
    told = Counter(episode.cause for episode in found.episodes for _ in range(episode.vlrt))
    assert told["workload-burst"] >= 0.9 * found.vlrt


def test_the_requests_of_clients_that_wait_get_a_turn_too(closed_surges: Path) -> None:
    columns, found = requests_beyond(closed_surges)
    follows = columns.follows[found.requests] >= 0
    assert follows.sum() > 100
    assert (found.turns[follows] < NEVER).mean() > 0.9


def test_requests_get_their_turn_when_fewer_than_usual_come() -> None:
    usual, counts = np.full(10, 2.0), np.array([2, 6, 2, 2, 1, 0, 0, 2, 2, 2])
    turns = excess.turns(np.full(4, STEP_NS + 1), counts, usual)
    assert (turns // STEP_NS).tolist() == [4, 5, 5, 6]


def test_requests_that_get_no_turn_are_not_sent() -> None:
    turns = excess.turns(np.array([1, 2, 3]), np.array([5, 2, 1]), np.full(3, 2.0))
    assert (turns // STEP_NS)[0] == 2
    assert (turns[1:] == NEVER).all()


def test_the_time_before_an_overload_that_lasts_until_the_end_is_calm(tmp_path: Path) -> None:
    users = {"kind": "poisson", "rate": 300.0, "interaction": "page"}
    stop = {"kind": "freeze", "place": "web", "at": "2.5 s", "for": "60 s"}
    _simulated(tmp_path / "run", {"users": users}, stalls=(stop,), duration="60 s")
    calm = vlrt.find(tables.look(Dataset.open(tmp_path / "run"), 50_000_000), None).calm
    assert len(calm) == 1
    assert 1 * S <= calm[0, 1] - calm[0, 0] < 2.5 * S


def test_a_burst_onto_several_servers_is_the_cause_at_each_of_them(tmp_path: Path) -> None:
    """Each server drops some of its requests. In the replay these are others, and they count for the server that they
    were sent to."""
    users = {"kind": "poisson", "rate": 300.0, "interaction": "page", "entry": "web"}
    batch = {"kind": "batch", "size": 400, "every": "6 s", "first": "5 s", "interaction": "page", "entry": "web"}
    table = {
        "seed": 4,
        "duration": "16 s",
        "ramp": "2 s",
        "sampling": {"interval": "50 ms"},
        "tiers": {"web": {"kind": "sync", "count": 3, "workers": 40, "backlog": 24}},
        "interactions": {"page": {"at": {"web": {"compute": "2 ms", "scv": 1.0}}}},
        "workloads": {"users": users, "batch": batch},
    }
    found = diagnose(made(table, tmp_path / "run"))
    assert {episode.dropper for episode in found.episodes} == {"web1", "web2", "web3"}
    assert {episode.cause for episode in found.episodes} == {"workload-burst"}
    for episode in found.episodes:
        assert episode.ledger is not None
        assert episode.ledger.error < 0.5
