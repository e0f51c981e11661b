"""The chain, step by step, on systems whose truth the test sets."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from builders import T0, visits
from systems import MS, NX1, NX2, NX3, Memory, S, Slow, Tier, at, system
from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import Diagnosis, Episode, Finding, chain, diagnose
from tailrace.diagnosis.tables import look
from tailrace.experiment import from_table
from tailrace.topology import Server, Topology


@cache
def app_stopped() -> Memory:
    return system(Slow("app", 4.0, 4.6))


def step(diagnosis: Diagnosis, name: str) -> Finding:
    return next(f for f in diagnosis.episodes[0].findings if f.step == name)


def step_of(episode: Episode, name: str) -> Finding:
    return next(finding for finding in episode.findings if finding.step == name)


def only(diagnosis: Diagnosis) -> tuple[str | None, str | None, str]:
    """The chain of most VLRT requests."""
    row = diagnosis.summary[0]
    return row.dropper, row.origin, row.ctqo


# Nothing to explain


def test_a_calm_system_has_nothing_to_explain_and_nothing_is_claimed() -> None:
    diagnosis = diagnose(system())
    assert diagnosis.vlrt == 0
    assert diagnosis.episodes == ()
    assert diagnosis.summary == ()
    assert diagnosis.explained == 1.0
    assert len(diagnosis.answer) == 1
    assert "None of the" in diagnosis.answer[0]


def test_an_empty_recording_says_that_there_are_no_requests() -> None:
    diagnosis = diagnose(Memory(Topology()))
    assert diagnosis.requests == 0
    assert diagnosis.unknown
    assert "no finished requests" in diagnosis.answer[0]


# The dropper and the origin


def test_what_no_kernel_refused_was_lost_on_its_way_and_no_queue_overflowed() -> None:
    asked = diagnose(app_stopped().sample("web", "listen_drops", 0.0))
    assert {(row.dropper, row.origin, row.cause) for row in asked.summary} >= {(None, None, "packet-loss")}
    assert step(asked, "overflow").verdict == "absent"
    assert "packets of theirs were lost on the way" in asked.answer[0]
    counted = diagnose(app_stopped().sample("web", "listen_drops", 0.0, (4.0, 4.7, 5.0)))
    assert only(counted) == ("web", "app", "upstream")
    unanswered = app_stopped().sample("web", "listen_drops", 5.0).sample("web", "listen_overflows", 0.0)
    assert {row.cause for row in diagnose(unanswered).summary} >= {"packet-loss"}
    elsewhere = diagnose(app_stopped().sample("db", "listen_drops", 0.0))
    assert only(elsewhere) == ("web", "app", "upstream")


@pytest.mark.parametrize(
    ("stall", "tiers", "chain"),
    [
        (Slow("app", 4.0, 4.6), None, ("web", "app", "upstream")),
        (Slow("db", 4.0, 4.6), None, ("web", "db", "upstream")),
        (Slow("web", 4.0, 4.6), None, ("web", "web", "local")),
        (Slow("app", 4.0, 4.6), NX1, ("app", "app", "downstream")),
        (Slow("db", 4.0, 4.6), NX1, ("app", "db", "upstream")),
        (Slow("app", 4.0, 4.6), NX2, ("db", "app", "downstream")),
        (Slow("app", 4.0, 5.3), NX3, (None, "app", "none")),
    ],
    ids=lambda value: value.server if isinstance(value, Slow) else None,
)
def test_the_chain_leads_from_the_dropper_to_the_origin(stall: Slow, tiers: object, chain: tuple[object, ...]) -> None:
    memory = system(stall) if tiers is None else system(stall, tiers=tiers)  # type: ignore[arg-type]
    assert only(diagnose(memory)) == chain


def test_a_short_queue_that_overflows_soon_was_pushed_back_all_the_same() -> None:
    """Nineteen places of web fill in 32 ms at the usual rate."""
    tiers = (Tier("web", 0.5, ("db",), 12, 6), Tier("db", 0.6))
    assert only(diagnose(system(Slow("db", 4.0, 4.2), tiers=tiers, rate=600))) == ("web", "db", "upstream")


@pytest.mark.parametrize("begin", [4.3, 4.6, 4.9])
def test_a_server_that_stands_still_when_it_overflows_was_not_flooded(begin: float) -> None:
    """app works off its queue when db stops."""
    tiers = (Tier("web", 0.2, ("app",)), Tier("app", 1.2, ("db",)), Tier("db", 0.4, (), 60, 40))
    assert only(diagnose(system(Slow("app", 3.5, 4.2), Slow("db", begin, begin + 0.6), tiers=tiers))) == (
        "db", "db", "downstream",
    )  # fmt: skip


@pytest.mark.parametrize("begin", [3.78, 3.82, 3.86])
def test_a_hiccup_shortly_before_the_stall_does_not_hide_where_it_began(begin: float) -> None:
    found = only(diagnose(system(Slow("app", begin, begin + 0.05), Slow("app", 4.0, 4.6), rate=700.0)))
    assert found == ("web", "app", "upstream")


def test_an_overload_older_than_the_recording_has_no_known_origin() -> None:
    memory = app_stopped()
    later = {
        "visits": memory.tables["visits"].filter(pl.col("arrival") >= at(4.45)),
        "requests": memory.tables["requests"].filter(pl.col("sent") >= at(4.45)),
    }
    asked = diagnose(Memory(memory.topology, {**memory.tables, **later}))
    assert only(asked) == ("web", None, "unknown")
    overflow = step(asked, "overflow")
    assert (overflow.verdict, overflow.missing) == ("unknown", "a recording that begins before the overload")
    assert overflow.numbers["older_than_recording"] is True
    assert "was there when the recording began" in asked.answer[1]
    assert step(asked, "cause").missing == overflow.missing


@pytest.mark.parametrize("place", ["app", "elsewhere", None])
def test_each_unknown_finding_names_a_datum_that_would_settle_it(place: str | None) -> None:
    memory = app_stopped()
    found = diagnose(memory).episodes[0]
    nothing = tuple(replace(finding, verdict="unknown", missing=None) for finding in found.findings)
    told = chain._with_data(look(memory, 50 * MS), replace(found, findings=nothing), place)
    assert all(finding.missing and (place or "visits") in finding.missing for finding in told.findings)
    assert chain._with_data(look(memory, 50 * MS), found, place) == found


@pytest.mark.parametrize("rate", [1000.0, 1400.0])
def test_an_overload_that_lasts_for_the_whole_recording_began_where_the_queue_is_full(rate: float) -> None:
    """app answers 833/s at most."""
    asked = diagnose(system(rate=rate))
    assert only(asked) == ("web", "app", "upstream")
    overflow, stall, cause = (step(asked, name) for name in ("overflow", "millibottleneck", "cause"))
    assert overflow.numbers["lasting"] is True
    assert "The queue of app was held at 60" in asked.answer[1]
    assert (stall.verdict, "CPU saturated" in stall.sentence) == ("found", True)
    assert cause.verdict == "unknown"
    assert cause.missing is not None
    assert cause.missing.startswith("a recording that begins before the overload")


@pytest.mark.parametrize("begins", [3.98, 4.04])
def test_an_overload_soon_after_the_begin_has_a_known_origin(begins: float) -> None:
    """app stands still from 4.0 s on, and web overflows 0.2 s later."""
    memory = app_stopped()
    later = {
        "visits": memory.tables["visits"].filter(pl.col("arrival") >= at(begins)),
        "requests": memory.tables["requests"].filter(pl.col("sent") >= at(begins)),
    }
    asked = diagnose(Memory(memory.topology, {**memory.tables, **later}))
    assert only(asked) == ("web", "app", "upstream")


def test_a_batch_that_opens_the_recording_is_no_overload_from_before_it() -> None:
    """The first packet is lost when those that fill the queue are still on their way."""
    memory = system(bursts=((0.0, 0.15, 4000),), rate=300)
    latency = pl.when(pl.col("caller") == "client").then(MS // 5).otherwise(0)
    lost = memory.tables["visits"].filter(pl.col("drops") > 0)["sent"].min()
    together = pl.when(pl.col("sent") < lost).then(lost).otherwise("sent")  # type: ignore[type-var]
    first = {
        "visits": memory.tables["visits"].with_columns(
            sent=pl.when(pl.col("caller") == "client").then(together).otherwise("sent"),
            arrival=pl.max_horizontal("arrival", together) + latency,
        ),
        "requests": memory.tables["requests"].with_columns(sent=together),
    }
    assert only(diagnose(Memory(memory.topology, {**memory.tables, **first})))[1] is not None


def test_a_client_that_repeats_its_data_is_inside_when_it_is_served() -> None:
    table = visits(
        {"visit": 1, "request": 1, "server": "web", "sent": 0, "arrival": 0, "departure": 9 * S, "data_drops": 5},
        {"visit": 2, "parent": 1, "server": "app", "sent": 8 * S, "arrival": 8 * S, "departure": 8 * S + MS},
        {"visit": 3, "request": 3, "server": "web", "sent": S, "arrival": S, "departure": 9 * S},
    )
    stays = look(Memory(Topology(), {"visits": table}), 50 * MS).stays
    assert stays["web"].arrivals.tolist() == [S, 8 * S]


def test_without_samples_the_chain_reaches_the_third_step_and_says_what_the_fourth_needs() -> None:
    diagnosis = diagnose(app_stopped().without("samples"))
    assert only(diagnosis) == ("web", "app", "upstream")
    assert [f.verdict for f in diagnosis.episodes[0].findings] == ["found", "found", "found", "unknown", "unknown"]
    missing = step(diagnosis, "millibottleneck").missing
    assert missing is not None
    for datum in ("cpu_busy", "app", "4.0", "or finer"):
        assert datum in missing
    assert diagnosis.explained == 0.0
    assert {u.datum for u in diagnosis.unknown} >= {missing}


def test_samples_that_cannot_be_joined_are_named_with_the_option_that_joins_them() -> None:
    memory = app_stopped()
    renamed = memory.tables["samples"].with_columns(place=pl.col("place") + "-box")
    diagnosis = diagnose(Memory(memory.topology, {**memory.tables, "samples": renamed}))
    assert "--place" in (step(diagnosis, "millibottleneck").missing or "")


def test_samples_too_far_apart_are_no_evidence() -> None:
    memory = app_stopped().without("samples").sample("app", "cpu_busy", 0.6, step_ms=1000)
    finding = step(diagnose(memory), "millibottleneck")
    assert finding.verdict == "unknown"
    assert "too far apart" in finding.sentence


def test_visits_alone_give_the_stall_its_time() -> None:
    finding = step(diagnose(app_stopped().without("samples")), "millibottleneck")
    assert finding.begin == pytest.approx(at(4.0), abs=50 * MS)
    assert finding.end == pytest.approx(at(4.6), abs=60 * MS)


def test_the_recovery_is_not_part_of_the_stall() -> None:
    """app saturates its CPU while it works off its backlog, after the stall."""
    memory = system(Slow("app", 4.0, 4.8, speed=0.2, cpu=0.2))
    finding = step(diagnose(memory), "millibottleneck")
    assert finding.end == pytest.approx(at(4.8), abs=60 * MS)
    assert finding.numbers["cpu_withheld_median"] == pytest.approx(0.2, abs=0.05)


def test_the_wave_is_reported_in_the_order_in_which_the_queues_rose() -> None:
    wave = diagnose(app_stopped()).episodes[0].wave
    assert [p.server for p in wave][:2] == ["app", "web"]
    assert wave[0].rise < wave[1].rise
    assert (wave[0].queue_max, wave[0].limit_source) == (60, "plateau")
    assert wave[1].queue_max == pytest.approx(101, abs=2)


def sampled(**how: object) -> Memory:
    memory = app_stopped()
    servers = tuple(
        server.model_copy(update={"workers": 60, "backlog": 40, **how}) for server in memory.topology.servers
    )
    return Memory(memory.topology.model_copy(update={"servers": servers}), memory.tables)


def test_the_queues_of_sampled_visits_are_scaled_with_their_error() -> None:
    whole, part = (diagnose(sampled(kept=share)).episodes[0] for share in (1.0, 0.25))
    assert [step.queue_length_error for step in whole.wave] == [0] * len(whole.wave)
    assert "±" not in step_of(whole, "overflow").sentence
    for seen, step in zip(whole.wave, part.wave, strict=True):
        assert step.queue_length_max == 4 * seen.queue_length_max
        # √(k(1-p))/p with k = seen and p = ¼ is √(12 k).
        assert step.queue_length_error == math.ceil(1.96 * math.sqrt(12 * seen.queue_length_max))
        assert step.full is None, "whether it was full is unknown"
    finding = step_of(part, "overflow")
    assert "A sampler kept 25.000% of the traces" in finding.sentence
    assert (
        f"(up to {part.wave[0].queue_length_max:,} ± {part.wave[0].queue_length_error:,} requests" in finding.sentence
    )


def test_a_plateau_of_sampled_visits_is_no_limit() -> None:
    memory = app_stopped()
    servers = tuple(server.model_copy(update={"kept": 0.5}) for server in memory.topology.servers)
    wave = diagnose(Memory(memory.topology.model_copy(update={"servers": servers}), memory.tables)).episodes[0].wave
    assert {(step.queue_max, step.limit_source) for step in wave} == {(None, "unknown")}


def test_requests_that_a_tail_sampler_chose_show_no_queues_and_the_finding_says_why() -> None:
    memory = sampled(chosen=True)
    tables = {name: table for name, table in memory.tables.items() if name != "visits"}
    finding = step(diagnose(Memory(memory.topology, tables)), "overflow")
    assert (finding.verdict, "tail sampling" in finding.sentence) == ("unknown", True)


def test_a_limit_that_is_known_is_not_inferred() -> None:
    memory = app_stopped()
    servers = tuple(
        s.model_copy(update={"workers": 60, "backlog": 40}) if s.name == "web" else s for s in memory.topology.servers
    )
    known = Memory(memory.topology.model_copy(update={"servers": servers}), memory.tables)
    wave = {p.server: p for p in diagnose(known).episodes[0].wave}
    assert (wave["web"].queue_max, wave["web"].limit_source) == (101, "topology")


def test_a_caller_known_to_block_makes_an_overflow_behind_it_local() -> None:
    memory = system(Slow("app", 4.0, 4.6), tiers=NX1)
    servers = (Server(name="web", kind="sync"), *memory.topology.servers[1:])
    blocking = Memory(memory.topology.model_copy(update={"servers": servers}), memory.tables)
    assert only(diagnose(blocking))[2] == "local"


def test_a_server_without_open_calls_does_not_wait_although_its_connections_are_held() -> None:
    """Visits of app hold a connection from their first call to their end, and lack the CPU to make the next one."""
    starved = system(Slow("app", 4.0, 4.6, speed=0.01, cpu=0.01))
    diagnosis = diagnose(starved.sample("app", "pool_waiting", 0, (4.0, 4.6, 5)))
    assert only(diagnosis) == ("web", "app", "upstream")


def test_some_requests_of_an_episode_are_dropped_and_others_only_wait() -> None:
    diagnosis = diagnose(system(Slow("app", 4.0, 5.6)))
    rows = {row.dropper: row for row in diagnosis.summary}
    assert set(rows) == {"web", None}
    assert rows[None].ctqo == "none"
    assert sum(row.vlrt for row in diagnosis.summary) == diagnosis.vlrt


def test_packets_that_come_back_together_and_overflow_again_belong_to_the_first_episode() -> None:
    memory = app_stopped()
    slow = memory.tables["requests"].filter(pl.col("end") - pl.col("sent") > 950 * MS)
    assert int(slow["sent"].max()) - at(4.6) > 300 * MS  # type: ignore[operator, arg-type]
    assert len(diagnose(memory).episodes) == 1


def test_two_stalls_are_two_episodes() -> None:
    diagnosis = diagnose(system(Slow("app", 3.0, 3.5), Slow("app", 7.0, 7.5)))
    assert len(diagnosis.episodes) == 2
    assert [e.origin for e in diagnosis.episodes] == ["app", "app"]


def test_successive_stalls_of_two_servers_are_separate_episodes() -> None:
    """The requests of one come before those of the other are over; those of each lie well apart."""
    tiers = (Tier("web", 0.1, ("app1", "app2")), Tier("app1", 1.2, (), 40, 20), Tier("app2", 1.2, (), 40, 20))
    stalls = [Slow(f"app{n % 2 + 1}", 3.0 + n * 0.7, 3.5 + n * 0.7) for n in range(4)]
    found = diagnose(system(*stalls, tiers=tiers, rate=500, seconds=14.0, schedule=(3 * S, 9 * S, 21 * S)))
    assert [e.origin for e in found.episodes] == ["app1", "app2", "app1", "app2"]


def test_the_origin_is_reported_even_if_stalls_are_as_frequent_as_pauses() -> None:
    """Four servers run at a tenth of their clock rate for 1.1 s in every 2.8 s, one after the other: there is no calm
    time, and no queue rises above its level of a third of the time."""
    names = ("app1", "app2", "app3", "app4")
    steps = {
        name: [(0.5 + (k + j * 4) * 0.7, 1.6 + (k + j * 4) * 0.7) for j in range(7)] for k, name in enumerate(names)
    }
    slow = (Slow(name, *step, speed=0.1, cpu=1.0) for name in names for step in steps[name])
    tiers = (Tier("web", 0.05, names), *(Tier(name, 3.0) for name in names))
    memory = system(*slow, tiers=tiers, rate=600, seconds=20.0)
    for name in names:
        memory = memory.sample(name, "cpu_hz", 2.0e9, *((*step, 0.2e9) for step in steps[name]))
    found = diagnose(memory)
    assert all(e.origin in names for e in found.episodes)
    assert sum(e.vlrt for e in found.episodes if e.cause == "frequency-step") > 0.9 * found.vlrt > 500


def test_a_batch_together_with_repeated_packets_is_a_burst() -> None:
    """Repeated packets fill the queue first; most of the requests belong to the batch 120 ms later."""
    batches = ((4.0, 4.01, 40_000), (7.12, 7.14, 15_000))
    tiers = (Tier("app", 1.2, (), 60, 40),)
    found = diagnose(system(tiers=tiers, rate=400, bursts=batches, seconds=14.0, schedule=(3 * S, 9 * S, 21 * S)))
    assert [(e.origin, e.cause) for e in found.episodes] == [("app", "workload-burst")] * 2


# Drops that were not recorded


def requests_only(memory: Memory, *, connected: bool = False) -> Memory:
    """The content of a client's access log."""
    requests = memory.tables["requests"].with_columns(drops=pl.lit(0))
    return Memory(Topology(), {"requests": requests if connected else requests.drop("connected")})


