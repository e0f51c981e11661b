"""The unit of the flight recorder, as systemd reads it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "packaging" / "tailrace-watch.service"


def test_the_unit_is_started_again_and_gets_few_rights() -> None:
    lines = UNIT.read_text().splitlines()
    assert {"Restart=always", "StartLimitIntervalSec=0", "NoNewPrivileges=yes", "UMask=0077"} <= set(lines)
    [bounding] = [line for line in lines if line.startswith("CapabilityBoundingSet=")]
    assert "CAP_SYS_ADMIN" not in bounding
    assert {"DynamicUser=yes", bounding.replace("CapabilityBoundingSet", "AmbientCapabilities")} <= set(lines)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze (systemd)")
def test_systemd_takes_the_unit_as_it_is(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    there = shutil.which("true")
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/tailrace", there or ""))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
