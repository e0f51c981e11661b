"""How each kind of step is undone. A thing that the ledger does not recognise belongs to another program, whatever its
name."""

from __future__ import annotations

import json
import os
import signal
import time

from tailrace.testbed import disk, folders, net, swap
from tailrace.testbed.cgroup import Group, mounted
from tailrace.testbed.ledger import InUseError, Ledger, Step, Undo, held
from tailrace.testbed.site import Site

DOWN_S = 60.0
"""Servers have ten seconds each to stop."""


def _group(path: str, known_by: str | None) -> bool:
    """Ends the processes in it."""
    if known_by is None:
        return Group(mounted(), path).remove_empty()
    ours = Group(mounted().where(path, json.loads(known_by)), path)
    if not ours.hierarchies.roots:
        return False
    ours.remove()
    return True


UNDO: Undo = {
    "namespace": net.remove,
    "group": _group,
    "folder": folders.remove,
    "disk": disk.remove,
    "swap": swap.remove,
}


def undo(ledger: Ledger) -> list[Step]:
    return ledger.undo(UNDO)


def clean(site: Site) -> list[Step]:
    """Undo the steps of the ledger; returns what existed."""
    with held(site) as ledger:
        return undo(ledger)


def strangers(site: Site) -> list[Step]:
    """Things with names like the testbed's that are not its own; after `clean`, these are all that exist."""
    found = [("namespace", name) for name in net.named(site)]
    return found + [("group", f"{root}/{site.group}") for root in Group(mounted(), site.group).known_by()]


def take_down(site: Site) -> bool:
    """End the process that runs a testbed, as Ctrl-C would, and wait for it; returns whether there was one."""
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