@pytest.mark.parametrize("schedule", [(1, 2, 3, 4), (1, 3, 7, 15), (3, 9, 21)], ids=str)
def test_unrecorded_drops_show_as_modes_at_the_senders_schedule(schedule: tuple[int, ...]) -> None:
    memory = system(Slow("app", 4.0, 4.6), schedule=tuple(s * S for s in schedule), seconds=16)
    finding = step(diagnose(requests_only(memory)), "drops")
    assert finding.verdict == "found"
    assert "Indirect" in finding.sentence


def test_times_that_are_all_an_eighth_beyond_a_schedule_are_not_those_of_drops() -> None:
    """Reports take 1.12 s each, and two rounds of them 2.24 s."""
    requests = requests_only(system(Slow("app", 4.0, 4.6))).tables["requests"].sort("sent")
    took = pl.when(pl.col("end") - pl.col("sent") < S).then(pl.col("end") - pl.col("sent"))
    reports = pl.Series(np.resize([1120, 1125, 2240], len(requests)) * MS)
    requests = requests.with_columns(end=pl.col("sent") + took.otherwise(reports))
    finding = step(diagnose(Memory(Topology(), {"requests": requests})), "drops")
    assert finding.verdict == "unknown"


def test_unrecorded_waiting_is_not_called_a_drop() -> None:
    finding = step(diagnose(requests_only(system(Slow("app", 4.0, 5.6), tiers=NX3))), "drops")
    assert finding.verdict == "unknown"
    assert finding.missing is not None


