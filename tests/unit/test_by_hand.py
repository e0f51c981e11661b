"""Systems with configurations from practice: the limit of workers and connections, the origin, the time of each
request, and what is not recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plans import made
from tailrace.dataset import Dataset
from tailrace.diagnosis import Diagnosis, diagnose
from tailrace.diagnosis.serialise import as_dict
from tailrace.report.info import describe
from tailrace.score import Score, score

Tables = dict[str, Any]
SHORT = {"duration": "20 s", "ramp": "3 s", "kernel": {"syn": "linux-3.3"}}


def told(table: Tables, folder: Path) -> tuple[Dataset, Diagnosis, Score]:
    run = made(SHORT | table, folder)
    found = diagnose(run)
    return run, found, score(run, as_dict(found))


def reports() -> Tables:
    """Statements of 0.9 s hold all connections to pg, which has workers and CPU to spare."""
    return {
        "tiers": {
            "mono": {"workers": 80, "backlog": 50, "calls": {"pg": {"pool": 20}}},
            "pg": {"workers": 100},
        },
        "nodes": {"mono": {"cores": 2}},
        "interactions": {
            "page": {"at": {"mono": {"compute": "3 ms", "calls": {"select": 3}}}},
            "select": {"at": {"pg": {"compute": "0.5 ms"}}},
            "report": {"at": {"mono": {"compute": "1 ms", "calls": {"sum": 1}}}},
            "sum": {"at": {"pg": {"compute": "1 ms", "wait": "0.9 s"}}},
        },
        "workloads": {
            "users": {"clients": 1500, "think": "4 s", "interaction": "page"},
            "finance": {"kind": "batch", "size": 30, "every": "9 s", "interaction": "report"},
        },
    }


def migration() -> Tables:
    """Statements of 0.3 s take all eight workers of a database."""
    return {
        "tiers": {"web": {"workers": 80, "backlog": 60, "calls": ["db"]}, "db": {"software": "xmysql"}},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.8 ms", "calls": {"select": 2}}}},
            "select": {"at": {"db": {"compute": "0.4 ms"}}},
            "change": {"at": {"web": {"compute": "0.2 ms", "calls": {"alter": 1}}}},
            "alter": {"at": {"db": {"compute": "0.4 ms", "wait": "0.3 s"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 500, "interaction": "page"},
            "migration": {"kind": "batch", "size": 24, "every": "13 s", "interaction": "change"},
        },
    }


@pytest.mark.parametrize(("table", "origin"), [(reports(), "mono"), (migration(), "db")], ids=["pool", "workers"])
def test_slow_statements_that_hold_a_limit_are_no_freeze(tmp_path: Path, table: Tables, origin: str) -> None:
    _, found, right = told(table, tmp_path / "run")
    assert {episode.cause for episode in found.episodes} <= {"soft-resource", "workload-burst"}
    assert origin == "mono" or {episode.origin for episode in found.episodes} == {origin}
    assert right.right > 0.95 * right.vlrt > 100


def test_a_burst_that_holds_places_also_brings_work(tmp_path: Path) -> None:
    """Exports hold the workers of app, and each of them computes in db. With any number of workers, the work still
    comes at once."""
    table = {
        "tiers": {
            "web": {"workers": 600, "backlog": 300, "calls": ["app"]},
            "app": {"workers": 8, "backlog": 600, "calls": ["db"]},
            "db": {"workers": 600},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.8 ms", "calls": {"read": 1}}}},
            "read": {"at": {"app": {"compute": "0.5 ms", "calls": {"select": 3}}}},
            "select": {"at": {"db": {"compute": "0.8 ms"}}},
            "export": {"at": {"web": {"compute": "0.2 ms", "calls": {"collect": 1}}}},
            "collect": {"at": {"app": {"compute": "0.4 ms", "wait": "0.2 s", "calls": {"scan": 1}}}},
            "scan": {"at": {"db": {"compute": "10 ms"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 200, "interaction": "page"},
            "exports": {"kind": "batch", "size": 300, "every": "13 s", "interaction": "export"},
        },
    }
    _, found, right = told(table, tmp_path / "run")
    assert all(right.causes[cause]["told"] > 0 for cause in ("soft-resource", "workload-burst"))
    assert {episode.cause for episode in found.episodes} <= {"soft-resource", "workload-burst"}
    assert right.right > 0.95 * right.vlrt > 1000


def test_a_computation_on_an_event_loop_is_long_beside_visits_that_wait_for_their_calls(tmp_path: Path) -> None:
    """Each page waits for 0.25 s behind the loop. An export computes for four times as long, and two come at once."""
    table = {
        "tiers": {"node": {"kind": "async", "calls": ["db"]}, "db": {"workers": 400, "backlog": 400}},
        "interactions": {
            "page": {"at": {"node": {"compute": "4 ms", "calls": {"select": 1}}}},
            "select": {"at": {"db": {"compute": "0.5 ms", "wait": "0.25 s"}}},
            "export": {"at": {"node": {"compute": "0.9 s", "scv": 0.0}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 120, "interaction": "page"},
            "exports": {"kind": "batch", "size": 2, "every": "9 s", "interaction": "export"},
        },
    }
    _, found, right = told(table, tmp_path / "run")
    assert {(episode.origin, episode.cause) for episode in found.episodes} == {("node", "own-work")}
    assert right.right > 0.95 * right.vlrt > 100


def test_a_burst_of_computations_is_charged_with_what_shorter_ones_would_do_too(tmp_path: Path) -> None:
    """Twenty exports compute for 0.15 s each, one after the other. If each computed for only 0.1 s, so many at once
    would still keep the loop busy for two seconds."""
    table = {
        "tiers": {"node": {"kind": "async", "calls": ["db"]}, "db": {"workers": 400, "backlog": 400}},
        "interactions": {
            "page": {"at": {"node": {"compute": "1 ms", "calls": {"select": 1}}}},
            "select": {"at": {"db": {"compute": "0.5 ms"}}},
            "export": {"at": {"node": {"compute": "150 ms", "scv": 0.0}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 300, "interaction": "page"},
            "exports": {"kind": "batch", "size": 20, "every": "9 s", "interaction": "export"},
        },
    }
    _, _, right = told(table, tmp_path / "run")
    assert all(right.causes[cause]["told"] > 300 for cause in ("own-work", "workload-burst"))
    assert right.right > 0.95 * right.vlrt > 1000


def test_computations_show_although_the_cpu_is_usually_full(tmp_path: Path) -> None:
    """Six exports take half of the workers, and the pages that they leave room for use less of the CPU than usual."""
    table = {
        "tiers": {"web": {"workers": 12, "backlog": 600, "calls": ["db"]}, "db": {"workers": 400, "backlog": 400}},
        "interactions": {
            "page": {"at": {"web": {"compute": "4 ms", "calls": {"select": 1}}}},
            "select": {"at": {"db": {"compute": "0.5 ms"}}},
            "export": {"at": {"web": {"compute": "600 ms", "scv": 0.0}}},
        },
        "workloads": {
            "users": {"kind": "closed", "clients": 300, "think": "1 s", "interaction": "page"},
            "exports": {"kind": "batch", "size": 6, "first": "8 s", "every": "16 s", "interaction": "export"},
        },
    }
    _, _, right = told(table, tmp_path / "run")
    assert right.causes["own-work"]["told"] > 0.9 * right.vlrt
    assert right.right > 0.95 * right.vlrt > 500


def test_other_requests_hold_another_server(tmp_path: Path) -> None:
    """Reports hold the connections to db, and at other times exports keep the event loop computing."""
    table = {
        "tiers": {
            "node": {"kind": "async", "calls": {"db": {"pool": 22}}},
            "db": {"workers": 25},
        },
        "interactions": {
            "page": {"at": {"node": {"compute": "2 ms", "calls": {"select": 1}}}},
            "select": {"at": {"db": {"compute": "1 ms"}}},
            "export": {"at": {"node": {"compute": "1.1 s", "scv": 0.0}}},
            "report": {"at": {"node": {"compute": "0.1 ms", "calls": {"sum": 1}}}},
            "sum": {"at": {"db": {"compute": "0.5 ms", "wait": "1.3 s"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 250, "interaction": "page"},
            "exports": {"kind": "batch", "size": 2, "first": "6 s", "every": "12 s", "interaction": "export"},
            "reports": {"kind": "batch", "size": 30, "first": "12 s", "every": "12 s", "interaction": "report"},
        },
    }
    _, found, right = told(table, tmp_path / "run")
    causes = {row.cause for row in found.summary}
    assert "own-work" in causes
    assert "unknown" not in causes
    assert right.right > 0.95 * right.vlrt > 500


def test_a_freeze_is_no_slow_statement(tmp_path: Path) -> None:
    frozen = reports() | {"stalls": [{"kind": "freeze", "place": "pg", "at": "14 s", "for": "900 ms"}]}
    frozen["workloads"].pop("finance")
    _, found, right = told(frozen, tmp_path / "run")
    assert {(episode.origin, episode.cause) for episode in found.episodes} == {("pg", "freeze")}
    assert right.right == right.vlrt > 100


def test_a_slow_database_is_not_a_limit_of_its_caller(tmp_path: Path) -> None:
    slowed = reports() | {"stalls": [{"kind": "slow", "place": "pg", "at": "14 s", "for": "1 s", "left": 0.05}]}
    slowed["workloads"].pop("finance")
    _, found, right = told(slowed, tmp_path / "run")
    assert {episode.origin for episode in found.episodes} == {"pg"}
    assert right.right == right.vlrt > 100


def test_a_burst_is_the_cause_at_a_server_with_few_threads_before_a_database(tmp_path: Path) -> None:
    """More requests arrive at a database that answers as fast as ever, through a canary of four threads."""
    _, _, right = told(
        {
            "duration": "40 s",
            "tiers": {
                "proxy": {"kind": "async", "calls": ["main", "canary"]},
                "main": {"workers": 60, "calls": ["db"]},
                "canary": {"workers": 4, "backlog": 8, "calls": ["db"]},
                "db": {"workers": 100},
            },
            "interactions": {
                "get": {"at": {"proxy": {"compute": "0.2 ms", "calls": {"work": 0.7, "new": 0.3}}}},
                "work": {"at": {"main": {"compute": "1 ms", "calls": {"query": 1}}}},
                "new": {"at": {"canary": {"compute": "1 ms", "calls": {"query": 1}}}},
                "query": {"at": {"db": {"compute": "0.3 ms", "wait": "20 ms"}}},
            },
            "workloads": {
                "users": {"kind": "modulated", "rates": [300, 750], "stays": ["8 s", "1.2 s"], "interaction": "get"}
            },
        },
        tmp_path / "run",
    )
    assert right.wrong == 0
    assert right.right >= 0.95 * right.vlrt > 100


def test_a_burst_is_the_cause_behind_an_event_loop_that_goes_on_with_old_requests_first(tmp_path: Path) -> None:
    """More requests arrive at an asynchronous server, which sends their calls no faster than it computes."""
    _, _, right = told(
        {
            "duration": "30 s",
            "tiers": {
                "web": {"kind": "async", "calls": ["app"]},
                "app": {"workers": 60, "backlog": 32, "calls": {"db": {"pool": 59}}},
                "db": {"workers": 119},
            },
            "interactions": {
                "get": {"at": {"web": {"compute": "5.8 ms", "calls": {"work": 3}}}},
                "work": {"at": {"app": {"compute": "1.8 ms", "calls": {"query": 1}}}},
                "query": {"at": {"db": {"compute": "1.1 ms"}}},
            },
            "workloads": {
                "users": {"clients": 490, "think": "4.1 s", "interaction": "get"},
                "campaign": {"kind": "batch", "size": 181, "every": "7.1 s", "first": "3.3 s", "interaction": "get"},
            },
        },
        tmp_path / "run",
    )
    assert right.wrong == 0
    assert right.right >= 0.95 * right.vlrt > 100


def test_a_burst_at_one_service_of_a_system_is_one_although_the_others_get_far_more_requests(tmp_path: Path) -> None:
    table = {
        "duration": "40 s",
        "tiers": {
            "web": {"workers": 100, "calls": ["db"]},
            "gate": {"workers": 400, "calls": ["db"]},
            "db": {"workers": 400},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.2 ms", "calls": {"select": 1}}}},
            "order": {"at": {"gate": {"compute": "9 ms", "calls": {"select": 1}}}},
            "select": {"at": {"db": {"compute": "0.1 ms", "wait": "20 ms"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 2000, "interaction": "page", "entry": "web"},
            "orders": {
                "kind": "modulated",
                "rates": [50, 160],
                "stays": ["8 s", "3 s"],
                "interaction": "order",
                "entry": "gate",
            },
        },
    }
    _, found, right = told(table, tmp_path / "run")
    assert {(episode.origin, episode.cause) for episode in found.episodes} == {("gate", "workload-burst")}
    assert right.right > 0.95 * right.vlrt > 200


def test_a_queue_that_was_up_again_is_looked_at_from_then_on(tmp_path: Path) -> None:
    """A chance rise just before the freeze is half as long as the pool lets the queue become."""
    _, found, right = told(
        {
            "kernel": {"syn": "linux-6.5"},
            "tiers": {"web": {"workers": 40, "calls": ["db"]}, "db": {"workers": 60}},
            "interactions": {
                "page": {"at": {"web": {"compute": "0.8 ms", "calls": {"select": 2}}}},
                "select": {"at": {"db": {"compute": "0.75 ms"}}},
            },
            "workloads": {
                "users": {
                    "kind": "poisson",
                    "rate": 500,
                    "timeout": "1.5 s",
                    "retries": 3,
                    "retry_pause": "0.1 s",
                    "interaction": "page",
                }
            },
            "stalls": [{"kind": "freeze", "place": "db", "at": "12 s", "for": "1.2 s"}],
            "seed": 1,
        },
        tmp_path / "run",
    )
    assert {(episode.origin, episode.cause) for episode in found.episodes} == {("db", "freeze")}
    assert right.right == right.vlrt > 500


def test_what_grows_above_capacity_is_a_burst_though_less_than_half_more_come(tmp_path: Path) -> None:
    steps = {
        f"step{number}": {"kind": "poisson", "rate": 40, "begin": f"{8 + 2 * number} s", "end": "22 s"}
        for number in range(5)
    }
    loads = {"base": {"kind": "poisson", "rate": 350}} | steps
    _, found, right = told(
        {
            "duration": "30 s",
            "tiers": {"web": {"workers": 100, "backlog": 100, "calls": ["app"]}, "app": {"workers": 60, "backlog": 60}},
            "interactions": {
                "page": {"at": {"web": {"compute": "0.3 ms", "calls": {"make": 1}}}},
                "make": {"at": {"app": {"compute": "2 ms"}}},
            },
            "workloads": {name: load | {"interaction": "page"} for name, load in loads.items()},
        },
        tmp_path / "run",
    )
    assert {(episode.origin, episode.cause) for episode in found.episodes} == {("app", "workload-burst")}
    assert right.right == right.vlrt > 100


def test_what_takes_long_by_itself_is_not_blamed_on_what_was_short(tmp_path: Path) -> None:
    """Reports compute for up to seconds, while the web tier collects for 60 ms now and then."""
    heap = {"young": "15 MiB", "per_visit": "100 kB", "young_collection": {"base": "60 ms"}}
    _, found, right = told(
        {
            "nodes": {"olap": {"cores": 8}},
            "tiers": {"web": {"workers": 200, "calls": ["olap"], "heap": heap}, "olap": {"workers": 100}},
            "interactions": {
                "page": {"at": {"web": {"compute": "1 ms", "calls": {"sum": 0.05}}}},
                "sum": {"at": {"olap": {"compute": "400 ms"}}},
            },
            "workloads": {"users": {"kind": "poisson", "rate": 150, "interaction": "page"}},
        },
        tmp_path / "run",
    )
    assert {row.cause for row in found.summary} <= {"unknown", "own-work", "garbage-collection"}
    assert right.vlrt > 8
    assert right.wrong == 0


def test_clients_that_give_up_hide_the_full_response_time(tmp_path: Path) -> None:
    table: Tables = {
        "tiers": {"api": {"workers": 60}},
        "interactions": {"rest": {"at": {"api": {"compute": "2 ms"}}}},
        "workloads": {"world": {"kind": "poisson", "rate": 300, "interaction": "rest", "timeout": "0.4 s"}},
        "stalls": [{"kind": "freeze", "place": "api", "at": "6 s", "for": "1.5 s"}],
    }
    run, found, _ = told(table, tmp_path / "run")
    assert found.vlrt == 0
    assert "428 of 6,063 requests were given up by clients before api answered" in found.answer[1]
    assert "would have taken that clients gave up after 400 ms or more" in found.answer[2]
    assert "--threshold '380 ms'" in found.answer[2]
    lower = diagnose(run, threshold_ns=380_000_000)
    assert lower.vlrt > 300
    assert {episode.cause for episode in lower.episodes} <= {"freeze", "unknown"}


def test_info_counts_lost_attempts_of_requests_that_never_arrived(tmp_path: Path) -> None:
    table: Tables = {
        "kernel": {"syn": []},
        "tiers": {"one": {"workers": 1, "backlog": 2}},
        "interactions": {"job": {"at": {"one": {"compute": "1 ms", "scv": 0}}}},
        "workloads": {"jobs": {"kind": "poisson", "rate": 900, "interaction": "job"}},
    }
    run = made(SHORT | table, tmp_path / "run")
    failed = run.requests().collect()["status"].cast(str).ne("ok").sum()
    [server] = describe(run)["servers"]
    # A request that was lost in the ramp failed after it.
    assert 1000 < failed <= server["drops"] < 1.1 * failed
