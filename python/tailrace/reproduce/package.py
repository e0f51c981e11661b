"""The replication package: a page and a JSON file for each paper, a summary of all, and what made them.

```text
replication/   <paper>.html  <paper>.json   summary.md   manifest.json: versions, machine, seeds, duration, checksums
```
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from tailrace import foreign, whole
from tailrace.dataset.tables import sha256
from tailrace.reproduce import page
from tailrace.reproduce.outcome import Outcome
from tailrace.reproduce.reproduction import Reproduction, Sides, to_json
from tailrace.study.runs import fingerprint

LIBRARIES = ("tailrace", "polars", "numpy", "pydantic")
"""Whose versions may change a result."""
COLUMNS = (
    "claims that hold",
    "predicted numbers within a quarter",
    "calibrated numbers within a quarter",
    "runs in which the diagnosis finds the paper's cause",
)


def write(folder: Path, made: Reproduction, command: str, seconds: float) -> None:
    """Write the package; equal results give equal files but for the manifest's machine and duration."""
    written = [folder / "summary.md"]
    whole.write(written[0], summary(made).encode())
    for paper in _papers(made):
        one = _of(made, paper)
        for suffix, text in (("html", page.html(one)), ("json", to_json(one))):
            written.append(folder / f"{paper}.{suffix}")
            whole.write(written[-1], text.encode())
    manifest = {"format": 1, "command": command, "seconds": round(seconds, 1), **_made_by(), **_made_of(made)}
    manifest["files"] = {path.name: sha256(path) for path in written}
    whole.write(folder / "manifest.json", (foreign.json_text(manifest) + "\n").encode())


def summary(made: Reproduction) -> str:
    """Papers by what was compared, and then every claim that does not hold, with its reason."""
    papers = _papers(made)
    rows = [_row(f"**{paper}**", _of(made, paper)) for paper in papers] + [_row("**all**", made)]
    figures = [
        _row(f"{one.entry.paper} {one.entry.title}", replace(made, outcomes=(one,), sides=(sides,)))
        for one, sides in _pairs(made)
    ]
    lines = [
        "# The papers and the simulator",
        "",
        "A predicted number is one to which nothing was fitted. A claim is undecided if its 95 % interval contains 0.",
        "",
        *_table("paper", rows),
        "",
        "## Figures and tables",
        "",
        *_table("figure or table", figures),
        "",
        "## Claims that do not hold",
        "",
        *(list(_open_claims(made.outcomes)) or ["All claims hold."]),
    ]
    return "\n".join(lines) + "\n"


def _papers(made: Reproduction) -> list[str]:
    return list(dict.fromkeys(outcome.entry.paper for outcome in made.outcomes))


def _of(made: Reproduction, paper: str) -> Reproduction:
    outcomes, sides = zip(*(pair for pair in _pairs(made) if pair[0].entry.paper == paper), strict=True)
    numbers = {name: found for name, found in made.numbers.items() if name == paper}
    return Reproduction(outcomes, sides, numbers)


def _pairs(made: Reproduction) -> Iterator[tuple[Outcome, Sides | None]]:
    return zip(made.outcomes, made.sides, strict=True)


def _row(name: str, made: Reproduction) -> list[str]:
    counts = (made.claims, made.close(calibrated=False), made.close(calibrated=True), made.diagnosed)
    return [name, *(f"{held} of {every}" if every else "none" for held, every in counts)]


def _table(heading: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in ([heading, *COLUMNS], ["---"] * (1 + len(COLUMNS)), *rows):
        yield "| " + " | ".join(_cell(text) for text in row) + " |"


def _open_claims(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        for claim in outcome.claims:
            if claim.verdict != "holds":
                name = f"{outcome.entry.paper} {outcome.entry.title}"
                yield f"- {_cell(name)}, {claim.verdict}: {_cell(claim.says)} {_cell(claim.why)}"


def _cell(text: str) -> str:
    return foreign.visible(text).replace("|", "\\|").replace("<", "&lt;")


def _made_by() -> dict[str, Any]:
    """The machine and the programs, without the machine's name."""
    return {
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in LIBRARIES}},
        "code": fingerprint(),
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "processor": _cpu(),
            "cores": os.cpu_count(),
        },
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _made_of(made: Reproduction) -> dict[str, Any]:
    """The seeds of each figure, and the checksums of the files that describe it."""
    return {
        "figures": {
            f"{outcome.entry.paper} {outcome.entry.name}": {
                "seeds": list(outcome.seeds),
                "diagnosed": outcome.diagnosed,
                "files": {path.name: sha256(path) for path in sorted(outcome.entry.folder.iterdir()) if path.is_file()},
            }
            for outcome in made.outcomes
        }
    }