def test_a_kernel_counter_shows_the_dropper_if_packets_do_not() -> None:
    memory = app_stopped()
    visits = memory.tables["visits"].with_columns(drops=pl.lit(0))
    requests = memory.tables["requests"].with_columns(drops=pl.lit(0)).drop("connected")
    counted = Memory(memory.topology, {**memory.tables, "visits": visits, "requests": requests}).sample(
        "web", "listen_drops", 0.0, (4.2, 4.6, 25.0)
    )
    diagnosis = diagnose(counted)
    assert diagnosis.episodes[0].dropper == "web"
    assert step(diagnosis, "drops").numbers["listen_drops"] == pytest.approx(200, abs=30)


def test_a_heavy_request_without_any_queue_is_left_unexplained() -> None:
    memory = system()
    heavy = {"request": 999_999, "server": "web", "sent": T0 + 3 * S, "connected": T0 + 3 * S, "end": T0 + 5 * S}
    row = pl.DataFrame([{**heavy, "drops": 0, "status": "ok", "data_drops": 0}])
    requests = pl.concat([memory.tables["requests"], row], how="diagonal_relaxed")
    diagnosis = diagnose(Memory(memory.topology, {**memory.tables, "requests": requests}))
    assert diagnosis.vlrt == 1
    assert (diagnosis.summary[0].dropper, diagnosis.summary[0].origin, diagnosis.summary[0].cause) == (
        None,
        None,
        "unknown",
    )


