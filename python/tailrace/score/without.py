"""The judge of simulated runs: the system is simulated again without each trouble, with the same random numbers.

Only very slow requests (VLRT) are counted; no rule assigns a request to a trouble.

    n        VLRT of the system as it is
    left     VLRT without one trouble; none: without any trouble
    alone    VLRT with one trouble and no other

A cause may be reported for as many VLRT as its removal removes: max(n - left, alone - none). Both terms are needed: one
trouble may have no effect without another, and where two have the same effect, the removal of one changes nothing.
`unknown` is right for the VLRT that remain without any one trouble and without all of them, and for those that the
removal of a trouble removes that no monitor records.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl

from tailrace import sim
from tailrace.bounds import SCORED_BYTES, SCORED_TIMES
from tailrace.dataset import Dataset
from tailrace.errors import UsageError
from tailrace.experiment import from_table, truth
from tailrace.score import removing, stalls
from tailrace.score.figures import TIE
from tailrace.score.removing import Table
from tailrace.score.stalls import BURST, NONE, SOFT
from tailrace.units import format_bytes

Left = Callable[[frozenset[str]], int]


def credit(table: Table, n: int, told: Iterable[str], threshold_ns: int, most: int = SCORED_BYTES) -> dict[str, int]:
    """Trouble → the number of the n VLRT for which it may be reported; `table` is complete. The balancer and the limits
    are removed only if `told` names them. `most` bounds the tables of a simulated system, in bytes."""

    def left(gone: frozenset[str]) -> int:
        return vlrt_of(removing.without(table, gone), threshold_ns, most)

    return shared_out(n, removing.troubles(table), set(told), left) if n else {}


def shared_out(n: int, troubles: Iterable[str], told: set[str], left: Left) -> dict[str, int]:
    """`left` gives the number of VLRT without some troubles."""
    every = frozenset(troubles)
    single = {one: min(left(frozenset({one})), n) for one in every}
    none = n if not every else left(every) if len(every) > 1 else min(single.values())
    found = {one: n - single[one] for one in every}
    if len(every) > 1:
        found |= {one: max(found[one], min(left(every - {one}) - none, n)) for one in every}
    rest = min(none, n, *single.values())
    found[NONE] = min(n, rest + found.get(NONE, 0))
    for shape in told & removing.SHAPES.keys() - {SOFT}:
        found[shape] = max(n - left(frozenset({shape})), 0)
    if SOFT in told:
        # Every stall causes fewer VLRT where nothing is limited. Limits count as the cause only of bursts and of the
        # rest.
        found[SOFT] = min(max(n - left(frozenset({SOFT})), 0), rest + found.get(BURST, 0))
    return found


def vlrt_without(run: Dataset, causes: Iterable[str], threshold_ns: int) -> int:
    """The VLRT of a simulated run without all troubles, limits and properties that have one of these causes. Raises
    UsageError if the run is a recording."""
    known = stalls.simulated(run.path)
    if known is None:
        raise UsageError("only a simulated run can be simulated without a cause", where=truth.FILE)
    table, names = removing.complete(known), set(causes)
    gone = names | {one for one in removing.troubles(table) if set(one.split(TIE)) & names}
    return vlrt_of(removing.without(table, gone), threshold_ns, max(SCORED_BYTES, SCORED_TIMES * held(run.path)))


def vlrt_of(table: Table, threshold_ns: int, most: int = SCORED_BYTES) -> int:
    with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:

        def check_size(_done: int, _whole: int) -> None:
            if size(Path(folder)) > most:
                found = f"the tables of its experiment have more than {format_bytes(most)}"
                raise UsageError(found, where=truth.FILE, advice="docs/reference/limits.md lists what is simulated")

        sim.simulate(from_table(table), Path(folder) / "run", progress=check_size)
        return count(Dataset.open(Path(folder) / "run"), threshold_ns)


def size(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def held(folder: Path) -> int:
    """Return the bytes of all files in a folder that are on the disk: a file may claim to be longer."""
    return sum(min(of.st_size, of.st_blocks * 512) for of in (path.lstat() for path in folder.rglob("*")))


def count(run: Dataset, threshold_ns: int) -> int:
    slow = run.requests().filter(pl.col("end") - pl.col("sent") >= threshold_ns)
    return int(slow.select(pl.len()).collect().item())
