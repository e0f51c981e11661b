"""The content of expected.toml, and its use."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from builders import SMALL
from tailrace import experiment, toml
from tailrace.errors import InputError, UsageError
from tailrace.report import charts, plots
from tailrace.reproduce import claims, drawings, expected, find, names, notes, page, reproduce, scaled, shelf
from tailrace.reproduce.expected import Claim, Expected
from tailrace.reproduce.knobs import Knobs
from tailrace.reproduce.scaled import Scaled
from tailrace.study import drawn

ROOT = Path(__file__).parents[2]
SHELF = ROOT / "experiments"

TABLE: dict[str, Any] = {
    "paper": "p",
    "title": "t",
    "shows": "s",
    "runs": [{"name": "low", "set": {"seed": 1}}, {"name": "high"}],
    "values": [{"name": "drops", "measure": "drops"}, {"name": "rate", "measure": "throughput", "run": "low"}],
}


def read(folder: Path, **changes: Any) -> Expected:
    (folder / "expected.toml").write_text(tomli_w.dumps({**TABLE, **changes}))
    return expected.read(folder)


def value(**keys: Any) -> list[dict[str, Any]]:
    return [{"name": "v", **keys}]


def claim(**keys: Any) -> list[dict[str, Any]]:
    return [{"says": "c", **keys}]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"runz": []}, "runz is not a known key; did you mean 'runs'?"),
        (
            {"values": value(measure="throughputs")},
            "values[0].measure must be the name of a measure",
        ),
        ({"values": value(measure="utilisation")}, "values[0].place is missing: utilisation needs it"),
        ({"values": value(measure="drops", over="1 s")}, "values[0].over is not for drops, which takes place"),
        ({"values": value(measure="throughput", unit="ms")}, 'values[0].unit must be one of "req/s"'),
        ({"values": value(measure="drops", run="hihg")}, "got 'hihg'; did you mean 'high'?"),
        ({"values": value(measure="drops", paper=3.0)}, "values[0].paper must say which run each number is for"),
        ({"values": value(measure="drops", paper={"medium": 3.0})}, "values[0].paper must be the name of a run of"),
        ({"claims": claim(less=[0, "drop @ low"])}, "got 'drop @ low'; did you mean 'drops @ low'?"),
        ({"claims": claim(less=[0, "drops"])}, "must name one cell, like 'drops @ low', got 'drops'"),
        ({"claims": claim(less=[0, "rate"], zero=["drops"])}, "must have one of less, near and zero"),
        ({"panels": [{"form": "bars", "title": "t", "values": ["rates"]}]}, "got 'rates'; did you mean 'rate'?"),
        (
            {"panels": [{"form": "lines", "title": "t", "x": "seed", "lines": [{"value": "drops"}]}]},
            "panels[0].x must be a key that every run of the lines sets to a number; 'high' has None",
        ),
        ({"panels": [{"form": "pie"}]}, "panels[0].form must be"),
        ({"panels": [{"title": "t"}]}, "panels[0].form is missing"),
    ],
)
def test_errors_name_the_key(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as raised:
        read(tmp_path, **changes)
    assert sentence in str(raised.value)
    assert "expected.toml" in str(raised.value)


def test_a_value_is_taken_in_all_runs_unless_it_says_which(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found.runs_of(found.value("drops")) == ("low", "high")
    assert [(v.name, run) for v, run in found.cells("rate")] == [("rate", "low")]
    assert [(v.name, run) for v, run in found.cells("drops @ high")] == [("drops", "high")]


@pytest.mark.parametrize(
    ("values", "unit", "scale"),
    [
        ({"measure": "level", "metric": "cpu_iowait", "place": "db"}, "%", 100.0),
        ({"measure": "level", "metric": "pool_waiting", "place": "db"}, "requests", 1.0),
        ({"measure": "level", "metric": "dirty_bytes", "place": "db"}, "MB", 1e-6),
        ({"measure": "response_mean"}, "ms", 1e-6),
        ({"measure": "arrivals", "place": "web", "statistic": "cv"}, "", 1.0),
    ],
)
def test_a_value_is_shown_in_its_unit(tmp_path: Path, values: dict[str, Any], unit: str, scale: float) -> None:
    found = read(tmp_path, values=[{"name": "v", "unit": unit, **values}])
    assert found.values[0].scale == scale


def test_the_how_tos_examples_are_an_expected_toml_and_a_testbed_toml(tmp_path: Path) -> None:
    text = (ROOT / "docs/how-to/add-a-reproduction.md").read_text()
    example, known, real = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "expected.toml").write_text(example)
    assert expected.read(tmp_path).paper == "rpc-vs-async"
    assert toml.check(Scaled, tomllib.loads(real), tmp_path).seeds == 3
    toml.check(Knobs, tomllib.loads(known), tmp_path)


@pytest.mark.parametrize("entry", shelf.entries(SHELF), ids=lambda entry: f"{entry.paper}-{entry.name}")
def test_every_entry_of_the_shelf_can_be_read(entry: shelf.Entry) -> None:
    from tailrace.experiment import read as read_experiment
    from tailrace.reproduce.expected import changes
    from tailrace.sim import lower
    from tailrace.testbed.refusals import refuse

    found = entry.read()
    assert found.paper == entry.paper
    assert entry.readme().startswith("# "), f"{entry.folder}/README.md: begin with its title"
    form = scaled.read(entry.folder)
    for run in (*found.runs, *(form.simulator.runs if form else ())):
        lower(read_experiment(entry.folder / run.experiment, changes(run)))
    for run in form.testbed.runs if form else ():
        refuse(read_experiment(entry.folder / run.experiment, changes(run)))


def test_a_figure_is_found_by_its_number(tmp_path: Path) -> None:
    for name in ("figure-1", "figure-12", "table-I"):
        (tmp_path / "p" / name).mkdir(parents=True)
        (tmp_path / "p" / name / "expected.toml").touch()
    assert [entry.name for entry in shelf.find(tmp_path, "p", "Fig. 1")] == ["figure-1"]
    assert [entry.name for entry in shelf.find(tmp_path, "p", "i")] == ["table-I"]
    assert [entry.name for entry in shelf.find(tmp_path, "p", "table-I, 1,1")] == ["table-I", "figure-1"]
    with pytest.raises(UsageError, match="p has no 'figure-3'; there: figure-1, figure-12, table-I"):
        shelf.find(tmp_path, "p", "figure-3")


@pytest.mark.parametrize(
    ("said", "low", "high", "verdict"),
    [
        ({"less": ["drops @ low", "drops @ high"]}, [1, 2, 3], [11, 12, 13], "holds"),
        ({"less": ["drops @ low", "drops @ high"], "by": 20.0}, [1, 1.1, 1.2], [11, 12, 13], "fails"),
        ({"less": ["drops @ high", "drops @ low"]}, [1, 2, 3], [11, 12, 13], "fails"),
        # paired by seed: a large spread that both share does not hide the difference
        ({"less": ["drops @ low", "drops @ high"]}, [1, 50, 99], [3, 52, 101], "holds"),
        ({"less": ["drops @ low", "drops @ high"]}, [1, 50, 99], [99, 2, 53], "undecided"),
        # … as far as both have a seed: the fourth and fifth of one alone would hide it
        ({"less": ["drops @ low", "drops @ high"]}, [1, 50, 99], [3, 52, 101, 0, 0], "holds"),
        ({"less": [0, "drops @ low", "drops @ high"]}, [0, 0, 0], [5, 6, 7], "fails"),
        ({"near": ["drops @ low", "drops @ high"]}, [100, 100, 100], [120, 120, 120], "holds"),
        ({"near": ["drops @ low", "drops @ high"]}, [100, 100, 100], [130, 130, 130], "fails"),
        ({"zero": ["drops @ low"]}, [0, 0, 0], [1, 1, 1], "holds"),
        ({"zero": ["drops"]}, [0, 0, 0], [0, 0, 1], "fails"),
    ],
)
def test_a_claim_is_judged_over_all_replications(
    tmp_path: Path, said: dict[str, Any], low: list[float], high: list[float], verdict: str
) -> None:
    replications = {("drops", "low"): low, ("drops", "high"): high, ("rate", "low"): [1.0] * 3}
    found = claims.judge(Claim(says="c", **said), read(tmp_path), replications)
    assert found.verdict == verdict


def test_large_numbers_are_written_out_in_claims_and_short_on_axes(tmp_path: Path) -> None:
    replications = {("drops", "low"): [54_470.0], ("drops", "high"): [1_234_567.0], ("rate", "low"): [1.0]}
    found = claims.judge(Claim(says="c", less=("drops @ low", "drops @ high")), read(tmp_path), replications)
    assert found.why == "drops @ low = 54,470 < drops @ high = 1,234,567"
    assert [tick.label for tick in plots.counted([2e6]).ticks[-3:]] == ["100,000", "1M", "10M"]


def test_a_claim_that_does_not_hold_is_shown_with_its_note(tmp_path: Path) -> None:
    replications = {("drops", "low"): [0.0], ("drops", "high"): [1.0], ("rate", "low"): [1.0]}
    found = claims.judge(
        Claim(says="c", less=("drops @ high", "drops @ low"), note="Why."), read(tmp_path), replications
    )
    assert found.verdict == "fails"
    assert found.why.endswith(". Why.")


@pytest.mark.parametrize("file", sorted(SHELF.rglob("*.toml")), ids=lambda file: "/".join(file.parts[-3:]))
def test_a_claim_is_a_sentence_of_its_own(file: Path) -> None:
    """It is also shown alone, where it does not hold."""
    for claim in tomllib.loads(file.read_text()).get("claims", []):
        assert re.fullmatch(r"(?!(and|but|for|from|in|nor|or|when|with)\b).*\.", claim["says"]), claim["says"]


@pytest.mark.parametrize("entry", shelf.entries(SHELF), ids=lambda entry: f"{entry.paper}-{entry.name}")
def test_no_claim_says_only_that_a_number_is_more_than_zero(entry: shelf.Entry) -> None:
    """At the scale of real servers a claim may: the papers' numbers do not belong to that scale."""
    for claim in entry.read().claims:
        assert len(claim.less) != 2 or claim.less[0] != 0, claim.says