# Threshold and modes


def test_the_threshold_is_the_given_one() -> None:
    diagnosis = diagnose(app_stopped(), threshold_ns=300 * MS)
    assert diagnosis.threshold_ns == 300 * MS
    assert diagnosis.vlrt > diagnose(app_stopped()).vlrt


def answered_in(*times: np.ndarray) -> Memory:
    """Requests to a server, which took so long in nanoseconds."""
    response = np.concatenate(times).astype(np.int64)
    sent = T0 + np.arange(len(response)) * 3 * MS
    requests = pl.DataFrame({"request": range(len(response)), "sent": sent, "end": sent + response}).with_columns(
        server=pl.lit("web"), status=pl.lit("ok"), drops=pl.lit(0), data_drops=pl.lit(0)
    )
    return Memory(Topology(), {"requests": requests})


def test_the_threshold_moves_into_a_gap_rather_than_cut_a_mode() -> None:
    rng = np.random.default_rng(3)
    diagnosis = diagnose(answered_in(rng.uniform(1e6, 1.2e9, 3000), rng.uniform(3.0e9, 3.2e9, 500)))
    assert 1.2e9 < diagnosis.threshold_ns < 3.0e9
    assert diagnosis.vlrt == 500


def test_the_threshold_stays_where_it_cuts_no_mode_though_a_gap_beyond_is_wider() -> None:
    """Packets were sent again after 1 s and 3 s. Between the usual requests and the first of them, the gap is smaller
    than between these two."""
    rng = np.random.default_rng(3)
    modes = rng.uniform(1e6, 0.6e9, 3000), rng.uniform(1.0e9, 1.3e9, 500), rng.uniform(3.0e9, 3.2e9, 500)
    diagnosis = diagnose(answered_in(*modes))
    assert diagnosis.threshold_ns == 950 * MS
    assert diagnosis.vlrt == 1000


