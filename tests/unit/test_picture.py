"""The drawing of a topology: what limits each server, escaped, and of bounded size."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from doors import run_folder, told
from tailrace import experiment
from tailrace.experiment.layout import topology
from tailrace.report import picture
from tailrace.reproduce.names import of_papers
from tailrace.topology import Call, Server, Topology

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def words(text: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(text).iter(f"{SVG}text")]


def test_an_experiment_shows_servers_queues_pools_and_machines() -> None:
    found = experiment.read(ROOT / "experiments/rpc-vs-async/base/system.toml")
    shown = words(picture.svg(topology(found), "system"))
    for line in (
        "web",
        "150 workers",
        "holds at most 279",
        "pool of 50 to app",
        "beside bursty-db",
        "on app-node, 1 core",
    ):
        assert line in shown, line


def test_servers_have_the_names_of_the_papers_beside_their_own() -> None:
    found = experiment.read(ROOT / "experiments/rpc-vs-async/base/system.toml")
    shown = words(picture.svg(topology(found), "system", of_papers(found)))
    for line in ("Apache (web)", "Tomcat (app)", "MySQL (db)", "pool of 50 to Tomcat", "bursty-db", "beside Tomcat"):
        assert line in shown, line


def test_a_balancer_has_one_line_for_equal_pools() -> None:
    shown = words(picture.svg(topology(experiment.read(ROOT / "experiments/balancers/base")), "balancers"))
    assert shown.count("pool of 50 to each of 4") == 4
    assert shown.count("17 pools of 6 to db") == 4


def test_a_balancer_and_an_asynchronous_server_are_named() -> None:
    found = experiment.read(ROOT / "experiments/balancers/base", ["tiers.web.software=nginx"])
    text = picture.svg(topology(found), "balancers")
    assert "balances by total_request" in words(text)
    assert text.count('class="server async"') == 4


def test_names_from_strangers_are_escaped() -> None:
    servers = tuple(Server(name=name) for name in ("<script>alert(1)</script>", 'a"b&c', "bell\x07"))
    text = picture.svg(Topology(servers=servers), "<b>\x1b")
    assert "<script>" not in text
    assert 'a"b&c' in words(text)
    assert "bell\\u0007" in words(text)


def test_many_servers_are_counted() -> None:
    servers = tuple(Server(name=f"s{n}", tier=n // 100 + 1) for n in range(10_000))
    calls = tuple(Call(caller="s0", callee=f"s{n}") for n in range(100, 5_000))
    text = picture.svg(Topology(servers=servers, calls=calls), "many")
    assert "and 76 more servers" in words(text)
    assert "many (and 76 more tiers)" in words(text)
    assert len(text) < 200_000


def test_nothing_is_an_empty_drawing() -> None:
    assert words(picture.svg(Topology(), "nothing")) == ["nothing"]


@pytest.mark.parametrize("source", ["experiment", "run"])
def test_the_command_draws_and_runs_nothing(tmp_path: Path, source: str) -> None:
    path = ROOT / "experiments/rpc-vs-async/base" if source == "experiment" else run_folder()
    out = tmp_path / "system.svg"
    assert told("run", path, "--draw", out) == 0
    assert len(words(out.read_text())) > 3
    assert list(tmp_path.iterdir()) == [out]
    assert told("run", path, "--draw", out) == 2
    assert told("run", path, "--draw", out, "--overwrite") == 0
    assert told("run", path, "--draw", tmp_path / "system.png") == 2


def test_a_run_folder_cannot_be_changed(tmp_path: Path) -> None:
    assert told("run", run_folder(), "--draw", tmp_path / "a.svg", "--set", "seed=2") == 2
    assert told("run", tmp_path / "nothing", "--draw", tmp_path / "a.svg") == 2
