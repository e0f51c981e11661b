"""The files of an advice: the page, the JSON, and the experiment with the best change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tomli_w

from tailrace import whole
from tailrace.advise import page, serialise
from tailrace.advise.advice import Advice
from tailrace.experiment import Experiment, to_table

PAGE, JSON, BEST = "advice.html", "advice.json", "best.toml"


def write(advice: Advice, folder: Path) -> list[Path]:
    """The files that were written; there is no best.toml where no change helps."""
    texts = {PAGE: page.html(advice), JSON: serialise.text(advice)}
    if advice.best:
        texts[BEST] = _experiment(advice.best.experiment, folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        whole.write(folder / name, text.encode())
    return [folder / name for name in texts]


def _experiment(experiment: Experiment, folder: Path) -> str:
    """Files that it names are relative to its own folder."""
    table = to_table(experiment)
    named: list[dict[str, Any]] = [*table["workloads"].values(), *table.get("losses", [])]
    for one in named:
        if "file" in one:
            one["file"] = os.path.relpath(one["file"], folder)
    return tomli_w.dumps(table)