def test_the_threshold_cuts_a_mode_of_times_that_are_not_usual() -> None:
    """Most requests took 1 to 50 ms, some waited in queues for up to 1.2 s, and packets were sent again after 3 s."""
    rng = np.random.default_rng(3)
    usual, waited, sent_again = (1e6, 5e7, 3000), (5e7, 1.2e9, 500), (3.0e9, 3.2e9, 500)
    diagnosis = diagnose(answered_in(*(rng.uniform(*mode) for mode in (usual, waited, sent_again))))
    assert diagnosis.threshold_ns == 950 * MS
    assert diagnosis.vlrt > 550


@pytest.mark.parametrize(("schedule", "lost"), [((1, 2, 3, 4), [1, 2]), ((3, 9, 21), [1, 2])], ids=str)
def test_modes_sit_at_the_schedule_of_the_sender(schedule: tuple[int, ...], lost: list[int]) -> None:
    memory = system(Slow("app", 4.0, 5.9), schedule=tuple(s * S for s in schedule), seconds=20, rate=400)
    modes = {m.attempts_lost: m for m in diagnose(memory).modes if m.attempts_lost}
    assert 1 in modes
    assert modes[1].retransmission_ns == pytest.approx(schedule[0] * S, rel=0.05)
    assert set(modes) <= set(lost) | {3}


