"""Packets of a live host: real HTTP between two namespaces, recorded as visits and as a capture, and compared with
tcpdump's record of the same packets."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from recorders import MISSING, SECOND, Hosts, children, end, recording, refused, served, started, two_hosts
from tailrace import read
from tailrace.dataset import Dataset
from tailrace.units import MILLISECOND

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")

# Connections of their own and one that is kept, with a pause that the last segments of a recording can be told by.
ASKING = """
import http.client, sys, time
address, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
kept = http.client.HTTPConnection(address, 80)
for number in range(count):
    fresh = http.client.HTTPConnection(address, 80)
    for connection in (fresh, kept):
        connection.request("GET", f"/page{number % 3}?n={number}", headers={"X-Padding": "x" * 300})
        connection.getresponse().read()
    fresh.close()
    time.sleep(pause)
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with two_hosts() as hosts:
        yield hosts


def asking(hosts: Hosts, count: int, pause: float = 0) -> tuple[str, ...]:
    return hosts.on(hosts.client, sys.executable, "-c", ASKING, hosts.address, str(count), str(pause))


TIMES = ("sent", "arrival", "departure")


def visits(run: Dataset) -> pl.DataFrame:
    """The part that does not depend on numbering."""
    names = [pl.col(name).cast(pl.String) for name in ("server", "interaction", "status")]
    return run.visits().select(*names, "drops", "bytes_in", "bytes_out", *TIMES).collect().sort("arrival")


def assert_agree(ours: pl.DataFrame, theirs: pl.DataFrame) -> None:
    """Each socket stamps a packet when the kernel delivers it, one after the other: some microseconds. A busy kernel
    may be interrupted between the two, and no bound is known for that."""
    assert_frame_equal(ours.drop(TIMES), theirs.drop(TIMES))
    apart = ours.select(TIMES) - theirs.select(TIMES)
    assert median(abs(value) for row in apart.rows() for value in row) < MILLISECOND


PATIENCE_S = 60


def wait_for_visits(count: int, pcap: Path, servers: dict[str, str]) -> Dataset:
    """A capture that tcpdump still writes. When tcpdump is ended it drops packets that it has not read, and on a busy
    machine it reads late."""
    until = time.monotonic() + PATIENCE_S
    while visits(seen := read(pcap, servers=servers, keep_queries=True)).height < count and time.monotonic() < until:
        time.sleep(0.5)
    return seen


@pytest.mark.skipif(not shutil.which("tcpdump"), reason="needs tcpdump: tools/setup --tests gets it")
def test_visits_and_capture_agree_with_tcpdump(hosts: Hosts, tmp_path: Path) -> None:
    pcap = tmp_path / "tcpdump.pcap"
    # Without immediate mode, tcpdump loses packets of the last second before its end.
    # Its buffer of 8 MB, instead of 2, holds all packets even if it gets no CPU meanwhile.
    dump = "tcpdump -i eth0 --immediate-mode -B 8192 -U -Z root --time-stamp-precision=nano tcp -w"
    # Otherwise the names of the first requests of a live recording depend on how fast they came.
    words = ("--node", hosts.node, "--interface", "box:eth0", "--server", f"web={hosts.address}:80", "--keep-queries")
    live, kept = tmp_path / "live", tmp_path / "kept"
    with served(hosts, tmp_path), started(*hosts.on(hosts.server, *dump.split(), str(pcap))) as tcpdump:
        assert tcpdump.stderr is not None
        assert any("listening" in line for line in tcpdump.stderr)
        with recording(live, *words) as one, recording(kept, "--capture", *words) as other:
            subprocess.run(asking(hosts, 50), check=True)
            for recorder in (one, other):
                end(recorder)
        seen = wait_for_visits(100, pcap, {"web": f"{hosts.address}:80"})
    for out in (live, kept):
        run = Dataset.open(out)
        run.validate(checksums=True)
        assert visits(run).height == 100
        assert_agree(visits(run), visits(seen))
        assert run.requests().collect().height == 100
        # type: ignore[union-attr]
        assert run.topology.server("web") == seen.topology.server("web").model_copy(update={"node": "box"})
        assert run.manifest.lost == {}
        assert not out.with_name(f"{out.name}.recording").exists()
    assert (kept / "raw/packets.pcap").stat().st_size > 0


