"""What one run of a program takes."""

from __future__ import annotations

import os
import subprocess
import time


def run(command: list[str]) -> tuple[bytes, dict[str, float]]:
    """Return what a command prints, and its `wall_s`, `cpu_s` and `peak_mb` (10^6 bytes). It must succeed."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    said = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} failed with status {status}")
    return said, {
        "wall_s": time.perf_counter() - began,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss * 1024 / 1e6,
    }
