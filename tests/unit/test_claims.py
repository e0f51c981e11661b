"""Diagnoses of few requests, of one, and of none: they claim nothing beyond the record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from builders import T0, events, requests, run, visits
from systems import MS, NX1, NX3, Memory, S, Slow, at, system
from tailrace.dataset import Connections, ServerConnections
from tailrace.diagnosis import Diagnosis, diagnose, settle
from tailrace.diagnosis.answer import sentences
from tailrace.diagnosis.tables import look
from tailrace.diagnosis.vlrt import SCHEDULES
from tailrace.report.info import describe, print_info
from tailrace.topology import Server, Topology

QUICK = 5 * MS


def one(begin: float, response: int = QUICK, *, lost: int = 0, data: int = 0, **more: Any) -> dict[str, Any]:
    """A request to web: `lost` is how long it took until its connection was accepted."""
    sent = at(begin)
    row = {"sent": sent, "connected": sent + lost, "end": sent + lost + response, "data_drops": data}
    return {**row, "drops": 1 if lost and not data else 0, "status": "ok", **more}


def memory(*rows: dict[str, Any], lost: tuple[tuple[str, float, float], ...] = ()) -> Memory:
    """These requests, with a visit of web each; and events of lost packets."""
    columns = ("first_byte", "interaction")
    stays = [
        {
            "request": i + 1,
            "sent": row["sent"],
            "arrival": row["sent"] if row["data_drops"] else row["connected"],
            "departure": row["end"],
            "drops": row["drops"],
            "data_drops": row["data_drops"],
            **{key: row[key] for key in columns if key in row},
        }
        for i, row in enumerate(rows)
        if row["status"] not in ("refused", "timeout")
    ]
    tables = {
        "requests": requests(*({k: v for k, v in row.items() if k != "first_byte"} for row in rows)),
        "visits": visits(*stays),
    }
    if lost:
        tables["events"] = events(
            *({"place": "web", "kind": kind, "begin": at(a), "end": at(b)} for kind, a, b in lost)
        )
    return Memory(Topology(servers=(Server(name="web", address="10.0.0.2:80", protocol="http"),)), tables)


def calm(number: int = 10, every: float = 0.8) -> list[dict[str, Any]]:
    return [one(every * n) for n in range(number)]


def chain(diagnosis: Diagnosis) -> tuple[str | None, str | None, str, str]:
    row = diagnosis.summary[0]
    return row.dropper, row.origin, row.cause, row.ctqo


def said(diagnosis: Diagnosis) -> str:
    findings = [f"{f.sentence} {f.missing or ''}" for e in diagnosis.episodes for f in e.findings]
    return " ".join([*diagnosis.answer, *findings, *(f"{gap.what} {gap.datum}" for gap in diagnosis.unknown)])


# Who dropped


def test_an_answered_attempt_was_not_dropped_by_the_server() -> None:
    """The SYN-ACK is lost, and sent again a second later."""
    found = diagnose(memory(*calm(), one(4.81, lost=S, data=1), lost=(("data_drop", 4.81, 5.81),)))
    assert chain(found) == (None, None, "packet-loss", "none")
    assert "a packet of it was lost on the way" in found.answer[0]
    for false in ("dropped", "overflowed", "attempts"):
        assert false not in found.answer[0]


def test_first_data_that_is_sent_again_was_lost_on_the_way() -> None:
    lost = (("data_drop", 4.81, 5.01), ("data_drop", 5.01, 5.41), ("data_drop", 5.41, 6.21))
    found = diagnose(memory(*calm(), one(4.81, 1405 * MS, data=3), lost=lost))
    assert chain(found) == (None, None, "packet-loss", "none")
    told = found.episodes[0].account
    assert told is not None
    assert told.lost_ns == pytest.approx(1.4 * S, abs=MS)


def test_the_place_of_a_loss_is_unknown_if_the_server_is_empty() -> None:
    found = diagnose(memory(*calm(), one(4.81, lost=S)))
    assert chain(found) == (None, None, "unknown", "unknown")
    assert found.episodes[0].findings[1].verdict == "unknown"
    assert [gap.datum for gap in found.unknown] == ["listen_drops of web"]
    assert "web dropped it or it was lost on the way is not known" in found.answer[0]


def test_a_long_queue_shows_the_dropper_without_kernel_counters() -> None:
    stalled = [one(2 + 0.01 * n, S - 10 * n * MS) for n in range(12)]
    dropped = [one(2.12 + 0.01 * n, lost=S) for n in range(18)]
    found = diagnose(memory(*calm(40, 0.02), *stalled, *dropped, *(one(5 + 0.02 * n) for n in range(40))))
    assert chain(found)[:2] == ("web", "web")
    drops = found.episodes[0].findings[1]
    assert "inferred from its queue: it held 12 requests" in drops.sentence
    assert drops.numbers["attempts_lost"] == 18


def test_losses_that_have_nothing_to_do_with_the_queue_name_no_dropper() -> None:
    """A filter in front of a server that often has several requests inside loses one connection attempt in 25."""
    rows = [one(0.02 * n, 60 * MS if n % 5 else 150 * MS, lost=S if n % 25 == 7 else 0) for n in range(400)]
    found = diagnose(memory(*rows))
    assert found.vlrt == 16
    assert {row.dropper for row in found.summary} == {None}


# How much of the time is accounted for


def test_a_loss_that_took_little_of_the_time_is_no_explanation_and_both_figures_are_given() -> None:
    found = diagnose(memory(*calm(), one(9, 90 * S, lost=3 * S)))
    assert chain(found) == (None, None, "unknown", "none")
    assert found.explained == 0.0
    told = found.episodes[0].account
    assert told is not None
    assert (told.lost_ns, told.unaccounted_ns, told.vlrt_unexplained) == (3 * S, 90 * S, 1)
    assert "3 s passed until a lost packet was sent again" in found.answer[1]
    assert "nothing recorded accounts for the other 90 s" in found.answer[1]
    assert "because" not in found.answer[0]


def test_time_after_the_first_byte_is_reported_as_such() -> None:
    slow = one(9, 38 * S, lost=S, data=1, first_byte=at(10.01))
    found = diagnose(memory(*calm(), slow, lost=(("data_drop", 9.0, 10.0),)))
    assert chain(found) == (None, None, "unknown", "none")
    assert "38 s passed after the first byte of its response" in found.answer[1]


def test_downloads_side_by_side_do_not_wait_for_each_other() -> None:
    rows = [one(9 + 0.01 * n, (2 + 5 * n) * S, first_byte=at(9.02 + 0.01 * n)) for n in range(6)]
    found = diagnose(memory(*calm(), *rows))
    assert chain(found) == (None, None, "unknown", "none")
    assert "could not keep up" not in said(found)
    assert "waiting in queues" not in said(found)


def test_the_parts_of_the_time_add_up() -> None:
    for recording in (
        system(Slow("app", 4.0, 4.6)),
        system(Slow("app", 4.0, 5.3), tiers=NX3),
        memory(*calm(), one(9, 2 * S)),
    ):
        for episode in diagnose(recording).episodes:
            told = episode.account
            assert told is not None
            parts = (told.lost_ns, told.queued_ns, told.transferred_ns, told.unaccounted_ns)
            assert sum(parts) == told.response_ns
            assert min(parts) >= 0
            for row in told.slowest:
                assert row.lost_ns + row.queued_ns + row.transferred_ns + row.unaccounted_ns == row.response_ns


def test_requests_dropped_in_a_stall_are_accounted_for() -> None:
    found = diagnose(system(Slow("app", 4.0, 4.6)))
    assert all(e.account is not None and e.account.vlrt_unexplained == 0 for e in found.episodes)


def test_requests_that_others_overtake_did_not_wait_in_a_queue() -> None:
    slow = [one(4.001 + 0.002 * n, (1500 + 150 * n) * MS) for n in range(6)]
    found = diagnose(memory(*calm(100, 0.1), *slow))
    assert {chain(found)} == {(None, None, "unknown", "none")}
    assert "queues" not in found.answer[0]
    assert "could not keep up" not in said(found)
    behind = [one(4.1 + 0.1 * n, (1500 - 100 * n) * MS) for n in range(12)]
    others = [row for row in calm(100, 0.1) if not at(4.05) <= row["sent"] <= at(5.6)]
    assert chain(diagnose(memory(*others, *slow, *behind)))[1] == "web"


# Sentences that are true of one request


def test_a_single_request_did_not_wait_in_a_queue() -> None:
    found = diagnose(memory(*calm(), one(4.01, 1800 * MS)))
    assert chain(found) == (None, None, "unknown", "none")
    assert found.answer == (
        "1 of 11 requests (9 %) took 1.8 s instead of 5 ms; no packet of it was lost on the way to a server.",
        "No queue rose that it waited in; it spent the most time in web.",
    )
    assert "queues" not in found.answer[0]


def test_few_values_are_given_and_not_interpolated() -> None:
    found = diagnose(memory(*calm(), one(9, 1490 * MS), one(9.1, 39 * S)))
    assert "took 1.49 s and 39 s" in found.answer[0]
    assert "took 1.49 s and 39 s" in found.episodes[0].findings[0].sentence
    assert "percentile" not in said(found)
    many = diagnose(system(Slow("app", 4.0, 4.6)))
    assert "5th to 95th percentile" in many.episodes[0].findings[0].sentence


def test_many_equal_times_are_one_value() -> None:
    found = diagnose(memory(*calm(40), *(one(40 + 0.5 * n, lost=S) for n in range(25))))
    assert {episode.vlrt for episode in found.episodes} == {25}
    assert "took 1 s each;" in found.episodes[0].findings[0].sentence


def test_only_lost_connection_attempts_are_called_so() -> None:
    found = diagnose(system(Slow("app", 4.0, 4.6)))
    assert "dropped their connection attempts, which were sent again" in found.answer[0]
    tables = system(Slow("app", 4.0, 4.6)).tables
    data = {
        name: tables[name].with_columns(data_drops=pl.when(pl.col("drops") > 0).then(1).otherwise(0).cast(pl.UInt8))
        for name in ("requests", "visits")
    }
    mixed = diagnose(Memory(Topology(), {**tables, **data}))
    assert "dropped their packets" in mixed.answer[0]


def test_the_senders_schedule_is_not_inferred_from_times_that_no_loss_made() -> None:
    rows = [one(0.8 * n, 3 * S if n % 3 == 1 else QUICK) for n in range(60)]
    found = diagnose(memory(*rows))
    assert all(mode.retransmission_ns is None for mode in found.modes)
    assert not any("schedule" in note for note in found.notes)


def test_a_plateau_elsewhere_is_no_limit_of_a_queue_that_did_not_get_there() -> None:
    """web is held at its limit in the first stall; in the second, app is slow for less long and web does not fill."""
    found = diagnose(system(Slow("app", 4.0, 4.8), Slow("app", 9.0, 10.1), tiers=NX3, seconds=14.0))
    for episode in found.episodes:
        for step in episode.wave:
            if step.limit_source == "plateau":
                assert step.queue_max is not None
                assert step.queue_length_max >= step.queue_max * 0.97 - 1


# Missing answers


def test_requests_without_an_answer_are_counted_with_their_server() -> None:
    refused = [one(0.1 * n, status="refused", connected=None) for n in range(7)]
    found = diagnose(memory(*calm(), *refused))
    assert found.vlrt == 0
    assert "7 of 17 requests were refused by web." in found.answer
    assert [(u.server, u.how, u.requests) for u in found.unanswered] == [("web", "refused", 7)]


def test_info_counts_requests_without_an_answer(tmp_path: Path) -> None:
    rows = [{"sent": T0 + n * MS, "end": T0 + (n + 1) * MS, "status": "refused"} for n in range(7)]
    folder = run(tmp_path / "run", requests=requests({}, *rows))
    told = describe(folder)["unanswered"]
    assert told == [{"server": "web", "status": "refused", "requests": 7, "longest_ns": MS}]
    with (console := Console(width=100)).capture() as printed:
        print_info(folder, console)
    assert "not answered: web: 7 refused, the longest after 1 ms" in printed.get()


def test_what_is_under_way_at_the_end_is_counted_where_clients_sent_it() -> None:
    hung = {"web": ServerConnections(attempts=22, under_way=2, under_way_longest_ns=300 * S)}
    calls = {**hung, "app": ServerConnections(under_way=1)}
    found = diagnose(replace(system(), connections=Connections(calls)))
    assert [(u.server, u.how, u.requests, u.longest_ns) for u in found.unanswered] == [("web", "under-way", 2, 300 * S)]
    assert "under way at web when the recording ended, the longest after 5 min" in found.answer[1]


def test_connection_attempts_without_an_answer_at_the_end_are_not_at_the_server() -> None:
    waiting = {"web": ServerConnections(attempts=22, attempts_under_way=3)}
    found = diagnose(replace(system(), connections=Connections(waiting)))
    assert [(u.server, u.how, u.requests) for u in found.unanswered] == [("web", "connecting", 3)]
    assert "requests were waiting for a connection to web when the recording ended" in found.answer[1]


def test_a_hedged_copy_that_is_given_up_is_not_unanswered() -> None:
    pair = {"client": 1, "interaction": "page"}
    first = one(9.0, 400 * MS, **pair)
    second = one(9.3, 100 * MS, status="abandoned", **pair)
    assert diagnose(memory(*calm(), first, second)).unanswered == ()
    alone = diagnose(memory(*calm(), one(9.0, 400 * MS, status="abandoned", **pair)))
    assert [(u.how, u.requests) for u in alone.unanswered] == [("abandoned", 1)]


# Retransmission schedules and replays


def test_a_schedule_is_reported_only_as_far_as_the_recorded_waits_distinguish_it() -> None:
    """After 1 s, both schedules send again; after 2 s more, only one does."""
    fits = "The retransmission schedule of the sender that fits this recording: "
    linear, doubling = (name for name, times in SCHEDULES.items() if times[0] == S)
    once = diagnose(memory(*calm(), *(one(9 + 2 * n, lost=S) for n in range(3))))
    assert f"{fits}{linear} or {doubling}." in once.notes
    later = (one(20 + 4 * n, lost=3 * S) | {"drops": 2} for n in range(3))
    both = diagnose(memory(*calm(), *(one(9 + 2 * n, lost=S) for n in range(3)), *later))
    assert f"{fits}{doubling}." in both.notes


def test_the_usual_response_time_is_one_that_a_request_had() -> None:
    found = diagnose(memory(one(0, 4 * MS), one(3, 1700 * MS)))
    assert "took 1.7 s instead of 4 ms" in found.answer[0]


def test_the_replay_of_few_requests_is_described_by_their_number() -> None:
    (episode,) = diagnose(memory(one(0, lost=S))).episodes
    assert episode.ledger is not None
    assert episode.ledger.sentence.endswith("the replay has 0 of 1 very long request.")


# A time that a timer makes


def test_requests_that_take_the_same_time_whenever_they_are_sent_waited_for_a_timer() -> None:
    rows = [one(0.7 * n, 5003 * MS + (n % 4) * MS if n % 5 == 2 else QUICK) for n in range(60)]
    found = diagnose(memory(*rows))
    assert [(c.requests, c.place, c.retransmission) for c in found.constants] == [(12, "web", False)]
    assert found.constants[0].response_ns == pytest.approx(5 * S, rel=0.01)
    assert found.answer[1].startswith("All took 5 s to 5.01 s, whenever they were sent.")
    assert "a timeout in or behind web" in found.answer[1]
    assert {row.origin for row in found.summary} == {None}


def test_a_timer_is_reported_if_many_requests_wait_for_it_simultaneously() -> None:
    rows = [one(9 + 0.3 * n, 5 * S + n * MS) for n in range(15)]
    found = diagnose(memory(*calm(), *rows, *(one(20 + 0.1 * n) for n in range(40))))
    assert [c.requests for c in found.constants] == [15]
    assert {(row.origin, row.cause) for row in found.summary} == {(None, "unknown")}


def test_transfers_of_the_same_length_waited_for_no_timer() -> None:
    rows = [one(9 + 0.3 * n, 4 * S + n * MS, first_byte=at(9.01 + 0.3 * n)) for n in range(15)]
    found = diagnose(memory(*calm(), *rows))
    assert found.constants == ()
    assert "timer" not in said(found)


@pytest.mark.parametrize("tiers", [NX1, NX3], ids=["dropped", "queued"])
def test_requests_that_end_together_waited_for_no_timer(tiers: Any) -> None:
    assert diagnose(system(Slow("app", 4.0, 5.4), tiers=tiers)).constants == ()


def test_a_constant_time_of_a_first_retransmission_may_be_one() -> None:
    rows = [one(0.7 * n, 3 * S + 5 * MS if n % 5 == 2 else QUICK) for n in range(60)]
    assert diagnose(memory(*rows)).constants[0].retransmission


# What would settle it


@pytest.mark.parametrize(
    ("name", "protocol", "wanted"),
    [
        ("php-fpm8.2", None, False),
        ("node", "http", False),
        ("gunicorn", "http", False),
        ("db", "mysql", False),
        ("cache", "redis", False),
        ("app", "http", True),
        ("app", "ajp", True),
    ],
)
def test_a_jvm_log_is_requested_only_of_possible_jvms(name: str, protocol: str | None, wanted: bool) -> None:
    view = look(Memory(Topology(servers=(Server(name=name, protocol=protocol),))), 50 * MS)
    asked = settle.unseen_collections(view, name)
    assert (asked is not None) == wanted
    if asked is not None:
        assert ("if it is a JVM" in asked) == (protocol != "ajp")


def test_a_quota_is_not_suggested_for_a_group_recorded_without_one() -> None:
    recorded = system(Slow("app", 4.0, 4.6)).sample("host", "syn_queue_drops", 0.0)
    assert settle.has_no_quota(look(recorded, 50 * MS), "app")
    assert not settle.has_no_quota(look(recorded.sample("app", "cpu_throttled", 0.0), 50 * MS), "app")
    assert not settle.has_no_quota(look(system(), 50 * MS), "app")


def test_existing_samples_are_not_suggested() -> None:
    recorded = system(Slow("app", 4.0, 4.6)).sample("app", "cpu_steal", 0.0)
    view = look(recorded, 50 * MS)
    asked = settle.samples(view, "app", at(4.0), at(4.6), ("cpu_busy", "cpu_steal", "psi_io"))
    assert asked is not None
    assert asked.startswith("psi_io of app")
    assert settle.samples(view, "app", at(4.0), at(4.6), ("cpu_busy", "cpu_steal")) is None


def test_the_requested_examples_can_be_read() -> None:
    """Captures, samples, logs of JVMs: there are no readers of anything else."""
    for recording in (Memory(Topology()), system(Slow("app", 4.0, 4.6)).without("samples", "visits")):
        for gap in diagnose(recording).unknown:
            assert "trace" not in gap.datum
            assert "access log" not in gap.datum


def test_existing_visits_are_not_suggested() -> None:
    found = diagnose(memory(*calm(), one(4.81, lost=S)))
    assert "visits" not in said(found)


def test_a_burst_that_has_no_place_came_to_the_origin() -> None:
    found = diagnose(system(bursts=((4.0, 4.4, 2500),)))
    episodes = tuple(replace(e, causes=tuple(replace(c, place=None) for c in e.causes)) for e in found.episodes)
    answer = " ".join(sentences(replace(found, episodes=episodes)))
    assert "more requests came at once than" in answer
    assert "None" not in answer
