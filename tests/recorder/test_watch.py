"""The flight recorder between two namespaces: a server is frozen for a second, and the watch must detect it by
itself."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from recorders import MISSING, TAILRACE, frozen, served, started, two_hosts
from tailrace.dataset import Dataset
from tailrace.watch.incidents import number_of

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")

PORT = 18464


def served_metrics(until: str) -> dict[str, float]:
    """What the watch serves as soon as a metric of this name has a value above zero."""
    end = time.monotonic() + 30
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        found = {name: float(value) for name, value in pairs}
        if any(value and name.startswith(until) for name, value in found.items()) or time.monotonic() > end:
            return found
        time.sleep(0.2)


def test_a_frozen_server_is_noticed_and_explained(tmp_path: Path) -> None:
    out = tmp_path / "incidents"
    with two_hosts() as hosts, served(hosts, tmp_path) as server:
        words = ("-o", str(out), "--node", hosts.node, "--interface", "box:eth0", "--server", f"web={hosts.address}:80")
        outlets = ("--metrics", f"127.0.0.1:{PORT}", "--notify", "http://127.0.0.1:9/secret")
        with started(*TAILRACE, "watch", *words, *outlets, "--once", "--duration", "5min") as watch:
            assert watch.stdout is not None
            assert "watching" in watch.stdout.readline()
            with frozen(hosts, server, calm_s=4, asked_s=9):
                said = [watch.stdout.readline()]
                metrics = served_metrics("tailrace_vlrt_total")
                said += watch.stdout.readlines()
            assert watch.wait(60) == 0
    assert "noticed: " in said[0]
    [incident] = out.glob("incident-*")
    [_] = [line for line in said if f"{incident}: " in line]
    [unsent] = [line for line in said if "webhook at http://127.0.0.1:9: " in line]
    assert f"{incident.name} could not be sent: [Errno 111] Connection refused (5 tries)" in unsent
    assert metrics['tailrace_vlrt_total{tailrace_server="web"}'] >= 5
    assert metrics['tailrace_queue_length_max{tailrace_server="web"}'] >= 5
    assert metrics["tailrace_watch_last_segment_timestamp_seconds"] > time.time() - 600
    assert f'href="{incident.name}/report.html"' in (out / "index.html").read_text()
    Dataset.open(incident).validate()
    diagnosis = json.loads((incident / "diagnosis.json").read_text())
    assert diagnosis["vlrt"] >= 5
    assert (incident / "report.html").stat().st_size > 50_000
    assert "web" in (incident / "diagnosis.txt").read_text()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_watch_and_leaves_nothing(tmp_path: Path, how: signal.Signals) -> None:
    out = tmp_path / "incidents"
    with started(*TAILRACE, "watch", "-o", str(out), "--interface", "lo", "--port", "9") as watch:
        assert watch.stdout is not None
        assert "watching" in watch.stdout.readline()
        watch.send_signal(how)
        assert watch.wait(60) == 0
    assert list(out.iterdir()) == []


def test_a_watch_that_was_killed_in_an_incident_explains_it_when_it_is_started_again(tmp_path: Path) -> None:
    out = tmp_path / "incidents"
    with two_hosts() as hosts, served(hosts, tmp_path) as server:
        words = ("-o", str(out), "--node", hosts.node, "--interface", "box:eth0", "--server", f"web={hosts.address}:80")
        with started(*TAILRACE, "watch", *words) as watch:
            assert watch.stdout is not None
            assert "watching" in watch.stdout.readline()
            with frozen(hosts, server, calm_s=2, asked_s=5):
                while "noticed" not in watch.stdout.readline():
                    pass
                time.sleep(4)
                watch.kill()
        assert [path.name for path in out.iterdir()] == ["recording"]
        with started(*TAILRACE, "watch", *words) as watch:
            assert watch.stdout is not None
            said = [watch.stdout.readline() for _ in range(3)]
            watch.send_signal(signal.SIGTERM)
            assert watch.wait(600) == 0  # on a busy machine, the page is made at the lowest priority
    [incident] = out.glob("incident-*")
    assert "watching" in said[0]
    assert f"explaining the incident at which the previous watch was killed: {incident}" in said[1]
    assert f"{incident}: " in said[2]
    assert json.loads((incident / "diagnosis.json").read_text())["vlrt"] >= 5
    assert any("the recorder was killed" in note for note in Dataset.open(incident).manifest.notes)


def test_a_watch_whose_disk_is_full_says_so_once_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    small = ("mount", "-t", "tmpfs", "-o", "size=2m", "tailrace-test", str(tmp_path))
    if subprocess.run(small, capture_output=True).returncode != 0:
        pytest.skip("mounts nothing")
    out, filler = tmp_path / "incidents", tmp_path / "filler"

    def newest() -> int:
        return max((number_of(path) for path in (out / "recording").glob("*.parquet")), default=0)

    try:
        words = ("-o", str(out), "--interface", "lo", "--port", "9", "--interval", "10ms")
        with started(*TAILRACE, "watch", *words) as watch:
            assert watch.stdout is not None
            assert "watching" in watch.stdout.readline()
            with suppress(OSError), filler.open("wb", buffering=0) as full:
                while True:
                    full.write(bytes(4096))
            said = watch.stdout.readline()
            assert "No space left on device" in said
            before = newest()
            filler.unlink()
            deadline = time.monotonic() + 120
            while newest() <= before + 2:
                assert time.monotonic() < deadline, "the watch writes no more"
                assert watch.poll() is None
                time.sleep(0.1)
            watch.send_signal(signal.SIGTERM)
            assert watch.wait(60) == 0
            assert not [line for line in watch.stdout if "No space" in line]
        assert list(out.iterdir()) == []
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