def test_numbers_keep_their_unit_on_their_line(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# T\n\n| a |\n|---|\n| 39.9 ± 3.5 ms |\n\n5 % of 3 seeds, 2 GB/s\n")
    shown = str(notes.markdown(shelf.Entry("p", "figure-1", tmp_path), ()))
    assert "39.9\u00a0±\u00a03.5\u00a0ms" in shown
    assert "5\u00a0% of 3 seeds, 2 GB/s" in shown


def two_loads(folder: Path, **low: Any) -> None:
    """A figure of 40 clients and of 41."""
    folder.mkdir(parents=True)
    table = {
        **TABLE,
        "seeds": 2,
        "runs": [
            {"name": "low", "set": {"workloads.w.clients": 40}, **low},
            {"name": "high", "set": {"workloads.w.clients": 41}},
        ],
        "values": [{"name": "rate", "measure": "throughput"}],
        "claims": claim(less=["rate @ low", "rate @ high"]),
    }
    (folder / "experiment.toml").write_text(tomli_w.dumps(SMALL))
    (folder / "expected.toml").write_text(tomli_w.dumps(table))


def test_the_page_says_how_many_claims_are_undecided(tmp_path: Path) -> None:
    """Two seeds do not tell what one client in forty makes."""
    two_loads(tmp_path / "p" / "figure-1")
    text = page.html(reproduce(find(tmp_path, "p"), tmp_path / "out"))
    assert "0 of 1 claims hold (1 undecided)" in text


def test_a_run_may_have_more_replications_than_the_others(tmp_path: Path) -> None:
    two_loads(tmp_path / "p" / "figure-1", seeds=3)
    [found] = reproduce(find(tmp_path, "p"), tmp_path / "out").outcomes
    assert [len(found.cell("rate", run).ours.interval.replications) for run in ("low", "high")] == [3, 2]
    [told] = reproduce(find(tmp_path, "p"), tmp_path / "out", seeds=1).outcomes
    assert told.seeds == (1,)


def test_the_page_draws_each_system_once(tmp_path: Path) -> None:
    two_loads(tmp_path / "p" / "figure-1")
    two_loads(tmp_path / "p" / "figure-2", **{"set": {"tiers.web.workers": 7}})
    one, two = reproduce(find(tmp_path, "p"), tmp_path / "out", seeds=1).outcomes
    assert [system.runs for system in one.systems] == ["low, high"]
    assert [system.runs for system in two.systems] == ["low", "high"]
    text = page.html(reproduce(find(tmp_path, "p", "2"), tmp_path / "out", seeds=1))
    assert text.count('class="topology"') == 2
    assert ">7 workers</text>" in text


def test_the_page_of_a_figure_has_that_figure_alone(tmp_path: Path) -> None:
    for number in (1, 2):
        two_loads(tmp_path / "p" / f"figure-{number}")
        (tmp_path / "p" / f"figure-{number}" / "README.md").write_text(f"# {number}\n\n[the base](../base/README.md)\n")
    (tmp_path / "p" / "base").mkdir()
    (tmp_path / "p" / "base" / "README.md").write_text("# Base\n\nEverything is calibrated here.\n")
    every, one = (page.html(reproduce(find(tmp_path, "p", name), tmp_path / "out", seeds=1)) for name in (None, "1"))
    assert "Everything is calibrated here" in every
    assert "Everything is calibrated here" not in one
    assert "tailrace reproduce p</code> makes the page of all figures" in one
    assert "makes the page of all figures" not in every


def test_servers_have_the_names_of_the_papers() -> None:
    tiers = {
        "web": {"software": "apache", "calls": ["app"]},
        "app": {"software": "tomcat", "count": 2, "calls": ["db", "cache"]},
        "db": {"software": "mysql"},
        "cache": {},
        "other-web": {"software": "apache", "calls": ["other-db"]},
        "other-db": {"software": "mysql"},
    }
    entries = {name: {"entry": name, "clients": 1, "interaction": "x"} for name in ("web", "other-web")}
    at = {tier: {"compute": "1 ms"} for tier in ("web", "app", "db", "cache", "other-web", "other-db")}
    system = {"duration": "1 s", "tiers": tiers, "workloads": entries, "interactions": {"x": {"at": at}}}
    names_of = names.of_papers(experiment.from_table(system))
    assert names_of == {"web": "Apache", "app1": "Tomcat1", "app2": "Tomcat2", "db": "MySQL"}


def test_every_series_of_a_timeline_has_the_unit_of_its_chart() -> None:
    """Numbers are rounded by the unit of their line: a share to one in a thousand, a count to a tenth."""
    for series in drawn.KNOWN - {"throughput"}:
        assert charts.unit_of(drawings.METRICS.get(series, series)) == drawn.unit_of(series), series


@pytest.mark.parametrize(
    ("mean", "half", "shown"),
    [(1234.5678, 0.04321, "1,234.568"), (1234.5678, 12.3, "1,235"), (1234.5678, 345.0, "1,230"), (0.0123, 0.5, "0.01")],
)
def test_a_mean_has_no_digit_below_its_interval(mean: float, half: float, shown: str) -> None:
    assert plots.to_the_place_of(mean, half) == shown


def test_the_page_names_the_command_that_made_it(tmp_path: Path) -> None:
    two_loads(tmp_path / "p" / "figure-1", seeds=3)
    own, told = (page.html(reproduce(find(tmp_path, "p"), tmp_path / "out", seeds=seeds)) for seeds in (None, 2))
    assert "tailrace reproduce p figure-1<" in own
    assert "2 to 3" in own
    assert "tailrace reproduce p figure-1 --seeds 2<" in told
