"""The documents are correct: their commands run, their Python runs, and the options that they name exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.main import get_command

import reference
from tailrace import experiment, sim, topology
from tailrace.dataset import TABLES
from tailrace.dataset.metrics import METRICS
from tailrace.diagnosis.answer import PLAIN
from tailrace.diagnosis.ledger import BALANCER, BURST, CAUSES, RETRIES

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(path for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
COMMAND = re.compile(r"^\$ (tailrace .*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[^)]*)?\)")


def run_all(commands: list[str], tmp_path: Path, cwd: Path = ROOT) -> None:
    for command in commands:
        line = command.replace("/tmp/tutorial", f"{tmp_path}/tutorial").replace(
            "tailrace ", f"{sys.executable} -m tailrace ", 1
        )
        done = subprocess.run(line, shell=True, cwd=cwd, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command}\n{done.stderr}"


@pytest.mark.parametrize("document", ["tutorial.md", "how-to/simulate.md"])
def test_the_commands_run(document: str, tmp_path: Path) -> None:
    commands = COMMAND.findall((ROOT / "docs" / document).read_text())
    assert len(commands) >= 5
    (tmp_path / "tutorial").mkdir()
    run_all(commands, tmp_path)
    if document == "tutorial.md":
        assert (tmp_path / "tutorial-report.html").stat().st_size > 50_000


def test_a_run_is_given_to_wireshark_as_the_page_says(tmp_path: Path) -> None:
    [read, *_] = COMMAND.findall((ROOT / "docs/tutorial.md").read_text())
    commands = COMMAND.findall((ROOT / "docs/how-to/give-a-run-to-wireshark.md").read_text())
    assert len(commands) == 3
    run_all([read, *commands], tmp_path)
    small, whole = (tmp_path / f"tutorial-{name}.pcap" for name in ("small", "run"))
    assert 0 < small.stat().st_size < whole.stat().st_size


def test_a_figure_is_reproduced_as_the_page_says(tmp_path: Path) -> None:
    commands = COMMAND.findall((ROOT / "docs/how-to/add-a-reproduction.md").read_text())
    assert len(commands) == 2
    run_all(commands, tmp_path)
    assert (tmp_path / "tutorial/reproduced/rpc-vs-async-figure-1.html").stat().st_size > 50_000


def test_an_experiment_is_swept_as_the_page_says(tmp_path: Path) -> None:
    text = (ROOT / "docs/how-to/sweep.md").read_text()
    run_all(COMMAND.findall(text), tmp_path)
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    said: dict[str, object] = {}
    exec(program.replace('folder = "sweep"', f'folder = "{tmp_path}/tutorial/sweep"'), said)
    assert pl.read_parquet(tmp_path / "tutorial/grid/sweep.parquet").height == 8


def test_advice_is_given_as_the_page_says(tmp_path: Path) -> None:
    text = (ROOT / "docs/how-to/advise.md").read_text()
    commands = COMMAND.findall(text)
    assert len(commands) == 4
    (tmp_path / "tutorial").mkdir()
    run_all(commands, tmp_path)
    for name in ("advice.html", "advice.json"):
        assert (tmp_path / "tutorial/advice" / name).stat().st_size > 1_000
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("document", "printed"), [("tutorial.md", " of "), ("how-to/simulate.md", " {'web': ")])
def test_the_python_runs(document: str, printed: str) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / document).read_text(), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    broken = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert broken == []


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {index.parent / link for link in LINK.findall(index.read_text())}
    assert [page for page in DOCUMENTS if index.parent in page.parents and page not in {*linked, index}] == []


def test_the_front_page_has_the_scores_of_the_papers() -> None:
    front, papers = ((ROOT / "docs" / name).read_text().splitlines() for name in ("index.md", "papers.md"))
    rows = [line for line in front if line.startswith("| **")]
    assert rows == [line for line in papers if line.startswith("| **")]
    assert len(rows) == 5


def test_the_reference_names_every_option_and_command() -> None:
    from tailrace.cli.commands import app

    text = (ROOT / "docs/reference/cli.md").read_text()
    group = get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        assert f"tailrace {name}" in text
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert re.search(rf"{option}[ `,]", text), f"{name} {option} is not in docs/reference/cli.md"


def test_the_reference_names_every_column_and_metric_of_the_record() -> None:
    text = (ROOT / "docs/reference/dataset.md").read_text()
    columns = {column.name for table in TABLES.values() for column in table.columns}
    assert [name for name in sorted(columns | METRICS) if f"`{name}`" not in text] == []


def test_the_references_topologies_can_be_read() -> None:
    examples = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/reference/topology.md").read_text(), re.DOTALL)
    assert len(examples) == 2
    whole, short = (tomllib.loads(example) for example in examples)
    assert topology.from_table(short).server("web") is not None
    missing = [{"name": "web"}, {"name": "app1"}, {"name": "app2"}]  # the example shows one server of four
    whole["servers"] += missing
    assert set(whole) == set(topology.Topology.model_fields)
    assert topology.from_table(whole).places == {"tomcat.slice": "app"}


@pytest.mark.parametrize("document", ["reference/experiment.md", "how-to/simulate.md"])
def test_the_experiments_can_be_run(document: str) -> None:
    examples = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / document).read_text(), re.DOTALL)
    assert examples
    for example in examples:
        assert sim.lower(experiment.from_table(tomllib.loads(example)))["servers"]


@pytest.mark.parametrize(("part", "written"), [("software", reference.software), ("keys", reference.tables)])
def test_the_reference_of_experiments_is_the_schemas(part: str, written: Callable[[], str]) -> None:
    """`make golden` rewrites it."""
    page = ROOT / "docs/reference/experiment.md"
    between = re.compile(rf"(?<=<!-- {part} -->\n).*?(?=<!-- end -->)", re.DOTALL)
    if os.environ.get("TAILRACE_GOLDEN") == "rewrite":
        page.write_text(between.sub(lambda _: f"\n{written()}\n", page.read_text(), count=1))
    shown = between.search(page.read_text())
    assert shown
    assert shown[0].strip() == written().strip(), "make golden, and review the diff"


def test_every_cause_has_its_words_and_stands_in_the_reference() -> None:
    text = (ROOT / "docs/reference/diagnosis-json.md").read_text()
    causes = {cause.name for cause in CAUSES} | {BALANCER, BURST, RETRIES}
    assert [name for name in sorted(causes) if f"`{name}`" not in text] == []
    assert causes == set(PLAIN), "diagnosis/answer.py: PLAIN says every cause in words"
