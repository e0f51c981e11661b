"""The machine on which a bench runs, as its results name it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any


def about() -> dict[str, Any]:
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {"cpu": cpu[1] if cpu else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release()}


def load() -> list[float]:
    """The load averages of the last 1, 5 and 15 minutes."""
    return [round(one, 1) for one in os.getloadavg()]


def memory_mib(process: int, what: str = "VmRSS") -> float:
    """The resident memory of a process; with VmHWM its peak."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition(f"{what}:")[2].split(maxsplit=1)[0]) / 1024
