"""The plans of experiments: beside `experiment.toml` is `plan.json`.

`make golden` rewrites the expectations; review the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tailrace import experiment, sim
from tailrace.experiment import layout

CASES = sorted((Path(__file__).parent / "plans").glob("*/experiment.toml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_plan(path: Path) -> None:
    found = experiment.read(path)
    shown = {"plan": sim.lower(found), "topology": layout.topology(found).model_dump(mode="json", exclude_none=True)}
    shown = json.loads(json.dumps(shown))
    expected = path.with_name("plan.json")
    if os.environ.get("TAILRACE_GOLDEN") == "rewrite":
        expected.write_text(_readable(shown) + "\n")
    assert shown == json.loads(expected.read_text()), "if this is an improvement: make golden, and review the diff"


def _readable(value: object, indent: int = 0) -> str:
    """JSON with one line for whatever fits into one."""
    line = json.dumps(value, ensure_ascii=False)
    plain = isinstance(value, list) and not any(isinstance(one, dict | list) for one in value)
    if len(line) + indent <= 110 or plain or not isinstance(value, dict | list):
        return line
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}: {_readable(one, indent + 1)}" for key, one in value.items()]
        return "{\n" + ",\n".join(pad + one for one in inner) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + _readable(one, indent + 1) for one in value) + "\n" + " " * indent + "]"
