"""Namespaces, groups and programs of the testbed on this machine, as root, under names of their own."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tailrace import experiment
from tailrace.errors import TailraceError, UsageError
from tailrace.testbed import cgroup, doctor, net, nodes, program, undoing
from tailrace.testbed.ledger import InUseError, Ledger, held
from tailrace.testbed.site import Site

SITE = Site("tailrace-test")
EXPERIMENT = experiment.from_table(
    {"tiers": {"web": {"calls": ["app"]}, "app": {"role": "app"}}, "workloads": {"steady": {"clients": 1}}}
)


@pytest.fixture
def site() -> Iterator[Site]:
    """Clean before and after, whatever a killed earlier run of these tests left."""
    lacking = doctor.missing([f for f in doctor.examine(SITE) if f.what not in doctor.SERVERS])
    if lacking:
        pytest.skip(lacking)
    with (Path(tempfile.gettempdir()) / f"{SITE.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # these tests may run twice on a machine, in two checkouts
        undoing.clean(SITE)
        yield SITE
        assert_clean()


def assert_clean() -> None:
    assert net.named(SITE) == []
    assert not [root for root in cgroup.mounted().roots if (root / SITE.group).exists()]
    shutil.rmtree(SITE.state)


@pytest.fixture
def ledger(site: Site) -> Iterator[Ledger]:
    with held(site) as found:
        yield found
        undoing.undo(found)


def test_nodes_reach_each_other_and_nothing_else(ledger: Ledger, tmp_path: Path) -> None:
    up = nodes.up(SITE, ledger, EXPERIMENT, {"net.ipv4.tcp_syncookies": "0"})
    assert up.addresses == {"clients": "10.77.0.2", "web-node": "10.77.0.3", "app-node": "10.77.0.4"}
    serve = [sys.executable, "-m", "http.server", "8009", "--bind", up.addresses["app-node"]]
    app = program.start("app", serve, up.rooms["app"], tmp_path / "app.log")
    app.wait_until(program.listening(up.rooms["app"], 8009), 20)
    connect = "import socket, sys; socket.create_connection((sys.argv[1], 8009), 2)"
    probe = [*net.inside(SITE.namespace("web-node")), sys.executable, "-c", connect]
    assert subprocess.run([*probe, up.addresses["app-node"]], check=False).returncode == 0
    assert not program.listening(up.rooms["web"], 8009)()
    assert app.process.pid in up.rooms["app"].group.pids()
    assert up.rooms["app"].group.used_ns() > 0
    show = [*net.inside(SITE.namespace("web-node")), "sysctl", "-n", "net.ipv4.tcp_syncookies"]
    assert subprocess.run(show, capture_output=True, text=True, check=True).stdout == "0\n"
    app.stop()
    assert up.rooms["app"].group.pids() == []


def spin(up: nodes.Nodes, folder: Path) -> program.Program:
    return program.start("app", [sys.executable, "-c", "while True: pass"], up.rooms["app"], folder / "app.log")


def used(group: cgroup.Group, seconds: float) -> float:
    """Share of a CPU."""
    before, begun = group.used_ns(), time.monotonic()
    time.sleep(seconds)
    return (group.used_ns() - before) / 1e9 / (time.monotonic() - begun)


def test_a_frozen_group_uses_nothing_and_a_limited_one_no_more_than_it_may(ledger: Ledger, tmp_path: Path) -> None:
    up = nodes.up(SITE, ledger, EXPERIMENT, {})
    group = up.rooms["app"].group
    spin(up, tmp_path)
    used(group, 0.2)
    group.freeze()
    time.sleep(0.05)
    assert used(group, 0.2) < 0.01
    group.thaw()
    group.limit(10_000_000, 100_000_000)
    assert 0 < used(group, 0.5) < 0.25  # a tenth, and what one period more or less is in half a second
    group.freeze()  # undoing thaws it


def ended(pid: int) -> bool:
    """Gone, or a zombie whose new parent has not reaped it yet."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_killed_testbed_is_undone_by_the_next(ledger: Ledger, tmp_path: Path) -> None:
    killed = (
        "import os, signal, sys; sys.path[:0] = sys.argv[2:]; import test_rooms as t; from pathlib import Path\n"
        "from tailrace.testbed.ledger import Ledger\n"
        "up = t.nodes.up(t.SITE, Ledger(t.SITE.state), t.EXPERIMENT, {}); t.spin(up, Path(sys.argv[1]))\n"
        "while not up.rooms['app'].group.pids(): pass\n"
        "up.rooms['app'].group.freeze(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    paths = [str(Path(__file__).parent), *sys.path]
    done = subprocess.run([sys.executable, "-c", killed, str(tmp_path), *paths], check=False)
    assert done.returncode == -signal.SIGKILL
    group = cgroup.Group(cgroup.mounted(), SITE.group)
    [spinning] = group.pids()
    steps = undoing.undo(ledger)
    assert ("group", SITE.group) in steps
    assert ledger.steps() == []
    assert ended(spinning)
    assert undoing.undo(ledger) == []
    nodes.up(SITE, ledger, EXPERIMENT, {})  # and the place is free


def test_a_second_testbed_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match=f"in use by process {os.getpid()}; wait for it"), held(SITE):
        pass
    # The lock is held by another process than the one that wrote there: that number must not get a signal.
    (SITE.state / "lock").write_text(f"{os.getpid()} 1")
    with pytest.raises(InUseError) as refused, held(SITE):
        pass
    assert refused.value.holder == 0


def ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True)


@contextmanager
def strangers() -> Iterator[subprocess.Popen[bytes]]:
    """Namespaces, and a group with a process, that another program gave the testbed's names."""
    group = cgroup.Group(cgroup.mounted(), SITE.group).make("0")
    names = [SITE.namespace(name) for name in ("app-node", "mine")]
    for name in names:
        ip("netns", "add", name)
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            for entry in group.entries():
                entry.write_text(str(process.pid))
            yield process
            assert process.poll() is None
        finally:
            process.kill()
            group.remove()
            for name in names:
                ip("netns", "del", name)


def test_what_no_testbed_made_is_left_alone(site: Site) -> None:
    with strangers() as process:
        assert undoing.clean(site) == []
        assert process.pid in cgroup.Group(cgroup.mounted(), site.group).pids()
        told = [what for _, what in undoing.strangers(site)]
        assert {"tailrace-test.app-node", "tailrace-test.mine"} < set(told)
        assert any(what.endswith("/tailrace-test") for what in told)
        with held(site) as ledger:
            remove = "and no testbed made it; if you do not need it: `ip netns del tailrace-test.app-node`"
            with pytest.raises(TailraceError, match=remove):
                nodes.up(site, ledger, EXPERIMENT, {})
        made_before_it = [site.namespace(node) for node in ("web-node", "clients", "switch")]
        assert [what for _, what in undoing.clean(site)] == made_before_it


def test_a_foreign_group_is_not_used(site: Site) -> None:
    group = cgroup.Group(cgroup.mounted(), site.group)
    group.place()
    try:
        with held(site) as ledger, pytest.raises(TailraceError, match="a control group tailrace-test exists already"):
            nodes.up(site, ledger, EXPERIMENT, {})
        assert ("group", site.group) not in undoing.clean(site)
        assert group.known_by()
    finally:
        group.remove()


def test_what_bears_a_name_of_the_ledger_later_is_left_alone(site: Site) -> None:
    with held(site) as ledger:
        nodes.up(site, ledger, EXPERIMENT, {})
    known = ledger.file.read_text()
    undoing.clean(site)
    ledger.file.write_text(known)
    with strangers():
        assert undoing.clean(site) == []
        assert ledger.steps() == []


def test_unrecognised_leftovers_are_removed_only_if_they_are_empty(site: Site) -> None:
    empty, used = (site.namespace(name) for name in ("empty", "used"))
    group = cgroup.Group(cgroup.mounted(), site.group)
    with held(site) as ledger:
        for name in (empty, used):
            ledger.note("namespace", name)
            ip("netns", "add", name)
        ledger.note("namespace", site.namespace("never-made"))
        ledger.note("group", site.group)
    ip("-n", used, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    group.place()
    inside = cgroup.Group(group.hierarchies, f"{group.path}/inside")
    inside.place()
    try:
        assert undoing.clean(site) == [("namespace", empty)]
        assert inside.known_by()
        with held(site) as ledger:
            ledger.note("group", f"{group.path}/inside")
        assert undoing.clean(site) == [("group", f"{group.path}/inside")]
        assert group.known_by()
    finally:
        ip("netns", "del", used)
        group.remove()


def test_a_program_that_does_not_start_says_why(ledger: Ledger, tmp_path: Path) -> None:
    up = nodes.up(SITE, ledger, EXPERIMENT, {})
    command = ["sh", "-c", "echo no such configuration; exit 3"]
    app = program.start("app", command, up.rooms["app"], tmp_path / "app.log")
    with pytest.raises(TailraceError, match="app ended with 3 before it was ready: no such configuration"):
        app.wait_until(lambda: False, 20)
    slow = program.start("db", ["sleep", "60"], up.rooms["web"], tmp_path / "db.log")
    with pytest.raises(TailraceError, match=r"db was not ready after 0.1 s: .*db.log is empty"):
        slow.wait_until(lambda: False, 0.1)
    slow.stop()
    assert slow.process.returncode == -signal.SIGTERM
