"""Programs that change the machine: one that fails is an error with its own words."""

from __future__ import annotations

import subprocess

from tailrace.errors import TailraceError


def run(*command: str, text: str = "", advice: str = "") -> str:
    """Run a program with this text as its input, and return its output."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TailraceError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}", advice=advice)
    return done.stdout
