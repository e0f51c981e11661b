"""What one run of a program takes.

The kernel counts the memory of a process to the children that it starts, until they run their own program. A small
process therefore starts the program: this file, run with a descriptor and a command. It adds its own 10 MiB at most.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time


def run(command: list[str], *, errors: int | None = None) -> tuple[bytes, dict[str, float]]:
    """Return what a command prints, and its `wall_s`, `cpu_s` and `peak_mb` (10^6 bytes). It must succeed. `errors` is
    where its errors go, as for `subprocess`."""
    told, tell = os.pipe()
    starter = [sys.executable, "-I", "-S", __file__, str(tell), *command]
    with os.fdopen(told, "rb") as answer:
        try:
            process = subprocess.Popen(starter, stdout=subprocess.PIPE, stderr=errors, pass_fds=(tell,))
        finally:
            os.close(tell)
        said, _ = process.communicate()
        took = json.loads(answer.read() or b"{}")
    if process.returncode or not took:
        raise SystemExit(f"{command} failed with status {process.returncode}")
    return said, took


def _start(tell: int, command: list[str]) -> int:
    began = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    took = {
        "wall_s": time.perf_counter() - began,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss * 1024 / 1e6,
    }
    os.write(tell, json.dumps(took).encode())
    return min(abs(os.waitstatus_to_exitcode(status)), 255)


if __name__ == "__main__":
    sys.exit(_start(int(sys.argv[1]), sys.argv[2:]))
