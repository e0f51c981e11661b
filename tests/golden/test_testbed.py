"""Configurations of servers from experiments: beside `experiment.toml` is a folder for each server.

`make golden` rewrites the expectations; review the diff.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tailrace import experiment
from tailrace.experiment import places
from tailrace.testbed import net
from tailrace.testbed.servers import KINDS
from tailrace.testbed.settings import settings

ROOT = Path(__file__).parents[2]
CASES = {
    **{path.parent.name: path for path in sorted((ROOT / "experiments/testbed").glob("*/experiment.toml"))},
    **{path.parent.name: path for path in sorted((Path(__file__).parent / "testbed").glob("*/experiment.toml"))},
}


@pytest.mark.parametrize("name", CASES)
def test_configuration(name: str) -> None:
    found = experiment.read(CASES[name])
    addresses = net.addresses(["clients", *places.nodes(found)])
    configured = {
        f"{server}/{file}": text
        for server, setting in settings(found, addresses, Path("/run")).items()
        for file, text in KINDS[setting.tier.software or ""].files(setting).items()
    }
    folder = Path(__file__).parent / "testbed" / name
    if os.environ.get("TAILRACE_GOLDEN") == "rewrite":
        for server in {file.partition("/")[0] for file in configured}:
            shutil.rmtree(folder / server, ignore_errors=True)
            (folder / server).mkdir(parents=True)
        for file, text in configured.items():
            (folder / file).write_text(text)
    expected = {str(file.relative_to(folder)): file.read_text() for file in folder.glob("*/*") if file.parent != folder}
    assert configured == expected, "if this is an improvement: make golden, and review the diff"
