"""The replication package: a page, its PDF and a JSON file for each paper, a summary of all, and what made them.

```text
replication/   <paper>.html  .pdf  .json   summary.md   manifest.json: versions, machine, seeds, duration, checksums
```
"""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from tailrace import foreign, whole
from tailrace.dataset.tables import sha256
from tailrace.reproduce import page, printing, summary
from tailrace.reproduce.earlier import Earlier, completed
from tailrace.reproduce.reproduction import Reproduction, to_json
from tailrace.study.runs import fingerprint

LIBRARIES = ("tailrace", "polars", "numpy", "pydantic")
"""Whose versions may change a result."""


def write(folder: Path, made: Reproduction, command: str, seconds: float, earlier: Earlier) -> dict[str, str]:
    """Write the package; equal results give equal files but for the PDFs, and the manifest's machine and duration.
    `earlier` has the claims on real servers, and the diagnoses of figures that this command did not diagnose. Returns
    the files that could not be made, with the reason."""
    made = replace(made, outcomes=tuple(completed(outcome, earlier.diagnoses) for outcome in made.outcomes))
    written = [folder / "summary.md"]
    whole.write(written[0], summary.markdown(made, earlier.verdicts).encode())
    unprinted: dict[str, str] = {}
    for paper in made.papers:
        one = summary.of_paper(made, paper)
        printed = folder / f"{paper}.pdf"
        for suffix, text in (("html", page.html(one)), ("json", to_json(one))):
            written.append(folder / f"{paper}.{suffix}")
            whole.write(written[-1], text.encode())
        why = printing.pdf(folder / f"{paper}.html", printed)
        if why:
            unprinted[printed.name] = why
        else:
            written.append(printed)
    manifest = {"format": 1, "command": command, "seconds": round(seconds, 1), **_made_by(), **_made_of(made)}
    manifest["files"] = {path.name: sha256(path) for path in written}
    manifest["skipped"] = unprinted
    whole.write(folder / "manifest.json", (foreign.json_text(manifest) + "\n").encode())
    return unprinted


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
                "replications": list(outcome.seeds),
                "first_seed": outcome.first_seed,
                "diagnosed": outcome.diagnosed,
                "files": {path.name: sha256(path) for path in sorted(outcome.entry.folder.iterdir()) if path.is_file()},
            }
            for outcome in made.outcomes
        }
    }
