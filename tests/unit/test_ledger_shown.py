"""What is shown of the ledger: its sentence, the shares of its lines, and the sheets of the servers concerned."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from systems import NX1, Slow, system
from tailrace.diagnosis import cause, ledger, tables, vlrt
from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.judged import Judged
from tailrace.diagnosis.ledger import BALANCER, BURST, RETRIES, Replayed, Share
from tailrace.units import MILLISECOND


@pytest.fixture(scope="module")
def stopped() -> Replayed:
    """The collections of app stop it from 4.0 to 4.6 s."""
    memory = system(Slow("app", 4.0, 4.6, cpu=1.0, always=True)).event("app", "gc", 4.0, 4.6)
    view = tables.look(memory, 50 * MILLISECOND)
    (one,) = ledger.judge(view, vlrt.find(view, None))
    assert one is not None
    return one


def shown(one: Replayed, origin: str | None = "app") -> Judged:
    (found,) = ledger.show([one], [origin])
    assert found is not None
    return found


def test_the_sentence_says_what_would_not_have_happened(stopped: Replayed) -> None:
    one = replace(stopped, recorded=1060, replayed=1102, shares=(Share("garbage-collection", "app", 1000.0, 40),))
    assert shown(one).sentence == (
        "Without the collections of app, 1,062 of 1,102 very long requests would not have happened (96 %); "
        "the replay reproduced the recording within 4 %."
    )
    assert shown(one).error == pytest.approx(42 / 1060)


def test_several_causes_are_reported_without_small_shares(stopped: Replayed) -> None:
    shares = (
        Share("neighbour", "app", 50.0, 0, "batch"),
        Share(BURST, None, 46.0, 10),
        Share("writeback", "db", 4.0, 96),
    )
    one = replace(stopped, recorded=100, replayed=100, shares=shares)
    assert shown(one).sentence == (
        "Without what batch took of the CPU of app, 100 of 100 very long requests would not have happened (100 %); "
        "without the bursts of requests, 90 (90 %); the replay reproduced the recording within 1 %."
    )
    assert [(line.cause, line.share, line.vlrt_without) for line in shown(one).lines] == [
        ("neighbour", 0.5, 0),
        (BURST, 0.46, 10),
        ("writeback", 0.04, 96),
    ]


def test_no_share_is_claimed_of_an_episode_that_is_not_reproduced(stopped: Replayed) -> None:
    found = shown(replace(stopped, replayed=stopped.recorded // 3))
    assert not found.reproduced
    assert found.lines == ()
    assert found.sentence.endswith("it is not a model of this episode.")


def test_it_says_whose_queue_is_not_reproduced(stopped: Replayed) -> None:
    extract = stopped.extract
    web = replace(extract.of["web"], replayed=np.zeros(len(extract.begins)))
    other = replace(extract, of=extract.of | {"web": web})
    found = shown(replace(stopped, replayed=3, extract=other), None)
    assert found.not_reproduced == ("web",)
    assert "and the queue of web is not reproduced" in found.sentence
    assert found.servers[0].server == "web"


def test_the_origin_comes_first_then_servers_of_lines_each_once(stopped: Replayed) -> None:
    count = stopped.recorded
    shares = (Share("garbage-collection", "app", count / 2, 0), Share("neighbour", "web", count / 2, 0))
    one = replace(stopped, replayed=count, shares=shares)
    assert [sheet.server for sheet in shown(one, "db").servers] == ["db", "app", "web"]
    assert [sheet.server for sheet in shown(one, "app").servers] == ["app", "web"]
    nothing = replace(stopped, shares=())
    assert [sheet.server for sheet in shown(nothing, None).servers] == ["app"], "it lost the most"
    assert [sheet.server for sheet in shown(nothing, "elsewhere").servers] == ["app"]


def test_a_sheet_has_what_the_collection_took(stopped: Replayed) -> None:
    (sheet,) = shown(stopped).servers
    (lost,) = sheet.lost
    assert lost.cause == "garbage-collection"
    assert lost.lost_ns == pytest.approx(600 * MILLISECOND, rel=0.05)
    assert sheet.capacity_ns == sheet.end - sheet.begin, "one core"


def test_columns_of_many_episodes_stay_few(stopped: Replayed) -> None:
    for number in (1, 1000):
        found = ledger.show([stopped] * number, ["app"] * number)[0]
        assert found is not None
        columns = found.servers[0].columns
        assert columns is not None
        assert len(columns.queue_recorded) <= (600 if number == 1 else 100)
        whole = sum(share.mean() for share in columns.shares.values())
        assert whole == pytest.approx(1.0)


def test_a_queue_that_is_replayed_is_shown_beside_the_recorded_one() -> None:
    view = tables.look(system(Slow("app", 4.0, 4.6), tiers=NX1), 50 * MILLISECOND)
    (one,) = ledger.judge(view, vlrt.find(view, None))
    assert one is not None
    columns = shown(one).servers[0].columns
    assert columns is not None
    assert columns.queue_recorded.max() > 20
    assert np.abs(columns.queue_recorded - columns.queue_replayed).mean() < 0.1 * columns.queue_recorded.max()


@pytest.mark.parametrize("main", [BALANCER, RETRIES, "concurrency-overhead", "freeze"])
def test_the_largest_share_comes_first_whatever_its_cause(main: str, stopped: Replayed) -> None:
    some = (Share("neighbour", "app", 30.0, 60), Share(main, None, 61.0, 39), Share(UNKNOWN, "app", 9.0, 91))
    one = replace(stopped, recorded=100, replayed=100, shares=some)
    assert [share.cause for share in cause.by_size(one)] == [main, "neighbour", UNKNOWN]


@pytest.mark.parametrize("name", [RETRIES, BALANCER, BURST])
def test_what_clients_or_balancers_did_has_an_origin_although_no_queue_rose(stopped: Replayed, name: str) -> None:
    """In an overload as long as the recording, no queue rises: it is long from the first moment on."""
    nowhere = SimpleNamespace(origin=None)
    lost = SimpleNamespace(dropper=None, first=None)
    share = Share(name, "web" if name == BALANCER else None, 100.0, 0)
    assert cause._origin(share, nowhere, lost, stopped) == "app"  # type: ignore[arg-type]
    risen = SimpleNamespace(origin="db")
    assert cause._origin(share, risen, lost, stopped) == ("app" if name == BURST else "db")  # type: ignore[arg-type]
