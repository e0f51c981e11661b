"""Requests that are sent again keep up an overload that something else began, or change nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from ledgers import drawn_up
from plans import made
from tailrace.diagnosis import diagnose, tables, vlrt
from tailrace.diagnosis.finding import CauseEvidence, Diagnosis
from tailrace.diagnosis.ledger import retries
from tailrace.diagnosis.ledger.recorded import record
from tailrace.diagnosis.ledger.trial import Removable
from tailrace.score import without

Table = dict[str, Any]
REPEATED = "the requests that were sent again"


def stopped(compute: str, **clients: object) -> Table:
    """A server with room for all requests stops for 0.9 s."""
    users = {"kind": "poisson", "rate": 330, "interaction": "page", "entry": "app"}
    return {
        "seed": 5,
        "duration": "16 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "tiers": {"app": {"kind": "sync", "workers": 2000, "backlog": 2000}},
        "interactions": {"page": {"at": {"app": {"compute": compute}}}},
        "workloads": {"users": users | clients},
        "stalls": [{"kind": "freeze", "place": "app", "at": "6 s", "for": "0.9 s"}],
    }


def impatient(compute: str, retries: int) -> Table:
    """Clients give up after 1.1 s; the stop makes some of them do so."""
    return stopped(compute, timeout="1.1 s", retries=retries, retry_pause="0.2 s")


def retries_of(found: Diagnosis) -> CauseEvidence:
    [only] = found.episodes
    [evidence] = [one for one in only.causes if one.cause == "retries"]
    return evidence


def sentence_of(found: Diagnosis) -> str:
    ledger = found.episodes[0].ledger
    assert ledger is not None
    return ledger.sentence


@pytest.mark.parametrize(
    ("table", "least"),
    [(impatient("2.4 ms", retries=3), 0.2), (stopped("2.4 ms", hedge="200 ms"), 0.5)],
    ids=["retries", "hedges"],
)
def test_what_keeps_up_an_overload_is_reported_beside_what_began_it(table: Table, least: float, tmp_path: Path) -> None:
    found = diagnose(made(table, tmp_path / "run"))
    assert {row.cause for row in found.summary} == {"freeze"}, "what is sent again is no burst, and begins nothing"
    kept_up = retries_of(found)
    assert (kept_up.verdict, kept_up.share) == ("found", 0.0)
    said = sentence_of(found)
    assert said.startswith("Without the stop of app")
    assert f"without {REPEATED}, which made it worse, " in said
    assert "It was worse because requests that were slow were sent again" in " ".join(found.answer)
    patient = {name: value for name, value in table["workloads"]["users"].items() if name not in ("retries", "hedge")}
    fewer = diagnose(made(table | {"workloads": {"users": patient}}, tmp_path / "without"))
    assert fewer.vlrt <= (1.0 - least) * found.vlrt, "the simulation without them says the same"


def test_an_overload_that_only_hedges_make_is_theirs(tmp_path: Path) -> None:
    """The server uses nine tenths of its CPU, so that its queue is long by chance now and then. Then clients send their
    requests twice, and it never catches up."""
    table = stopped("2.4 ms", rate=375, hedge="60 ms") | {"stalls": []}
    found = diagnose(made(table, tmp_path / "run"))
    assert {row.cause for row in found.summary} == {"retries"}
    assert found.vlrt > 1000
    assert "requests that were slow were sent again, which kept app overloaded" in " ".join(found.answer)
    alone = table["workloads"]["users"] | {"hedge": "0 ns"}
    assert diagnose(made(table | {"workloads": {"users": alone}}, tmp_path / "without")).vlrt == 0


def test_without_retries_only_the_stop_is_charged(tmp_path: Path) -> None:
    found = diagnose(made(impatient("2.4 ms", retries=0), tmp_path / "run"))
    assert {row.cause for row in found.summary} == {"freeze"}
    assert retries_of(found).verdict == "absent"


def test_retries_that_a_server_has_room_for_change_nothing(tmp_path: Path) -> None:
    found = diagnose(made(impatient("0.8 ms", retries=3), tmp_path / "run"))
    assert found.unanswered, "clients gave up, and sent their requests again"
    assert {row.cause for row in found.summary} == {"freeze"}
    assert retries_of(found).verdict == "absent"
    assert REPEATED not in sentence_of(found)
    assert "worse" not in " ".join(found.answer)


def test_the_next_request_after_one_that_was_sent_twice_is_a_new_one(tmp_path: Path) -> None:
    """The client gives up one of two attempts when the other is answered, and soon sends its next request."""
    clients = {"kind": "closed", "clients": 100, "think": "0.3 s", "hedge": "100 ms"}
    table = stopped("0.8 ms") | {"workloads": {"users": clients | {"interaction": "page", "entry": "app"}}}
    view = tables.look(made(table, tmp_path / "run"), 50_000_000)
    columns = record(view, vlrt.find(view, vlrt.THRESHOLD_NS // 2))
    assert columns is not None
    again = retries.repeated(view, columns)
    twice = view.requests.filter("twice")["request"].to_numpy()
    assert len(again.visits) > 50
    assert np.isin(columns.request[again.visits], twice).all()


def test_a_second_attempt_was_sent_because_its_client_waited_although_the_first_was_refused_later() -> None:
    """One client sends a request twice; another sends one again after a refusal; a third does so after 504."""
    rows = [
        ("a", 0, 300, "503", False),
        ("a", 100, 900, "abandoned", True),
        ("b", 0, 300, "503", False),
        ("b", 400, 900, "ok", False),
        ("c", 0, 300, "504", False),
        ("c", 400, 900, "ok", False),
    ]
    names = ("client", "sent", "end", "status", "twice")
    requests = (
        pl.DataFrame(rows, schema=names, orient="row").with_row_index("request").with_columns(interaction=pl.lit("p"))
    )
    recorded = SimpleNamespace(request=np.arange(6, dtype=np.uint32), parent=np.full(6, -1))
    found = retries.repeated(SimpleNamespace(requests=requests), recorded)  # type: ignore[arg-type]
    assert dict(zip(found.visits.tolist(), found.patience.tolist(), strict=True)) == {1: 100, 3: 0, 5: 300}


def test_without_retries_clients_still_send_after_the_answer(tmp_path: Path) -> None:
    clients = {"kind": "closed", "clients": 200, "think": "1 s", "timeout": "2 s", "retries": 1, "entry": "app"}
    table = stopped("2 ms") | {"workloads": {"users": clients | {"interaction": "page"}}}
    table["stalls"][0]["for"] = "2.4 s"
    seen, _, account = drawn_up(made(table, tmp_path / "run"))
    trial = Removable.of(seen, account).whole()
    seen_by: list[np.ndarray] = []

    class Spy:
        def run(self, *columns: Any) -> None:
            columns[3][:] = columns[4][:] = columns[1]
            seen_by.append(columns[-2].copy())

    trial._section = Spy()  # type: ignore[assignment]
    assert len(account.repeated.visits) > 10
    trial.times(frozenset({("retries", "")}))
    assert not seen_by[0].any()


def test_a_server_that_is_too_small_is_overloaded_without_hedges_too(tmp_path: Path) -> None:
    """Most requests are answered by their second attempt, because the server lost the first. Without a second one, the
    first brings the same work."""
    table = stopped("4 ms", hedge="440 ms") | {"stalls": []}
    table["tiers"]["app"] |= {"workers": 28, "backlog": 32}
    found = diagnose(made(table, tmp_path / "run"))
    assert found.vlrt > 1000
    assert {row.cause for row in found.summary} == {"unknown"}


def test_requests_that_a_server_refused_are_sent_again_however_long_the_refusal_takes(tmp_path: Path) -> None:
    """Reports fill the databases, so that web finds no connection and answers 503. Its clients send a page again then,
    which keeps the overload up. In a replay, such a refusal often takes a little less time than in the recording."""
    call = {"pool": 20, "policy": "current_load", "endpoint": "modified"}
    pages = {"page": {"compute": "0.5 ms", "calls": {"query": 1}}, "report": {"compute": "0.1 ms", "calls": {"sum": 1}}}
    users = {"kind": "closed", "clients": 1700, "think": "2.2 s", "start": "thinking", "interaction": "page"}
    reports = {"kind": "batch", "size": 16, "every": "9 s", "first": "5 s", "interaction": "report"}
    table = {
        "seed": 3,
        "duration": "25 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "tiers": {
            "web": {"kind": "sync", "workers": 60, "backlog": 8, "calls": {"db": call}},
            "db": {"kind": "bounded", "count": 2, "workers": 10, "backlog": 16},
        },
        "interactions": {name: {"at": {"web": work}} for name, work in pages.items()}
        | {"query": {"at": {"db": {"compute": "2 ms", "scv": 1.0}}}, "sum": {"at": {"db": {"compute": "600 ms"}}}},
        "workloads": {
            "users": users | {"entry": "web", "retries": 1, "retry_pause": "1 s", "timeout": "2 s"},
            "reports": reports | {"entry": "web"},
        },
    }
    run = made(table, tmp_path / "run")
    found = diagnose(run)
    assert found.vlrt > 500
    assert all(one.ledger is not None and one.ledger.reproduced for one in found.episodes)
    assert {row.cause for row in found.summary} <= {"retries", "workload-burst", "own-work"}
    assert without.vlrt_without(run, ["workload-burst"], found.threshold_ns) == 0, "the reports began all of it"