def test_a_killed_recorder_loses_at_most_a_second_of_visits(hosts: Hosts, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("--node", hosts.node, "--interface", "box:eth0")
    with served(hosts, tmp_path), started(*asking(hosts, 10_000, 0.02)), recording(out, *words) as process:
        time.sleep(3.5)
        killed = time.time_ns()
        process.kill()
        process.wait()
    run = read(tmp_path / "run.recording")
    departures = run.visits().select("departure").collect()["departure"]
    last = departures.max()
    assert isinstance(last, int)
    assert 0 <= killed - last < 1.3 * SECOND
    assert departures.len() > 40
    assert any("killed" in what for what in run.manifest.lost)


def test_a_bridge_shows_what_passes_it_to_a_recorder_that_is_promiscuous(tmp_path: Path) -> None:
    all_of_it, own = tmp_path / "all", tmp_path / "own"
    with two_hosts(bridged=True) as hosts, served(hosts, tmp_path):
        words = ("--node", f"switch=netns:/run/netns/{hosts.switch}", "--interface", "switch:br0")
        with recording(all_of_it, "--promiscuous", *words) as promiscuous:
            subprocess.run(asking(hosts, 10), check=True)
            end(promiscuous)
        with recording(own, *words) as modest:
            subprocess.run(asking(hosts, 10), check=True)
            end(modest)
    assert visits(Dataset.open(all_of_it)).height == 20
    assert not Dataset.open(own).topology.servers


def test_only_the_given_ports_are_recorded(hosts: Hosts, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("--node", hosts.node, "--interface", "box:eth0", "--port", "8080")
    with served(hosts, tmp_path), recording(out, *words) as process:
        subprocess.run(asking(hosts, 3), check=True)
        end(process)
    assert not Dataset.open(out).topology.servers


def test_requests_bear_the_names_that_rules_give_them(hosts: Hosts, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[interactions]]\nmatch = '^GET /page(\\d)'\nname = 'page $1'\n")
    words = ("--node", hosts.node, "--interface", "box:eth0", "--interactions", str(rules))
    live, kept = tmp_path / "live", tmp_path / "kept"
    with served(hosts, tmp_path), recording(live, *words) as one, recording(kept, "--capture", *words) as other:
        subprocess.run(asking(hosts, 3), check=True)
        for recorder in (one, other):
            end(recorder)
    for out in (live, kept):
        assert set(visits(Dataset.open(out))["interaction"]) == {"page 0", "page 1", "page 2"}


def test_a_removed_interface_is_reported_and_the_others_are_recorded(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with (
        two_hosts() as hosts,
        served(hosts, tmp_path),
        recording(out, "--node", hosts.node, "--interface", "box:eth0") as process,
    ):
        subprocess.run(asking(hosts, 5), check=True)
        subprocess.run(["ip", "-n", hosts.server, "link", "del", "eth0"], check=True)
        gone = time.time_ns()
        time.sleep(1.5)
        _, err = end(process)
    assert "eth0 is gone: its packets are missing until" in err
    run = Dataset.open(out)
    assert any("packets are missing" in note for note in run.manifest.notes)
    assert visits(run).height == 10
    assert run.samples().select(pl.col("time").max()).collect().item() > gone + SECOND


def test_packets_that_find_no_room_are_counted(hosts: Hosts, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with served(hosts, tmp_path):
        (tmp_path / "large").write_bytes(bytes(20_000_000))
        # As many packets on any machine: none stands for several.
        subprocess.run(["ip", "-n", hosts.server, "link", "set", "eth0", "gso_max_segs", "1"], check=True)
        with recording(out, "--node", hosts.node, "--interface", "box:eth0", "--ring", "1MiB") as process:
            [decoder] = children(process.pid)
            os.kill(decoder, signal.SIGSTOP)
            fetch = f"import urllib.request; urllib.request.urlopen('http://{hosts.address}/large').read()"
            subprocess.run(hosts.on(hosts.client, sys.executable, "-c", fetch), check=True)
            os.kill(decoder, signal.SIGCONT)
            _, err = end(process)
    lost = Dataset.open(out).manifest.lost
    assert lost["eth0: packets that the capture itself lost"] > 100
    assert "eth0: packets that the capture itself lost" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--interface", "never0"], "there is no interface never0"),
        (["--interface", "box:eth0"], "box is no --node with a netns"),
        (["--port", "80"], "--port, --capture, --interactions, --protocol and --keep-queries apply to packets"),
        (["--interface", "lo", "--interactions", "never.toml"], "never.toml"),
        (["--interface", "lo", "--ring", "1kB"], "it must be 1 MiB to 1 GiB"),
    ],
)
def test_what_cannot_be_recorded_is_refused_and_leaves_no_files(words: list[str], said: str, tmp_path: Path) -> None:
    assert said in refused("-o", str(tmp_path / "run"), *words)
    assert list(tmp_path.iterdir()) == []
