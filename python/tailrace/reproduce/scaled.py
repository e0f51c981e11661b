"""`testbed.toml`: changes to a figure's expected.toml for a scale that real servers on one machine can carry.

```text
expected.toml   values, claims ──┐
testbed.toml    runs, changes ───┴─▶ Expected ─▶ simulator, testbed
```
The paper's numbers do not apply at this scale and are left out. A claim is a direction, and stays if all its cells do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from tailrace import toml
from tailrace.errors import InputError
from tailrace.experiment import read as read_experiment
from tailrace.reproduce import expected
from tailrace.reproduce.expected import Expected, Run, changes
from tailrace.reproduce.panels import Names
from tailrace.toml import Count, Name, Table, wrong_name

FILE = "testbed.toml"
OF_THE_PAPER = ("paper", "calibrated", "note")
"""Keys of a value that apply to the paper's own scale."""
WHOLE: tuple[dict[str, Any], ...] = (
    {"name": "requests over 1 s", "measure": "share_over", "over": "1 s", "unit": "%"},
    {"name": "median response time", "measure": "response_percentile", "percentile": 50, "unit": "ms"},
    {"name": "99th percentile", "measure": "response_percentile", "percentile": 99, "unit": "ms"},
    {"name": "99.9th percentile", "measure": "response_percentile", "percentile": 99.9, "unit": "ms"},
)
"""Values for comparing simulator and testbed, in addition to those of the figure; the droppers are compared as well."""
DROPS = "SYNs lost by "


class ScaledRun(Run):
    simulated: Name | None = None
    """For the simulator instead: the same experiment, with measured properties of the servers, such as the CPU time of
    a page."""


class Scaled(Table):
    seeds: Count = 3
    """Default number of repetitions on either engine."""
    runs: tuple[ScaledRun, ...] = Field(min_length=1)
    """The runs of expected.toml that are tried, by name, as experiments that real servers can run."""
    without: Names = ()
    """Values, and claims by their words, that have no meaning at this scale."""
    values: tuple[dict[Name, Any], ...] = ()
    """By name, keys that differ from expected.toml's; or further values. `note`: why testbed and simulator differ."""
    claims: tuple[dict[Name, Any], ...] = ()
    """Claims that replace those with the same words, or are added."""
    panels: tuple[dict[Name, Any], ...] = ()
    """The drawings of both engines."""


@dataclass(frozen=True)
class Form:
    """The same figure for either engine; their runs differ only by what was measured."""

    testbed: Expected
    simulator: Expected


def read(folder: Path) -> Form | None:
    """The scaled figure, checked like any other; None if there is none. Raises InputError."""
    file = folder / FILE
    if not file.exists():
        return None
    scaled = toml.check(Scaled, toml.read(file, expected.GUIDE), file)
    paper = toml.read(folder / expected.FILE, expected.GUIDE)
    known = [value["name"] for value in paper.get("values", ())]
    known += [claim["says"] for claim in paper.get("claims", ())]
    for name in scaled.without:
        if name not in known:
            raise InputError(file, wrong_name("without", name, known, "value or claim of expected.toml"))
    whole: dict[str, Any] = {
        **{key: paper[key] for key in ("paper", "title", "shows")},
        "seeds": scaled.seeds,
        "runs": [run.model_dump(exclude={"simulated"}) for run in scaled.runs],
        "panels": scaled.panels,
        "values": [*_values(paper.get("values", ()), scaled), *WHOLE, *_drops(folder, scaled)],
    }
    cells = expected.check(whole, file)
    claims = [claim for claim in _claims(paper.get("claims", ()), scaled) if _there(claim, cells)]
    testbed = expected.check({**whole, "claims": [*claims, *scaled.claims]}, file)
    told = [
        Run(**run.model_dump(exclude={"simulated"}) | {"experiment": run.simulated or run.experiment})
        for run in scaled.runs
    ]
    return Form(testbed, testbed.model_copy(update={"runs": tuple(told)}))


def _values(of_paper: Any, scaled: Scaled) -> Iterator[dict[str, Any]]:
    """The paper's values, changed, and then the further ones. The levels of episodes are of the paper's own scale, so
    values of episodes are left out unless they are changed."""
    runs = [run.name for run in scaled.runs]
    changed = {value.get("name"): value for value in scaled.values}
    for value in of_paper:
        of_paper_alone = "when" in value and value["name"] not in changed
        if value["name"] in scaled.without or of_paper_alone:
            continue
        kept = {key: found for key, found in value.items() if key not in OF_THE_PAPER}
        if "run" in kept:
            named = [kept["run"]] if isinstance(kept["run"], str) else kept["run"]
            kept["run"] = [run for run in named if run in runs]
        kept |= changed.pop(value["name"], {})
        if kept.get("run", runs):
            yield kept
    yield from changed.values()


def _drops(folder: Path, scaled: Scaled) -> Iterator[dict[str, Any]]:
    """Connection attempts that each tier lost, in the runs that have the tier."""
    runs_of: dict[str, list[str]] = {}
    for run in scaled.runs:
        for tier in read_experiment(folder / run.experiment, changes(run)).tiers:
            runs_of.setdefault(tier, []).append(run.name)
    for tier, runs in runs_of.items():
        yield {"name": f"{DROPS}{tier}", "measure": "drops", "place": tier, "unit": "SYNs", "run": runs}


def _claims(of_paper: Any, scaled: Scaled) -> Iterator[dict[str, Any]]:
    """The paper's claims, without its notes at its own scale, and without those that are replaced."""
    anew = [*scaled.without, *(claim.get("says") for claim in scaled.claims)]
    for claim in of_paper:
        if claim["says"] not in anew:
            yield {key: found for key, found in claim.items() if key != "note"}


def _there(claim: dict[str, Any], cells: Expected) -> bool:
    operands = [operand for key in ("less", "near", "zero") for operand in claim.get(key, ())]
    return all(not isinstance(operand, str) or cells.cells(operand) for operand in operands)
