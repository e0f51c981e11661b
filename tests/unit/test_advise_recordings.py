"""Advice for a recording: from its twin, if that repeats the recording."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tailrace import advise, sim, twin
from tailrace.advise import facts, recordings
from tailrace.advise.advising import MORE_REQUESTS
from tailrace.advise.answer import sentences
from tailrace.advise.cautions import cautious
from tailrace.advise.changing import changed
from tailrace.advise.loads import scaled, surged
from tailrace.advise.outcomes import questions
from tailrace.advise.ranking import finals, present
from tailrace.advise.remedies import newest, policy
from tailrace.advise.sizing import sized
from tailrace.advise.trials import Trials
from tailrace.dataset import Dataset
from tailrace.experiment import Experiment, from_table
from tailrace.twin import Gate
from tailrace.twin.gate import Compared
from tailrace.twin.outcome import Outcome

COLLECTED = {
    "duration": "12 s",
    "ramp": "0 s",
    "kernel": {"syn": "linux-3.3"},
    "tiers": {
        "web": {"workers": 20, "backlog": 10, "calls": {"app": {"pool": 20}}},
        "app": {
            "workers": 20,
            "heap": {"young": "16 MiB", "per_visit": "26 kB", "young_collection": {"base": "400 ms"}},
        },
    },
    "interactions": {
        "page": {"at": {"web": {"compute": "2 ms", "calls": {"part": 1}}}},
        "part": {"at": {"app": {"compute": "2 ms"}}},
    },
    "workloads": {"users": {"kind": "poisson", "rate": 200.0, "interaction": "page"}},
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, Path]:
    system = from_table(COLLECTED)
    folder = tmp_path_factory.mktemp("recorded") / "run"
    sim.simulate(system, folder)
    return system, folder


def test_losses_that_no_cause_accounts_for_are_left_out_where_the_twin_passes_without(
    recorded: tuple[Experiment, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Dataset.open(recorded[1])
    learnt = twin.learn(run)
    line = {"place": "app", "cause": "unknown", "file": "app-unknown.csv", "stops": False}
    table = {**learnt.table, "losses": [*learnt.table["losses"], line]}
    tiny = replace(learnt, table=table, losses={**learnt.losses, "app-unknown.csv": [(1.0, 0.02), (1.1, 0.0)]})
    found, checked = recordings._simplest(tiny, run)
    assert (found.table, found.losses, checked.passed) == (learnt.table, learnt.losses, True)
    # the same pauses, if their cause were unknown, are needed
    lines = [{**line, "cause": "unknown"} for line in learnt.table["losses"]]
    needed = replace(learnt, table={**learnt.table, "losses": lines})
    found, checked = recordings._simplest(needed, run)
    assert found is needed
    assert checked.passed


def test_the_interval_holds_what_is_left_if_a_change_ends_what_no_cause_accounts_for(
    recorded: tuple[Experiment, Path], tmp_path: Path
) -> None:
    learnt = twin.learn(recorded[1])
    lines = [{**line, "cause": "unknown"} for line in learnt.table["losses"]]
    kept = replace(learnt, table={**learnt.table, "losses": lines})
    unaccounted = kept.experiment
    trials = Trials(tmp_path)
    base = present(unaccounted, 2, trials)
    found = sized(base, unaccounted, [policy.REMEDY, newest.REMEDY], trials)
    one = finals(base, found, 2, trials)[0]
    assert one.effect.vlrt.low is not None
    assert one.effect.vlrt.low > 0
    [again] = cautious([one], facts.Facts(), unaccounted, trials)
    assert again.effect.vlrt.low == 0
    assert again.effect.vlrt.high == one.effect.vlrt.high
    assert again.caution.startswith("The recording does not show why app lost capacity.")


def test_remedies_of_a_recording_do_what_they_do_to_the_system_itself(
    recorded: tuple[Experiment, Path], tmp_path: Path
) -> None:
    system, folder = recorded
    found = advise.advise(folder, tmp_path / "advice", replications=2)
    assert abs(found.base.vlrt.mean - sim.count(system).over_1s) <= 0.15 * found.base.vlrt.mean
    by_name = {remedy: one for one in reversed(found.ranked) for remedy in one.remedies}
    truth = {
        "heap": {("tiers", "app", "heap"): None},
        "backlog": by_name["backlog"].changes,
    }
    for remedy, changes in truth.items():
        made = sim.count(changed(system, changes)).over_1s
        left = by_name[remedy].effect.vlrt
        assert left.low is not None
        assert left.high is not None
        assert left.low <= made <= left.high, remedy
        assert by_name[remedy].helps
    assert found.compared[0].what == "very slow requests"
    page, _, best = advise.write(found, tmp_path / "advice")
    assert "How well the twin repeats the recording" in page.read_text()
    lines = {line.then for one in found.ranked if one.remedies == ("heap",) for line in found.lines(one)}
    assert lines == set()  # the name app does not tell that it is a JVM
    assert best.exists()


def test_a_surge_of_recorded_requests_is_a_fifth_of_them(recorded: tuple[Experiment, Path], tmp_path: Path) -> None:
    _, folder = recorded
    repeated = recordings.twin_of(Dataset.open(folder), tmp_path / "twin")
    trials = Trials(tmp_path / "runs")
    quiet, more, twice = trials.outcomes(
        [repeated.experiment, surged(repeated.experiment, tmp_path), scaled(repeated.experiment, 2.0, tmp_path)]
    )
    assert quiet is not None
    assert more is not None
    assert twice is not None
    assert more.requests - quiet.requests == pytest.approx(0.2 * quiet.requests / 3, rel=0.2)
    assert twice.requests == pytest.approx(2 * quiet.requests, rel=0.1)
    assert questions(repeated.experiment)


def test_a_twin_that_does_not_repeat_its_recording_is_refused_with_the_reasons(
    recorded: tuple[Experiment, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = recorded

    def differs(twin: object, run: object) -> Gate:
        seen = Outcome(10, (), {}, {}, {})  # type: ignore[arg-type]
        workers = "workers of app in topology.toml"
        rows = (
            Compared("longest queue of app", "20", "3", False, workers),
            Compared("longest queue of db", "9", "3", False, "workers of db in topology.toml"),
            Compared("drops of app", "5", "0", False, workers),
        )
        return Gate(rows, seen, (seen, seen, seen))

    monkeypatch.setattr(recordings, "gate", differs)
    with pytest.raises(advise.RefusedError, match="its twin does not repeat it") as refused:
        advise.advise(folder, tmp_path / "advice")
    assert refused.value.reasons == (
        "longest queue of app: 20 recorded, 3 reproduced; this would help: workers of app in topology.toml",
        "longest queue of db: 9 recorded, 3 reproduced; this would help: workers of db in topology.toml",
        "drops of app: 5 recorded, 0 reproduced; the same would help as for: longest queue of app",
    )


def test_advice_continues_with_the_twin_that_it_learnt_before(
    recorded: tuple[Experiment, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(recorded[1], tmp_path / "run")
    run, folder = Dataset.open(tmp_path / "run"), tmp_path / "twin"
    first = recordings.twin_of(run, folder)

    class LearntError(Exception):
        pass

    def learn(run: Dataset, *, part: bool) -> None:
        raise LearntError

    monkeypatch.setattr(recordings, "learn", learn)
    again = recordings.twin_of(run, folder)
    assert (again.facts, again.experiment) == (first.facts, first.experiment)
    for changed_file in (folder / "experiment.toml", run.path / "topology.toml", folder / facts.FILE):
        before = changed_file.read_bytes()
        changed_file.write_bytes(before + b" ")
        if changed_file.name == facts.FILE:
            changed_file.write_bytes(b"[" * 5000)
        with pytest.raises(LearntError):
            recordings.twin_of(run, folder)
        changed_file.write_bytes(before)


def test_the_answer_for_a_recording_without_very_long_requests_is_its_headroom(tmp_path: Path) -> None:
    calm = COLLECTED | {"tiers": {"web": {"workers": 20, "backlog": 10, "calls": {"app": {}}}, "app": {}}}
    sim.simulate(from_table(calm), tmp_path / "run")
    found = advise.advise(tmp_path / "run", replications=2)
    assert found.ranked == ()
    assert found.headroom is not None
    assert found.headroom.factor is not None
    assert 1.5 <= found.headroom.factor <= 3
    assert "times this load" in sentences(found)[1]


def test_an_overload_is_noted_because_its_clients_would_send_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "_refuse", lambda run, checked: None)
    busy = COLLECTED | {
        "duration": "8 s",
        "tiers": {"web": {"workers": 400, "calls": {"app": {}}}, "app": {"demand_factor": 10.0}},
        "workloads": {"users": {"clients": 150, "think": "100 ms", "interaction": "page"}},
    }
    sim.simulate(from_table(busy), tmp_path / "run")
    found = advise.advise(tmp_path / "run", replications=2)
    assert found.base.vlrt.mean > found.base.requests / 2
    assert found.notes[0] == MORE_REQUESTS
