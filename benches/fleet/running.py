"""What both benches of a fleet do: they wait for things to happen, run the wanted parts, and keep the numbers."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results"


def until(holds: Callable[[], object], what: str, most_s: float) -> None:
    """Wait until this holds; end with what did not hold."""
    deadline = time.monotonic() + most_s
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"not within {most_s:.0f} s: {what}")
        time.sleep(0.1)


def cpu_s(process: int) -> float:
    """The CPU time of a process and of its children that have ended."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


def arguments(about: str | None, parts: Collection[str]) -> argparse.ArgumentParser:
    """The arguments of both; SIGTERM ends the bench in order."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--idle", type=int, default=60, metavar="S")
    parser.add_argument("--incidents", type=int, default=1_000)
    parser.add_argument("--only", nargs="*", choices=list(parts), default=list(parts))
    parser.add_argument("--save", metavar="NAME", help="write the numbers to benches/results/NAME.json")
    return parser


def save(found: dict[str, Any], name: str | None) -> None:
    if name:
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
