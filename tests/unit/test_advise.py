"""Sizes, predictions, the ranking, and the answer."""

from __future__ import annotations

import json
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from builders import SMALL
from tailrace import advise, experiment, sim
from tailrace.advise import page as advise_page
from tailrace.advise.answer import sentences
from tailrace.advise.changing import as_options
from tailrace.advise.loads import SURGE, scaled, surged
from tailrace.advise.prediction import predict
from tailrace.advise.ranking import present
from tailrace.advise.remedies import REMEDIES, backlog
from tailrace.advise.serialise import to_json
from tailrace.advise.sizing import sized
from tailrace.advise.trials import Progress, Trials, replicated
from tailrace.errors import TailraceError, UsageError
from tailrace.experiment import Experiment, from_table
from tailrace.experiment.workloads import Closed

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
STALLED: dict[str, Any] = SMALL | {
    "kernel": {"syn": "linux-3.3"},
    "duration": "3 s",
    "tiers": {"web": {"workers": 4, "backlog": 4}},
    "workloads": {"w": {"clients": 100, "think": "1 s", "interaction": "page"}},
    "stalls": [{"kind": "freeze", "place": "web", "at": "1 s", "for": "300 ms"}],
}


def test_a_prediction_holds_one_more_run_in_ninety_of_a_hundred_cases() -> None:
    known = predict([100.0, 110.0, 90.0, 105.0, 95.0])
    assert known.mean == 100
    assert known.low is not None
    assert known.high is not None
    assert known.low < 84 < 117 < known.high
    none = predict([0.0] * 5)
    assert (none.mean, none.low, none.high) == (0, 0, 3)
    alone = predict([7.0])
    assert (alone.mean, alone.low, alone.high) == (7, None, None)


def test_the_size_is_the_smallest_that_suffices_and_a_step_of_margin(tmp_path: Path) -> None:
    base = from_table(STALLED)
    trials = Trials(tmp_path)
    now = present(base, 1, trials)
    [found] = sized(now, base, [backlog.REMEDY], trials)
    assert (found.smallest, found.size) == (32, 64)
    assert found.harmed == 0
    assert found.words == "raise the backlog of web from 4 to 64"