def test_every_request_is_in_the_histogram_once() -> None:
    diagnosis = diagnose(app_stopped())
    assert sum(n for _, _, n in diagnosis.histogram) == diagnosis.requests
    assert all(a[1] <= b[0] for a, b in zip(diagnosis.histogram, diagnosis.histogram[1:], strict=False))


def test_a_request_among_repeated_packets_does_not_wait_downstream(tmp_path: Path) -> None:
    """Most packets of a batch are lost, and are repeated at one moment: web overflows before db has noticed."""
    system = {
        "duration": "30 s",
        "ramp": "2 s",
        "kernel": {"syn": ["3 s", "9 s", "21 s"]},
        "nodes": {"db": {"governor": {}}},
        "tiers": {"web": {"workers": 25, "backlog": 20, "calls": ["db"]}, "db": {}},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"query": 1}}}},
            "query": {"at": {"db": {"compute": "1 ms"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 400, "interaction": "page"},
            "waves": {"kind": "batch", "size": 250, "first": "4.3 s", "every": "5.1 s", "interaction": "page"},
        },
    }
    sim.simulate(from_table(system), tmp_path / "run")
    found = diagnose(Dataset.open(tmp_path / "run"))
    assert len(found.episodes) > 10
    most, *rest = found.summary
    assert (most.dropper, most.origin, most.ctqo) == ("web", "web", "local")
    assert sum(row.vlrt for row in rest) < 0.02 * found.vlrt
