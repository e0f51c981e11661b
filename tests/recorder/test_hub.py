"""A watch between two namespaces reports a frozen server to a hub, which explains it from the watch's ring."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from recorders import MISSING, TAILRACE, frozen, served, started, two_hosts

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")


def test_what_a_watch_notices_becomes_an_incident_of_the_hub(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    of_hub = ("-o", str(tmp_path / "hub"), "--listen", f"127.0.0.1:{port}", "--token-file", str(token))
    with two_hosts() as hosts, served(hosts, tmp_path) as server, started(*TAILRACE, "hub", *of_hub) as hub:
        assert hub.stdout is not None
        assert "hub at" in hub.stdout.readline()
        words = ("-o", str(tmp_path / "own"), "--node", hosts.node, "--interface", "box:eth0")
        more = ("--server", f"web={hosts.address}:80", "--once", "--duration", "5min")
        to = ("--report-to", f"http://127.0.0.1:{port}", "--token-file", str(token), "--host", "box")
        with started(*TAILRACE, "watch", *words, *more, *to) as watch:
            assert watch.stdout is not None
            assert "watching" in watch.stdout.readline()
            with frozen(hosts, server, calm_s=4, asked_s=9):
                own = watch.stdout.read()
            assert watch.wait(60) == 0
        said = []
        while not any("recordings of box" in line for line in said):
            said.append(hub.stdout.readline())
            assert said[-1], said
        assert any("box noticed: " in line for line in said), own
    [incident] = (tmp_path / "hub").glob("incident-*")
    assert json.loads((incident / "diagnosis.json").read_text())["vlrt"] >= 5
    assert (incident / "report.html").stat().st_size > 50_000
    assert [path.name for path in (tmp_path / "own").iterdir() if "hub-" in path.name] == []