def test_a_surge_is_more_load_in_the_middle_third_and_leaves_the_others_alone(tmp_path: Path) -> None:
    base = from_table(STALLED)
    more = surged(base, tmp_path).workloads
    assert more["w"] == base.workloads["w"]
    assert (more["w-more"].begin, more["w-more"].end) == (base.duration // 3, 2 * base.duration // 3)
    load = more["w-more"]
    assert isinstance(load, Closed)
    assert load.clients == 100 * SURGE
    twice = scaled(base, 2.0, tmp_path).workloads["w"]
    assert isinstance(twice, Closed)
    assert twice.clients == 200


def test_the_advice_is_ranked_with_the_least_effort_first() -> None:
    found = advise.advise(from_table(STALLED), replications=3)
    assert found.complete
    assert found.best is not None
    assert found.best.effort == "setting"
    assert found.best.removes > 0.99
    assert found.best.effect.vlrt.mean < 1
    assert len({remedy for one in found.ranked for remedy in one.remedies}) >= 5
    now, do, _ = sentences(found)
    assert "requests take 1 s or more now" in now
    assert "it is predicted to leave 0 (0 to " in do
    assert all(left >= 0 for _, left in found.useless)


def test_a_budget_ends_the_advice_early_and_says_so() -> None:
    found = advise.advise(from_table(STALLED), replications=2, seconds=1e-9, workers=1)
    assert not found.complete
    assert len(found.base.harmed) == 1
    assert "The time budget ended" in sentences(found)[1]


def test_a_fault_ends_simulations_that_are_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an interrupt would wait for them."""
    ended, begun = [], Event()

    def count(experiment: Experiment, progress: Progress) -> None:
        if experiment.seed == 1:
            assert begun.wait(60)
            raise UsageError("a fault")
        begun.set()
        for _ in range(6000):  # a minute
            try:
                progress(0, 1)
            except TailraceError:
                ended.append(experiment.seed)
                raise
            time.sleep(0.01)

    monkeypatch.setattr(sim, "count", count)
    with pytest.raises(UsageError, match="a fault"):
        Trials(tmp_path, workers=2).shares([from_table(STALLED | {"seed": seed}) for seed in (1, 2)])
    assert ended == [2]


def test_without_very_long_requests_the_headroom_is_the_answer() -> None:
    roomy = STALLED | {
        "stalls": [],
        "tiers": {"web": {"workers": 1, "backlog": 1}},
        "workloads": {"w": {"kind": "poisson", "rate": 500.0, "interaction": "page"}},
    }
    found = advise.advise(from_table(roomy | {"tiers": {"web": {"workers": 20, "backlog": 20}}}), replications=2)
    assert found.ranked == ()
    assert found.headroom is not None
    assert found.headroom.factor is not None
    assert 1.5 < found.headroom.factor < 2.5
    assert found.headroom.drops == "web"
    assert f"At {found.headroom.factor:g} times this load web drops connections" in sentences(found)[1]


def test_nothing_is_better_than_nothing_where_nothing_helps() -> None:
    """A request that computes for seconds is slow whatever is changed around it."""
    slow = SMALL | {"interactions": {"page": {"at": {"web": {"wait": "1500 ms"}}}}, "duration": "4 s"}
    found = advise.advise(from_table(slow), replications=2)
    assert found.best is None
    assert "is better than nothing" in sentences(found)[1]


def of_paper(path: str, *changes: str) -> Experiment:
    return experiment.read(EXPERIMENTS / path, changes)


SOFTWARE: dict[str, dict[str, str]] = {"unknown": {}, "known": {"web": "gunicorn"}}
PAPERS = {
    "governed": (of_paper("testbed/governed", "duration=40s"), "backlog", "web"),
    "balancers": (of_paper("testbed/balanced"), "policy", "web to app"),
    "rpc-vs-async": (of_paper("rpc-vs-async/figure-3", "duration=20s"), "asynchronous", "web, app, db"),
}


@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_remedies_remove_what_they_should(name: str, tmp_path: Path) -> None:
    base, remedy, place = PAPERS[name]
    trials = Trials(tmp_path)
    now = present(base, 1, trials)
    found = sized(now, base, [one for one in REMEDIES if one.name == remedy], trials)
    best = min((one for one in found if one.option.place == place), key=lambda one: one.harmed)
    assert best.harmed <= max(now.harmed) / 100


def test_the_page_says_how_to_name_software_that_is_not_known(tmp_path: Path) -> None:
    advised = {name: advise.advise(from_table(STALLED), replications=2, software=of) for name, of in SOFTWARE.items()}
    for name, found in advised.items():
        hint = "What web runs is not known: --software web=nginx (or another) gives its own lines."
        page, *_ = advise.write(found, tmp_path / name)
        assert (hint in page.read_text()) == (name == "unknown")


def test_the_files_show_the_answer_and_the_best_experiment_can_be_read(tmp_path: Path) -> None:
    found = advise.advise(from_table(STALLED), name="<b>stalled</b>", replications=2, software={"web": "gunicorn"})
    page, text, best = advise.write(found, tmp_path)
    html = page.read_text()
    assert html == advise_page.html(found)
    assert "<b>stalled</b>" not in html
    assert found.best is not None
    assert f"{found.best.words}" in html
    table = json.loads(text.read_text())
    assert table["answer"] == sentences(found)
    assert [one["change"] for one in table["ranked"]] == [one.words for one in found.ranked]
    assert experiment.read(best) == found.best.experiment
    [longer] = [one for one in found.ranked if one.remedies == ("backlog",)]
    lines = [(line.now, line.then) for line in found.lines(longer) if line.software == "gunicorn"]
    assert lines == [("backlog = 4", f"backlog = {longer.changes['tiers', 'web', 'backlog']}")]


def test_the_reference_names_every_key_of_the_json() -> None:
    found = to_json(advise.advise(from_table(STALLED), replications=2, software={"web": "nginx"}))
    text = (EXPERIMENTS.parent / "docs/reference/advice-json.md").read_text()
    ranked = found["ranked"][0]
    keys = {*found, *ranked, *ranked["lines"][0], *ranked["vlrt"], *ranked["surge"], "others", "harmed", "harmed_now"}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []


def test_unknown_software_is_refused_with_the_known_names() -> None:
    with pytest.raises(UsageError, match=r"--software web: software must be the name of a software .*gunicorn"):
        advise.advise(from_table(STALLED), software={"web": "gunicon"})
    with pytest.raises(UsageError, match="tier must be the name of a tier"):
        advise.advise(from_table(STALLED), software={"app": "nginx"})


def test_servers_that_are_alike_get_the_same_change(tmp_path: Path) -> None:
    """Two web servers behind nothing: each is an entry of its own, and both drop."""
    web = {"workers": 4, "backlog": 4}
    load = {"clients": 100, "think": "1 s", "interaction": "page"}
    both = STALLED | {
        "tiers": {"web1": {**web, "role": "web"}, "web2": {**web, "role": "web"}},
        "workloads": {name: {**load, "entry": name} for name in ("web1", "web2")},
        "stalls": [{"kind": "freeze", "place": f"web{k}", "at": "1 s", "for": "300 ms"} for k in (1, 2)],
    }
    base, trials = from_table(both), Trials(tmp_path)
    [found] = sized(present(base, 1, trials), base, [backlog.REMEDY], trials)
    assert found.words == "raise the backlog of web1 from 4 to 64, and the same for web2"
    assert found.harmed == 0
    assert [tier.backlog for tier in found.experiment.tiers.values()] == [64, 64]


def test_changes_are_written_as_set_takes_them() -> None:
    assert as_options({("tiers", "web", "backlog"): 64}) == ["tiers.web.backlog=64"]
    assert as_options({("tiers", "10.0.0.3:80", "workers"): 8}) == ['tiers."10.0.0.3:80".workers=8']
    assert as_options({("tiers", "web", "quota"): None}) == []


def test_replications_of_recorded_requests_differ_in_demand(tmp_path: Path) -> None:
    file = tmp_path / "requests.csv"
    file.write_text("time\n0.5\n1\n")
    load = {"w": {"kind": "trace", "file": str(file), "interaction": "page"}}
    base = from_table(SMALL | {"workloads": load})
    factors = [replicated(base, number).tiers["web"].demand_factor for number in range(5)]
    assert factors[0] == 1.0
    assert len(set(factors)) == 5
    assert factors == pytest.approx([1.0] * 5, abs=0.0101)
    assert replicated(from_table(SMALL), 1).tiers["web"].demand_factor == 1.0


def test_a_surge_of_a_single_recorded_request_is_none(tmp_path: Path) -> None:
    file = tmp_path / "requests.csv"
    file.write_text("time,interaction\n0.5,page\n")
    base = from_table(SMALL | {"workloads": {"w": {"kind": "trace", "file": str(file)}}})
    assert list(surged(base, tmp_path).workloads) == ["w"]
    assert list(scaled(base, 2.0, tmp_path).workloads) == ["w", "w-more1"]
    file.write_text("time,interaction\n1.5,page\n")
    assert list(scaled(base, 2.0, tmp_path).workloads) == ["w"]
