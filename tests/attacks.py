"""Damaged files through every door of `doors.py`, by the thousand.

`python tests/attacks.py --runs 10000` tries so many, as this user or another, keeps what fails or takes too much, and
says how to try it again. `tests/property/test_hostile_inputs.py` tries a few in every run of the tests.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import pwd
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "python")]

from doors import DOORS, Door, run_folder  # noqa: E402
from mutations import mutated  # noqa: E402

MEMORY_MAX, SECONDS_MAX = 2 << 30, 60
"""No input may take more."""
MEMORY_MUCH, SECONDS_MUCH = 1 << 30, 10
"""Of memory, and of this process's own time on a CPU: golden inputs are small."""
_PR_SET_DUMPABLE = 4


def attack(door: Door, seed: int) -> None:
    """Try one damaged input. An exception is a fault of Tailrace."""
    draw = random.Random(f"{door.name} {seed}")
    inputs = door.inputs()
    name = draw.choice(sorted(inputs))
    _enter(door, name, mutated(inputs[name], draw))


def _enter(door: Door, name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="tailrace-attack-") as folder:
        door.enter(Path(folder), name, data)


def _measured(door: Door, seed: int) -> tuple[str, float]:
    """What is wrong with it, and how long it took."""
    from polars.exceptions import PanicException

    wrong = ""
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory counts from here
    began = time.process_time()
    try:
        attack(door, seed)
    except (Exception, PanicException) as error:
        wrong = f"{type(error).__name__}: {error}"[:600]
    seconds, peak = time.process_time() - began, _peak()
    if seconds > SECONDS_MUCH:
        wrong += f" took {seconds:.0f} s"
    if peak > MEMORY_MUCH:
        wrong += f" took {peak / 2**30:.1f} GiB"
    return wrong, seconds


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def _become(user: str, doors: Iterable[Door]) -> None:
    """Every door is used once before that, for what is imported then may be readable for root alone."""
    for door in doors:
        _enter(door, *next(iter(door.inputs().items())))
    found = pwd.getpwnam(user)
    for path in (run_folder().parent, *run_folder().parent.rglob("*")):
        os.chown(path, found.pw_uid, found.pw_gid)
    os.setgroups([])
    os.setgid(found.pw_gid)
    os.setuid(found.pw_uid)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1)  # else its files in /proc stay root's


def _worker(doors: list[str], user: str | None, pipe: multiprocessing.connection.Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    known = {door.name: door for door in DOORS if door.name in doors}
    if user:
        _become(user, known.values())
    while True:
        try:
            name, seed = pipe.recv()
        except EOFError:  # the caller is gone
            return
        pipe.send(_measured(known[name], seed))


class _Worker:
    """A process that runs attacks, started again when an attack has ended it."""

    def __init__(self, doors: list[str], user: str | None) -> None:
        self.doors, self.user = doors, user
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_worker, args=(self.doors, self.user, other), daemon=True)
        self.process.start()
        other.close()

    def attack(self, door: str, seed: int) -> tuple[str, float]:
        try:
            self.pipe.send((door, seed))
            if not self.pipe.poll(SECONDS_MAX + 30):  # the first of a worker also imports everything
                self.process.kill()
                found = f"took more than {SECONDS_MAX} s", float(SECONDS_MAX)
            else:
                found = self.pipe.recv()
        except (EOFError, BrokenPipeError):
            self.process.join()
            code = self.process.exitcode or 0
            found = f"ended the process: {signal.Signals(-code).name if code < 0 else code}", 0.0
        if not self.process.is_alive():
            self.process.join()
            self.start()
        return found


def _seeds(runs: int, first: int, doors: list[str]) -> Iterator[tuple[str, int]]:
    for number in range(runs):
        yield doors[number % len(doors)], first + number // len(doors)


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--runs", type=int, default=1_000)
    words.add_argument("--seed", type=int, default=0, help="the first of each door")
    words.add_argument("--door", action="append", choices=[door.name for door in DOORS], help="default: all")
    words.add_argument("--user", help="attack as this user, which only root can")
    asked = words.parse_args()
    doors = asked.door or [door.name for door in DOORS]
    worker, faults, slowest = _Worker(doors, asked.user), 0, (0.0, "", 0)
    for door, seed in _seeds(asked.runs, asked.seed, doors):
        found, seconds = worker.attack(door, seed)
        slowest = max(slowest, (seconds, door, seed))
        if found:
            faults += 1
            print(f"--door {door} --seed {seed} --runs 1: {found}", flush=True)
    print(f"{asked.runs} attacks, {faults} faults; the slowest took {slowest[0]:.1f} s ({slowest[1]} {slowest[2]})")
    return 1 if faults else 0


if __name__ == "__main__":
    os.environ.setdefault("RUST_BACKTRACE", "0")
    sys.exit(main())
