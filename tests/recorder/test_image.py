"""The image runs with the rights of its manifest, and as any user without network.

The test builds no image, because the bases are in registries. Build one first:
`podman build -f deploy/Dockerfile -t localhost/tailrace .`
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/tailrace"


def podman() -> tuple[str, ...]:
    runtime = shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin") or shutil.which("crun") or "runc"
    return ("podman", "--runtime", runtime, "--cgroup-manager", "cgroupfs")


@pytest.fixture(autouse=True)
def image() -> None:
    if os.geteuid() != 0 or not shutil.which("podman"):
        pytest.skip("needs root and podman, and runc or crun")
    if subprocess.run((*podman(), "image", "exists", IMAGE), capture_output=True).returncode:
        pytest.skip(f"needs an image: podman build -f deploy/Dockerfile -t {IMAGE} .")


def run(options: tuple[str, ...], *words: str) -> str:
    limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", "--read-only")
    command = (*podman(), "run", "--rm", *limits, *options, IMAGE, *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_any_user_can_explain_a_capture_without_network() -> None:
    data = ROOT / "tests/golden/recordings/sync-control"
    options = ("--network", "none", "--user", "12345:12345", "--volume", f"{data}:/data:ro")
    assert json.loads(run(options, "diagnose", "/data/packets.pcap.zst", "--json"))["requests"] == 3_988


def test_a_watch_runs_with_the_rights_of_the_manifest() -> None:
    pod = yaml.safe_load((ROOT / "deploy/daemonset.yaml").read_text())["spec"]["template"]["spec"]
    rights = pod["containers"][0]["securityContext"]["capabilities"]
    capabilities = (f"--cap-drop={','.join(rights['drop'])}", f"--cap-add={','.join(rights['add'])}")
    place = ("--security-opt", "no-new-privileges", "--network", "host", "--pid", "host", "--tmpfs", "/incidents")
    words = ("watch", "--out", "/incidents/here", "--interface", "any", "--duration", "3s")
    assert "watching; incidents go to /incidents/here" in run((*capabilities, *place), *words)
