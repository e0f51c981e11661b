"""Words that make no sense together are refused before anything is done, in one sentence that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from doors import ROOT, SIMULATED, run_folder
from tailrace import cli

BASE = str(ROOT / "experiments" / "rpc-vs-async" / "base")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("record", "-o", "OUT", "--server", "a=10.0.0.1:80", "--server", "b=10.0.0.1:80"),
            "10.0.0.1:80 has two names, a and b; give it one name",
        ),
        (
            ("record", "-o", "OUT", "--server", "a=10.0.0.1"),
            "10.0.0.1: the address must have the form ip:port",
        ),
        (
            ("load", "http://127.0.0.1:9", "--add", "-o", "OUT"),
            "--set and --add change an experiment; name it with --experiment FILE",
        ),
        (
            ("sweep", BASE, "--vary", "workloads.stedy.clients=1,2", "-o", "OUT"),
            "tailrace: workloads.stedy.clients=1: there is no workloads.stedy; did you mean 'steady'?",
        ),
        (("run", BASE, "--set", "tiers.wep.workers=3", "-o", "OUT"), "tiers.wep.workers=3: there is no tiers.wep"),
        (
            ("advise", BASE, "--software", "web=apach", "-o", "OUT"),
            "--software web: software must be the name of a software (apache, ",
        ),
        (
            ("advise", str(ROOT / "tests/golden/readers/accesslog/alb.log"), "-o", "OUT"),
            "alb.log: neither a run folder nor an experiment.toml; make a run folder of it",
        ),
        (("advise", BASE, "--budget", "soon", "-o", "OUT"), "--budget: "),
    ],
)
def test_they_are_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    out = tmp_path / "out"
    assert cli.perform([str(out) if word == "OUT" else word for word in words]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_the_demo_is_no_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "report.html"
    link.symlink_to(tmp_path / "other")
    assert cli.perform(["demo", "--report", str(link)]) == 2
    assert "it is a symbolic link, not a file" in capsys.readouterr().err
    assert link.is_symlink()


@pytest.mark.parametrize(
    "wrong", ['begin = "x"', "begin = 1.5", "begin = 9223372036854775808", "kind = 3", "place = []"]
)
def test_a_truth_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    key = wrong.partition(" ")[0]
    lines = [wrong if line.startswith(f"{key} =") else line for line in SIMULATED.decode().splitlines()]
    (tmp_path / "truth.toml").write_text("\n".join(lines))
    assert cli.perform(["score", str(run_folder()), "--truth", str(tmp_path / "truth.toml"), "--quiet"]) == 2
    assert f"not a truth.toml (stalls[0].{key}" in capsys.readouterr().err
