"""What the testbed cannot do is refused by name, before anything is created; servers accept their configuration."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tailrace import experiment
from tailrace.errors import UsageError
from tailrace.experiment import places
from tailrace.testbed import disk, refusals
from tailrace.testbed.cgroup import Hierarchies
from tailrace.testbed.program import command
from tailrace.testbed.servers import KINDS
from tailrace.testbed.settings import settings

ROOT = Path(__file__).parents[2]
SYNC = ROOT / "experiments/testbed/sync"
TODAY = "kernel.syn=linux-6.5"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["kernel.syn=linux-2.6.32"], "kernel.syn: this machine's kernel can do linux-6.5 and linux-3.3"),
        (["kernel.data=['200 ms']"], "kernel.data: this machine's kernel repeats data in its own way"),
        (["latency=20 ms"], "latency: packets pass"),
        (["tiers.web.kind=async"], "tiers.web.kind: Apache's worker MPM is synchronous; use nginx"),
        (["tiers.web.software=nginx", "tiers.web.kind=sync"], "tiers.web.kind: nginx is asynchronous; use apache"),
        (["tiers.web.calls=['db']", "workloads.steady.entry=web"], "tiers.web.calls: mod_jk speaks only to Tomcat"),
        (["tiers.app.count=2", "tiers.web.calls.app.policy=peak_ewma"], "tiers.web.calls.policy: mod_jk has total_"),
        (["tiers.web.calls.app.recover_time=500 ms"], "tiers.web.calls.recover_time: mod_jk takes whole seconds"),
        (["tiers.web.calls.app.recover_time=1500 ms"], "tiers.web.calls.recover_time: mod_jk takes whole seconds"),
        (
            ["tiers.app.calls.db.recover_time=60 s"],
            "tiers.app.calls.db.recover_time: only its balancer mod_jk has an error",
        ),
        (["tiers.db.count=2"], "tiers.app.calls: the bulletin board calls one database; put a tier of haproxy before"),
        (["tiers.db.kind=async"], "tiers.db.kind: MariaDB is synchronous"),
        (["tiers.app.spawn={}"], "tiers.app.spawn: only Apache starts further processes"),
        (["interactions.ViewStory.servlet=Search"], "interactions.ViewStory.servlet: the bulletin board has servlets"),
        (
            ["tiers.app.heap=jvm16", "tiers.app.heap.old_above=9"],
            "tiers.app.heap.old_above: the JVM decides when an old collection foll",
        ),
        (
            ["tiers.app.heap=jvm16", "tiers.app.heap.filled=[0.5]"],
            "tiers.app.heap.filled: a JVM begins with",
        ),
        (
            ["tiers.db.cores=0.5"],
            "tiers.db.cores: control groups limit a server by nodes.db.cores or by tiers.db.quota",
        ),
        (
            ["nodes.db.disk.bandwidth=1 MB/s", "nodes.db.disk.writeback.phases=drawn"],
            "nodes.db-node.disk.writeback.phases: its flushers wake at even times",
        ),
        (["tiers.db.order=lightest"], "tiers.db.order: its servers do not know the interaction of a request"),
        (
            ["stalls=[{kind='iowait', place='db', at='1 s'}]"],
            "stalls[0].kind: real waiting needs a busy disk",
        ),
        (
            ["interactions.ViewStory.at.app.calls={'SELECT stories'={}, 'SELECT users'={with_previous=true}}"],
            "interactions.ViewStory.at.app.calls.SELECT users.with_previous: its servers make one call after another",
        ),
        (
            ["interactions.ViewStory.at.app.calls={'SELECT stories'={count=2, parallel=true}}"],
            "interactions.ViewStory.at.app.calls.SELECT stories.parallel: its servers make one call after another",
        ),
        (["workloads.steady.kernel=linux-3.3"], "workloads.steady.kernel: all of its nodes run on one kernel"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(changes: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        refusals.refuse(experiment.read(SYNC, changes))
    assert said in str(refused.value)


def test_a_software_that_it_does_not_have_is_refused() -> None:
    bare = experiment.from_table({"tiers": {"web": {}}, "workloads": {"steady": {"clients": 1}}})
    with pytest.raises(
        UsageError, match=r"tiers\.web\.software: it must be one of apache, nginx, tomcat.*without one, it plays"
    ):
        refusals.refuse(bare)


@pytest.mark.parametrize("path", sorted((ROOT / "experiments/testbed").glob("*/experiment.toml")), ids=str)
def test_its_own_experiments_can_be_done(path: Path) -> None:
    found = experiment.read(path)
    lacking = disk.problem() if any(node.disk for node in places.nodes(found).values()) else None
    if lacking:
        pytest.skip(lacking)
    refusals.refuse(found)


def test_a_disk_of_its_own_is_refused_where_none_can_be_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "mounted", lambda: Hierarchies({}, Path("/sys/fs/cgroup")))
    with pytest.raises(UsageError, match=r"nodes\.db-node\.disk: (version 1 of cgroup blkio|it lacks|its kernel)"):
        refusals.refuse(experiment.read(SYNC, ["nodes.db.disk={}"]))


CHECKED = {
    "apache": ["apache2", "-t", "-f", "{}/apache.conf"],
    "nginx": ["nginx", "-t", "-c", "{}/nginx.conf"],
    "haproxy": ["haproxy", "-c", "-f", "{}/haproxy.cfg"],
}
CASES = [
    *(path.parent for path in sorted((ROOT / "experiments/testbed").glob("*/experiment.toml"))),
    *(path.parent for path in sorted((ROOT / "tests/golden/testbed").glob("*/experiment.toml"))),
]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_servers_accept_their_configuration(case: Path, tmp_path: Path) -> None:
    found = experiment.read(case)
    here = dict.fromkeys(places.nodes(found), "127.0.0.1")
    told: dict[str, Any] = settings(found, here, tmp_path)
    for name, setting in told.items():
        check = CHECKED.get(setting.tier.software)
        if check is None:
            continue
        if command(check[0]) is None:
            pytest.skip(f"{check[0]} is not installed; `make testbed-setup` installs it")
        setting.folder.mkdir()
        for file, text in KINDS[setting.tier.software].files(setting).items():
            (setting.folder / file).write_text(text)
        line = [command(check[0]), *(word.format(setting.folder) for word in check[1:])]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        assert "warn" not in done.stderr.lower(), f"{name}: {done.stderr}"
