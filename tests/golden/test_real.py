"""Run folders of real servers, diagnosed, and compared with what happened, so that every change of the diagnosis
shows."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tailrace.dataset import Dataset
from tailrace.diagnosis import Diagnosis, diagnose
from tailrace.diagnosis.answer import sentences
from tailrace.diagnosis.serialise import as_dict
from tailrace.score import score

HERE = Path(__file__).parent / "real"
FOLDERS = sorted(path.parent for path in HERE.glob("*/expected.toml"))
MOST = 0.9
"""A few requests at the edges of what happened may be slow for another reason."""


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: folder.name)
def case(request: pytest.FixtureRequest) -> tuple[Dataset, dict[str, Any], Diagnosis]:
    folder: Path = request.param
    run = Dataset.open(folder)
    return run, tomllib.loads((folder / "expected.toml").read_text()), diagnose(run)


def test_the_very_slow_requests_are_counted(case: tuple[Dataset, dict[str, Any], Diagnosis]) -> None:
    run, expected, found = case
    run.validate(checksums=False)
    assert (found.requests, found.vlrt) == (expected["requests"], expected["vlrt"])


def test_their_causes_are_right(case: tuple[Dataset, dict[str, Any], Diagnosis]) -> None:
    """By the stalls of truth.toml, or by the servers and causes that are right."""
    run, expected, found = case
    if "right" in expected:
        judged = score(run, as_dict(found))
        assert judged.right >= expected["right"] * judged.vlrt
        assert judged.right_dropper >= MOST * judged.vlrt
        assert judged.right_origin >= MOST * judged.origins_stated
        return
    origin = expected.get("origin")
    right = [row.vlrt for row in found.summary if row.origin == origin and row.cause in expected["causes"]]
    if sum(right) < MOST * found.vlrt and "known" in expected:
        pytest.xfail(expected["known"])
    assert sum(right) >= MOST * found.vlrt
    named = [row.vlrt for row in found.summary if row.cause != "unknown"]
    assert sum(named) >= expected.get("named", 0.0) * found.vlrt
    assert {row.dropper for row in found.summary} <= {expected["dropper"], None}


def test_what_would_settle_an_unknown_cause_is_named(case: tuple[Dataset, dict[str, Any], Diagnosis]) -> None:
    _, expected, found = case
    missing = [one.missing or "" for episode in found.episodes for one in episode.findings]
    assert any(expected.get("missing", "") in text for text in missing)


@pytest.mark.parametrize("name", ["path-hole", "answers-lost", "lossy-path-counted"])
def test_no_request_is_very_slow_without_the_packets_that_were_lost_on_the_way(name: str) -> None:
    """Neither the attempts to connect nor the data of open connections are lost then, and no queue has a limit."""
    diagnosis = diagnose(Dataset.open(HERE / name))
    (episode,) = diagnosis.episodes
    assert (episode.cause, episode.findings[4].verdict) == ("packet-loss", "found")
    assert episode.ledger is not None
    [line] = episode.ledger.lines
    assert (line.cause, line.share, line.vlrt_without) == ("packet-loss", 1.0, 0)
    assert f" requests were lost {line.place}, and sent again." in " ".join(sentences(diagnosis))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("stopped", "a signal, a debugger or a frozen control group stopped gunicorn"),
        ("origin-stopped", "origin neither answered nor used its CPU, as if it was stopped or all its workers waited"),
    ],
)
def test_a_stop_is_said_to_be_one_where_the_states_of_threads_show_it(name: str, said: str) -> None:
    assert f"The cause: {said} (" in " ".join(sentences(diagnose(Dataset.open(HERE / name))))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("loop-waits-for-a-call", "GET /quote (1 visit of 1.5 s in 1 place, most of it in calls to goapp) held"),
        ("monitor-of-java", "GET /price (75 visits of up to 2.5 s, until GET /{} left) waited together"),
        ("many-reports-at-once", "and most of them took that long by themselves"),
        ("half-open-connections", "The queue of nginx for connections whose handshake has not ended was full"),
        ("backend-gone", "Meanwhile, gunicorn had no process for 3.1 s."),
        ("database-restarted", "Why is unknown. Meanwhile, db had no process for 3.6 s."),
        ("transactions-hold-the-pool", "GET /tx (4 visits of 2.21 s, 4 at once) held the places"),
        ("connections-opened-meanwhile", "EVAL of GET /script (1 visit of 1.8 s in 1 place) kept redis computing"),
        ("batch-behind-nginx", "more requests came at once than app can serve"),
        ("upstream-vanished", "Packets of 38 requests were lost between nginx and app2/node:3000"),
        ("firewall-forgets", "packets were lost between gunicorn and postgres"),
        ("silent-before-tls", "clients that sent nothing (1 connection of 2.2 s in 1 place) held the places"),
        ("heads-sent-slowly", "slowly sent GET / (26 visits of 2.71 s, 26 at once in 26 places) held the places"),
        ("disk-of-the-host", "gunicorn waited for its disk"),
    ],
)
def test_the_answer_says_what_held_them_up(name: str, said: str) -> None:
    assert said in " ".join(sentences(diagnose(Dataset.open(HERE / name))))


def test_requests_that_waited_behind_others_of_equal_length_waited_for_no_timer() -> None:
    assert "A timer makes" not in " ".join(sentences(diagnose(Dataset.open(HERE / "reports-behind-reports"))))


def test_no_server_and_no_timer_is_blamed_for_what_clients_sent_slowly() -> None:
    found = diagnose(Dataset.open(HERE / "uploads-sent-slowly"))
    assert "A timer makes" not in " ".join(sentences(found))
    for episode in found.episodes:
        assert "Most of their time is what their clients took to send these requests." in episode.findings[4].sentence


def test_calls_that_failed_meanwhile_are_reported_where_the_cause_is_unknown() -> None:
    said = " ".join(sentences(diagnose(Dataset.open(HERE / "crash-recovery"))))
    assert "calls to postgres failed with the status error-57P03." in said


def test_the_answer_also_names_the_second_cause() -> None:
    found = diagnose(Dataset.open(HERE / "nx2"))
    second = " ".join(sentences(found))
    assert "other requests, the cause is another one: " in second
