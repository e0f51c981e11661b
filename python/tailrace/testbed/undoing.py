"""How each kind of step is undone, and what is undone although nobody wrote it down."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable

from tailrace.testbed import disk, net
from tailrace.testbed.cgroup import Group, mounted
from tailrace.testbed.ledger import InUseError, Ledger, Step, held
from tailrace.testbed.site import Site

DOWN_S = 60.0
"""Servers have ten seconds each to stop."""


def _group(path: str) -> None:
    Group(mounted(), path).remove()


def _folder(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


UNDO: dict[str, Callable[[str], None]] = {
    "namespace": net.remove,
    "group": _group,  # ends the processes in it
    "folder": _folder,
    "disk": disk.remove,
}


def undo(ledger: Ledger) -> list[Step]:
    return ledger.undo(UNDO)


def clean(site: Site) -> list[Step]:
    """Undo all that there is of a testbed, noted or not; returns what was found."""
    with held(site) as ledger:
        there = [("namespace", name) for name in net.named(site)]
        there += [("group", site.group) for root in mounted().roots[:1] if (root / site.group).exists()]
        for step in there:
            if step not in ledger.steps():
                ledger.note(*step)
        return undo(ledger)


def take_down(site: Site) -> bool:
    """End the process that holds a testbed up, as Ctrl-C would, and wait for it; whether there was one."""
    deadline, there = time.monotonic() + DOWN_S, False
    while True:
        try:
            clean(site)
            return there
        except InUseError as use:
            if time.monotonic() > deadline:
                raise
            if use.holder and not there:
                os.kill(use.holder, signal.SIGTERM)
                there = True
        time.sleep(0.1)
