"""How each kind of step is undone, and what is undone although nobody wrote it down."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from tailrace.errors import UsageError
from tailrace.testbed import net
from tailrace.testbed.cgroup import Group, mounted
from tailrace.testbed.ledger import Ledger, Step, held
from tailrace.testbed.site import Site


def _group(path: str) -> None:
    Group(mounted(), path).remove()


def _folder(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


UNDO: dict[str, Callable[[str], None]] = {
    "namespace": net.remove,
    "group": _group,  # ends the processes in it
    "folder": _folder,
}


def undo(ledger: Ledger) -> list[Step]:
    return ledger.undo(UNDO)


def clear(ledger: Ledger) -> list[Step]:
    """Before something is set up: undo what a killed testbed left over. What was left up on purpose is refused."""
    if ledger.kept:
        raise UsageError("a testbed is up", advice="take it down first: `tailrace testbed down`")
    return undo(ledger)


def clean(site: Site) -> list[Step]:
    """Undo all that there is of a testbed, noted or not; returns what was found."""
    with held(site) as ledger:
        there = [("namespace", name) for name in net.named(site)]
        there += [("group", site.group) for root in mounted().roots[:1] if (root / site.group).exists()]
        for step in there:
            if step not in ledger.steps():
                ledger.note(*step)
        return undo(ledger)
