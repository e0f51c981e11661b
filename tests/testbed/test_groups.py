"""Both versions of control groups, as files; which node gets which CPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace import experiment
from tailrace.errors import UsageError
from tailrace.testbed.cgroup import Group, Hierarchies, mounted
from tailrace.testbed.nodes import pinned

HYBRID = """\
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
proc /proc proc rw 0 0
"""


def test_proc_mounts_shows_what_is_mounted(tmp_path: Path) -> None:
    together = Path("/sys/fs/cgroup/cpu,cpuacct")
    found = mounted(HYBRID)
    assert found == Hierarchies({"cpu": together, "cpuacct": together}, Path("/sys/fs/cgroup/unified"))
    assert found.roots == [together, Path("/sys/fs/cgroup/unified")]
    (tmp_path / "cgroup.controllers").write_text("cpu cpuset memory\n")
    of_two = Hierarchies({}, tmp_path)
    assert [name for name in ("cpu", "cpuset", "cpuacct", "freezer", "io") if of_two.has(name)] == [
        "cpu",
        "cpuset",
        "cpuacct",
        "freezer",
    ]
    assert not Hierarchies({}, None).has("freezer")


def test_version_2_has_one_hierarchy_for_all(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu cpuset memory\n")
    group = Group(Hierarchies({}, tmp_path), "testbed").make("1", weight=2)
    group.limit(20_000_000, 100_000_000)
    group.freeze()
    files = {file.name: file.read_text() for file in (tmp_path / "testbed").iterdir()}
    assert files == {"cpuset.cpus": "1", "cpu.weight": "200", "cpu.max": "20000 100000", "cgroup.freeze": "1"}
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory"
    group.limit(None)
    assert (tmp_path / "testbed/cpu.max").read_text() == "max 100000"
    (tmp_path / "testbed/cpu.stat").write_text("usage_usec 7\nthrottled_usec 3\n")
    assert group.used_ns() == 7_000


def test_version_1_has_a_hierarchy_for_each_controller(tmp_path: Path) -> None:
    roots = {name: tmp_path / name for name in ("cpu", "cpuset", "cpuacct", "freezer")}
    for root in roots.values():
        root.mkdir()
    (roots["cpuset"] / "cpuset.mems").write_text("0\n")
    group = Group(Hierarchies(roots, None), "testbed").make("0-1")
    group.limit(500_000)  # less than CFS can: a quota is at least 1 ms
    group.freeze()
    files = {str(file.relative_to(tmp_path)): file.read_text() for file in tmp_path.rglob("testbed/*")}
    assert files == {
        "cpu/testbed/cpu.shares": "1024",
        "cpu/testbed/cpu.cfs_period_us": "100000",
        "cpu/testbed/cpu.cfs_quota_us": "1000",
        "cpuset/testbed/cpuset.mems": "0\n",
        "cpuset/testbed/cpuset.cpus": "0-1",
        "freezer/testbed/freezer.state": "FROZEN",
    }
    assert [str(entry.relative_to(tmp_path)) for entry in group.entries()] == [
        f"{name}/testbed/cgroup.procs" for name in roots
    ]


def chain(**more: Any) -> experiment.Experiment:
    tiers = {
        "web": {"software": "apache", "calls": ["app"]},
        "app": {"software": "tomcat", "calls": ["db"]},
        "db": {"software": "mysql"},
    }
    return experiment.from_table({"tiers": tiers, "workloads": {"steady": {"clients": 1}}, **more})


@pytest.mark.parametrize(
    ("more", "cpus", "expected"),
    [
        ({}, 1, {"web-node": "0", "app-node": "0", "db-node": "0"}),
        ({}, 2, {"web-node": "0", "app-node": "1", "db-node": "0"}),
        ({}, 4, {"web-node": "2", "app-node": "1", "db-node": "3"}),
        (
            {"stalls": [{"kind": "burn", "place": "db", "at": "1 s"}]},
            2,
            {"web-node": "0", "app-node": "0", "db-node": "1"},
        ),
        ({"nodes": {"app": {"cores": 2}}}, 2, {"web-node": "0", "app-node": "0,1", "db-node": "0"}),
    ],
)
def test_the_tier_that_matters_has_cpus_of_its_own(more: Any, cpus: int, expected: dict[str, str]) -> None:
    assert pinned(chain(**more), list(range(cpus))) == expected


def test_four_tomcats_share_what_is_left() -> None:
    four = {
        "web": {"software": "apache", "calls": ["app"]},
        "app": {"software": "tomcat", "count": 4, "calls": ["db"]},
        "db": {"software": "mysql"},
    }
    assert pinned(chain(tiers=four), [0, 1]) == {
        "app1-node": "1",
        "app2-node": "1",
        "app3-node": "1",
        "app4-node": "1",
        "web-node": "0",
        "db-node": "0",
    }


def test_more_cores_than_the_machine_has_are_refused() -> None:
    with pytest.raises(UsageError, match=r"nodes\.db-node\.cores: there are 2 CPUs; --set nodes\.db-node\.cores=2"):
        pinned(chain(nodes={"db": {"cores": 4}}), [0, 1])
