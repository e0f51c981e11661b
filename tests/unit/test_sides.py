"""A figure by simulator and testbed side by side; a simulator under other seeds stands in for the testbed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import typer

from builders import SMALL
from tailrace import sim
from tailrace.errors import InputError, UsageError
from tailrace.experiment import Experiment
from tailrace.reproduce import Entry, Reproduction, find, page, reproduce, scaled, to_json
from tailrace.study import runs
from tailrace.study.engines import SIMULATOR, Engine, Progress
from tailrace.testbed import doctor
from tailrace.testbed.doctor import Finding

EXPECTED: dict[str, Any] = {
    "paper": "p",
    "title": "t",
    "shows": "s",
    "seeds": 2,
    "runs": [{"name": "few"}, {"name": "many", "set": {"workloads.w.clients": 200}}],
    "values": [
        {"name": "rate", "measure": "throughput", "unit": "req/s", "paper": {"few": 20.0}, "note": "of the paper's"},
        {"name": "slow", "measure": "share_over", "over": "3 s", "unit": "%", "run": ["many"]},
        {"name": "stall", "measure": "saturated_longest", "place": "web", "unit": "ms"},
    ],
    "claims": [
        {"says": "More clients, more requests.", "less": ["rate @ few", "rate @ many"], "note": "at the paper's scale"},
        {"says": "There are requests.", "less": [0, "rate @ few"]},
        {"says": "None stalls.", "zero": ["stall"]},
    ],
}
SCALED: dict[str, Any] = {
    "seeds": 3,
    "runs": [{"name": "few", "set": {"workloads.w.clients": 10}, "simulated": "measured.toml"}],
    "without": ["stall"],
    "values": [{"name": "rate", "note": "machines differ"}, {"name": "asked", "measure": "requests"}],
    "claims": [{"says": "Some are asked.", "less": [0, "asked"]}],
    "panels": [{"form": "frequency", "top": "20 ms", "bin": "1 ms"}],
}


def stand_in(shift: int = 1000) -> Engine:
    def make(experiment: Experiment, folder: Path, progress: Progress) -> object:
        other = experiment.model_copy(update={"seed": experiment.seed + shift})
        return sim.simulate(other, folder, progress=progress)

    plan = lambda experiment: experiment.model_dump_json()  # noqa: E731
    return replace(SIMULATOR, plan=plan, make=make, at_once=1, measures=True)


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    folder = tmp_path / "p" / "figure-1"
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(tomli_w.dumps(SMALL))
    (folder / "measured.toml").write_text('extends = "experiment.toml"')
    (folder / "expected.toml").write_text(tomli_w.dumps(EXPECTED))
    (folder / "testbed.toml").write_text(tomli_w.dumps(SCALED))
    [found] = find(tmp_path, "p")
    return found


def change(entry: Entry, **keys: Any) -> None:
    (entry.folder / "testbed.toml").write_text(tomli_w.dumps({**SCALED, **keys}))


def made(entry: Entry, tmp_path: Path, engine: Engine | None = None) -> Reproduction:
    return reproduce([entry], tmp_path / "out", testbed=engine or stand_in())


def test_the_scaled_form_is_the_papers_with_changes(entry: Entry) -> None:
    form = scaled.read(entry.folder)
    assert form is not None
    found = form.testbed
    names = [value.name for value in found.values]
    assert names[:2] == ["rate", "asked"], "stall is left out, and slow, which no run has"
    assert names[2:] == [*(value["name"] for value in scaled.WHOLE), "SYNs lost by web"]
    assert found.value("rate").paper is None
    assert found.value("rate").note_of("few") == "machines differ"
    assert [claim.says for claim in found.claims] == ["There are requests.", "Some are asked."]
    assert form.simulator.claims == found.claims
    assert [form.simulator.runs[0].experiment, found.runs[0].experiment] == ["measured.toml", "experiment.toml"]
    assert form.simulator.runs[0].set == found.runs[0].set


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"run": []}, "run is not a known key; did you mean 'runs'?"),
        ({"without": ["stal"]}, "got 'stal'; did you mean 'stall'?"),
        ({"values": [{"name": "v", "measure": "throughputs"}]}, "must be the name of a measure"),
        ({"claims": [{"says": "c", "less": [0, "rate @ many"]}]}, "got 'rate @ many'; did you mean 'rate @ few'?"),
    ],
)
def test_errors_say_what_is_wrong_with_it(entry: Entry, keys: dict[str, Any], sentence: str) -> None:
    change(entry, **keys)
    with pytest.raises(InputError) as raised:
        scaled.read(entry.folder)
    assert sentence in str(raised.value)
    assert "testbed.toml" in str(raised.value)


def test_both_engines_answer_the_same_questions(entry: Entry, tmp_path: Path) -> None:
    found = made(entry, tmp_path)
    [sides] = found.sides
    assert sides is not None
    assert [(a.value, a.run) for a, _ in sides.pairs()] == [(b.value, b.run) for _, b in sides.pairs()]
    rate = next(pair for pair in sides.pairs() if pair[0].value == "rate")
    numbers = [cell.ours.interval.replications for cell in rate]
    assert [len(each) for each in numbers] == [3, 3]
    assert numbers[0] != numbers[1]
    assert sides.ratio(*rate) == pytest.approx(1, abs=0.5)
    assert [claim.verdict for claim in sides.testbed.claims] == ["holds", "holds"]
    assert found.outcomes[0].cell("rate", "few").ours.interval.mean > 15, "the paper's own file, 20 clients"
    assert found.dropper() == (1, 1)


def test_a_testbed_that_drops_elsewhere_is_reported(entry: Entry, tmp_path: Path) -> None:
    def crowded(experiment: Experiment, folder: Path, progress: Progress) -> object:
        tiers = {"web": experiment.tiers["web"].model_copy(update={"workers": 1, "backlog": 1})}
        load = {"w": experiment.workloads["w"].model_copy(update={"clients": 2000})}
        return sim.simulate(experiment.model_copy(update={"tiers": tiers, "workloads": load}), folder)

    found = made(entry, tmp_path, replace(stand_in(), make=crowded))
    assert found.dropper() == (0, 1)
    [sides] = found.sides
    assert sides is not None
    [dropper] = sides.droppers()
    assert dropper.simulator == {}
    assert list(dropper.testbed) == ["web"]
    assert not sides.close(*next(pair for pair in sides.pairs() if pair[0].value == "rate"))


def test_measured_runs_are_kept_and_measured_again_by_other_code(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(entry, tmp_path)
    kept = sorted((tmp_path / "out/runs").glob("*.run"))
    assert len(kept) == 3
    monkeypatch.setattr(runs, "fingerprint", lambda: "other code")

    def refuse(experiment: Experiment, folder: Path, progress: Progress) -> object:
        raise AssertionError("made again")

    change(
        entry,
        values=[{"name": "asked", "measure": "requests"}, {"name": "mean", "measure": "response_mean", "unit": "ms"}],
    )
    [sides] = made(entry, tmp_path, replace(stand_in(), make=refuse)).sides
    assert sides is not None
    assert sides.testbed.cell("mean", "few").ours.interval.mean > 0


def test_a_killed_measurement_goes_on_where_it_was(entry: Entry, tmp_path: Path) -> None:
    real, began, ended = stand_in(), [], []

    def once(experiment: Experiment, folder: Path, progress: Progress) -> object:
        began.append(experiment.seed)
        if len(began) == 2:
            raise KeyboardInterrupt
        found = real.make(experiment, folder, progress)
        ended.append(experiment.seed)
        return found

    flaky = replace(real, make=once)
    with pytest.raises(KeyboardInterrupt):
        made(entry, tmp_path, flaky)
    made(entry, tmp_path, flaky)
    assert sorted(ended) == [1, 2, 3], "each once"


def test_the_page_and_the_json_have_both_sides(entry: Entry, tmp_path: Path) -> None:
    found = made(entry, tmp_path)
    text = page.html(found)
    for word in ("Simulator, scaled", "Testbed: machines differ", "SYNs lost by web", "on real servers 2 of 2"):
        assert word in text
    assert '"droppers"' in to_json(found)
    alone = page.html(reproduce([entry], tmp_path / "out"))
    assert "Testbed" not in alone


def test_a_figure_without_a_scaled_form_is_refused(entry: Entry, tmp_path: Path) -> None:
    (entry.folder / "testbed.toml").unlink()
    with pytest.raises(UsageError, match=r"p figure-1: there is no testbed\.toml"):
        made(entry, tmp_path)


def test_what_the_machine_lacks_is_reported_before_anything_runs(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tailrace.cli.commands import app

    lacking = [Finding("root", False, "this is not root", "run it as root")]
    monkeypatch.setattr(doctor, "examine", lambda: lacking)
    command = ["reproduce", "p", "--engine", "testbed", "--experiments", str(tmp_path), "-o", str(tmp_path / "out")]
    with pytest.raises(UsageError, match=r"the testbed lacks root \(this is not root\); run it as root"):
        typer.main.get_command(app)(command, standalone_mode=False)
    assert not (tmp_path / "out").exists()
