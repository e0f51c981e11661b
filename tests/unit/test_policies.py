"""Choices of balancers that a replay makes again, and those that it keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plans import made
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.ledger import policies
from tailrace.diagnosis.ledger.policies import RECORDED
from tailrace.diagnosis.ledger.recorded import record
from tailrace.diagnosis.serialise import as_dict
from tailrace.diagnosis.tables import look
from tailrace.diagnosis.vlrt import find
from tailrace.units import MILLISECOND, SECOND

Tables = dict[str, Any]


def balanced(policy: str, rate: int = 900) -> Tables:
    """A web server that balances over three databases, one of which stops."""
    return {
        "duration": "14 s",
        "ramp": "2 s",
        "kernel": {"syn": "linux-3.3"},
        "tiers": {
            "web": {"workers": 300, "backlog": 64, "calls": {"db": {"policy": policy}}},
            "db": {"count": 3, "workers": 200, "backlog": 64},
        },
        "nodes": {"web": {"cores": 4}},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.3 ms", "calls": {"select": 1}}}, "response": "4 kB"},
            "select": {"at": {"db": {"compute": "2 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": rate, "interaction": "page"}},
        "stalls": [{"kind": "freeze", "place": "db2", "at": "8 s", "for": "1.2 s"}],
    }


def repeated(run: Dataset, policy: str | None) -> tuple[str, ...]:
    """By which policy each choice is made again, where the topology names `policy`."""
    topology = run.topology
    named = tuple(one.model_copy(update={"policy": policy}) for one in topology.balancers)
    view = replace(look(run, 50 * MILLISECOND), topology=topology.model_copy(update={"balancers": named}))
    found = find(view, SECOND)
    recorded = record(view, found)
    assert recorded is not None
    return policies.routes(view, recorded).policy


AGAIN = {
    "least_connections": "least_connections",
    "current_load": "least_connections",
    "total_request": "total_request",
    "power_of_two": RECORDED,
    "random": RECORDED,
}


@pytest.mark.parametrize("policy", AGAIN)
def test_a_policy_is_repeated_if_the_recorded_choices_agree_with_it(policy: str, tmp_path: Path) -> None:
    run = made(balanced(policy), tmp_path / "run")
    assert repeated(run, policy) == (RECORDED if policy == "random" else policy,)
    assert repeated(run, None) == (AGAIN[policy],)
    wrong = "total_request" if policy != "total_request" else "least_connections"
    assert repeated(run, wrong) == (RECORDED,)


def test_when_a_call_chose_that_waited_for_a_connection_is_not_known(tmp_path: Path) -> None:
    """Batches hold the few workers of both databases. So the pools of the web servers, one for both databases each, are
    full, and calls that have chosen wait for a connection."""
    table = balanced("current_load", rate=187)
    table["tiers"]["web"] |= {"count": 2, "workers": 93}
    table["tiers"]["web"]["calls"]["db"] |= {"pool": 60, "pool_per": [], "kept": True}
    table["tiers"]["db"] |= {"count": 2, "workers": 9, "backlog": 128}
    table["nodes"] = {"db": {"cores": 1}}
    for name, tier in (("page", "web"), ("select", "db")):
        table["interactions"][name]["at"][tier] |= {"compute": "4 ms", "scv": 1.0}
    table["interactions"] |= {
        "hold": {"at": {"web": {"compute": "0.1 ms", "calls": {"long": 1}}}},
        "long": {"at": {"db": {"compute": "0.5 ms", "wait": "700 ms"}}},
    }
    holds = {"kind": "batch", "size": 82, "every": "4 s", "first": "3 s", "interaction": "hold"}
    run = made(table | {"workloads": table["workloads"] | {"holds": holds}, "stalls": []}, tmp_path / "run")
    assert repeated(run, "current_load") == ("current_load",) * 2
    assert repeated(run, "total_request") == (RECORDED,) * 2


def test_a_stall_is_the_cause_of_what_the_policy_did_during_it(tmp_path: Path) -> None:
    """While one database stands still, the policy sends most calls to it, and its workers, accept queue and callers
    fill. If the replay without the stall kept these choices, the database would still be overloaded."""
    told = as_dict(diagnose(made(balanced("total_request"), tmp_path / "run")))
    assert {(episode["origin"], episode["cause"]) for episode in told["episodes"]} == {("db2", "freeze")}
    assert told["vlrt"] > 1000


@pytest.mark.parametrize(
    ("stated", "missing"),
    [
        (None, "the policy by which web chose among servers"),
        ("current_load", "what web really chose servers by: these choices disagree with current_load, which"),
        ("fastest", "how web chose servers by fastest, which the replay cannot repeat"),
    ],
)
def test_choices_that_agree_with_no_policy_are_kept_and_said(
    stated: str | None, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "USUAL", ("current_load",))
    made(balanced("total_request"), tmp_path / "run")
    topology = tmp_path / "run" / "topology.toml"
    line = f'policy = "{stated}"' if stated else ""
    topology.write_text(topology.read_text().replace('policy = "total_request"', line))
    main = max(diagnose(Dataset.open(tmp_path / "run")).episodes, key=lambda episode: episode.vlrt)
    assert main.cause == "unknown"
    assert missing in str(main.findings[4].missing)
    assert not stated or "the policy by which" not in str(main.findings[4].missing)


def test_a_stated_policy_is_not_blamed_for_choices_that_nothing_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if nearly all calls had waited for a connection."""
    monkeypatch.setattr(policies, "MANY", 10**9)
    run = made(balanced("total_request"), tmp_path / "run")
    main = max(diagnose(run).episodes, key=lambda episode: episode.vlrt)
    assert "when web chose servers: most calls waited for a connection" in str(main.findings[4].missing)
