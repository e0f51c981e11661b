"""Every door through which a file of a stranger comes in: golden inputs for it, and what is done with them.

`python tests/attacks.py --runs 10000` tries so many mutations, each within 60 s and 2 GB, keeps what fails and says how
to try it again. `tests/property/test_hostile_inputs.py` tries a few in every run of the tests.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "python")]

from hostile import assert_plain  # noqa: E402
from mutations import mutated  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"
HTTP = GOLDEN / "captures" / "http.pcap"
MEMORY_MAX, SECONDS_MAX = 2 << 30, 60
RULES = b"""[[interactions]]
match = '^(?:GET|HEAD) /(\\w+)\\.html'
name = "page $1"
"""


@dataclass(frozen=True)
class Door:
    """`inputs` are golden; `enter` puts a damaged one into a folder, under its golden name, and uses it."""

    name: str
    inputs: Callable[[], dict[str, bytes]]
    enter: Callable[[Path, str, bytes], None]


def told(*words: str | Path) -> int:
    """The exit code of a command, which ends well or with one true sentence."""
    from tailrace import cli

    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = cli.perform([str(word) for word in words])
    assert code in (0, 2), f"exit code {code} of {words}: {error.getvalue()[:2000]}"
    assert_plain(out.getvalue())
    assert_plain(error.getvalue())
    if code == 2:
        sentences = [line for line in error.getvalue().splitlines() if line.startswith("tailrace: ")]
        assert len(sentences) == 1, error.getvalue()
    return code


def files(pattern: str, *, but: str = ".expected.json") -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in sorted(GOLDEN.glob(pattern)) if not path.name.endswith(but)}
    assert found, f"no golden input matches {pattern}"
    return found


def diagnosed(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    told("diagnose", folder / name, "-o", folder / "run", "--quiet")


def parquet() -> dict[str, bytes]:
    import polars as pl

    rows = {"time": [1795193376.0 + i * 0.05 for i in range(400)], "place": ["web", "db"] * 200, "value": [0.5] * 400}
    found = {}
    for compression in ("zstd", "snappy", "uncompressed"):
        into = io.BytesIO()
        frame = pl.DataFrame(rows).with_columns(metric=pl.lit("cpu_busy"), interval=0.05)
        frame.write_parquet(into, compression=compression, row_group_size=100)
        found[f"{compression}.parquet"] = into.getvalue()
    return found


@functools.cache
def run_folder() -> Path:
    """A run with every table, made once; a door copies it."""
    from tailrace import cli

    folder = Path(tempfile.mkdtemp(prefix="tailrace-attacks-"))
    demo = ROOT / "demo"
    texts = [demo / "samples.csv", f"app={demo / 'gc.log'}"]
    control = GOLDEN / "recordings" / "sync-control" / "packets.pcap.zst"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = cli.perform(["diagnose", str(control), *map(str, texts), "-o", str(folder / "run"), "--quiet"])
    assert code == 0, "the golden recording cannot be diagnosed"
    return folder / "run"


def of_run() -> dict[str, bytes]:
    tables = [f"{name}.parquet" for name in ("visits", "requests", "samples", "events")]
    return {name: (run_folder() / name).read_bytes() for name in ("manifest.json", "topology.toml", *tables)}


def topology() -> dict[str, bytes]:
    return {"topology.toml": (run_folder() / "topology.toml").read_bytes()}


def opened(folder: Path, name: str, data: bytes) -> None:
    shutil.copytree(run_folder(), folder / "run")
    (folder / "run" / name).write_bytes(data)
    if told("info", folder / "run") == 0:
        told("info", folder / "run", "--json")
    told("report", folder / "run", "--quiet")
    told("diagnose", folder / "run", "--json", "--quiet")
    told("export", folder / "run", "--pcap", folder / "again.pcap", "--quiet")


def scored(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    option = "--diagnosis" if name.endswith(".json") else "--truth"
    told("score", run_folder(), option, folder / name, "--quiet")


def to_score() -> dict[str, bytes]:
    return {
        "diagnosis.json": (run_folder() / "diagnosis.json").read_bytes(),
        "truth.toml": (ROOT / "demo" / "truth.toml").read_bytes(),
    }


def beside_a_capture(option: str) -> Callable[[Path, str, bytes], None]:
    def enter(folder: Path, name: str, data: bytes) -> None:
        (folder / name).write_bytes(data)
        told("read", HTTP, option, folder / name, "-o", folder / "run", "--quiet")

    return enter


def experiments(name: str) -> Callable[[], dict[str, bytes]]:
    def inputs() -> dict[str, bytes]:
        chosen = sorted((ROOT / "experiments").rglob(name))
        return {str(path.relative_to(ROOT / "experiments")): path.read_bytes() for path in chosen}

    return inputs


def as_experiment(folder: Path, name: str, data: bytes) -> None:
    from tailrace.errors import TailraceError
    from tailrace.experiment import read
    from tailrace.sim import lowering

    _beside(folder, name, data)
    with contextlib.suppress(TailraceError, OSError):  # both are exit code 2
        lowering.lower(read(folder / "experiments" / name, []))


def as_paper(folder: Path, name: str, data: bytes) -> None:
    _beside(folder, name, data)
    told("reproduce", "--list", "--experiments", folder / "experiments")


def as_scaled(folder: Path, name: str, data: bytes) -> None:
    from tailrace.errors import TailraceError
    from tailrace.reproduce import entries, scaled

    _beside(folder, name, data)
    with contextlib.suppress(TailraceError):
        for entry in entries(folder / "experiments"):
            scaled.read(entry.folder)


def _beside(folder: Path, name: str, data: bytes) -> None:
    """A file of an experiment, and of the folder that it lies in what it may name."""
    paper = name.split("/")[0]
    shutil.copytree(ROOT / "experiments" / paper, folder / "experiments" / paper)
    (folder / "experiments" / name).write_bytes(data)


DOORS = [
    Door("capture", lambda: files("captures/*.pcap"), diagnosed),
    Door("samples", lambda: {"samples.csv": (ROOT / "demo" / "samples.csv").read_bytes()[:20_000]}, diagnosed),
    Door("parquet", parquet, diagnosed),
    Door("collectl", lambda: files("readers/collectl/*"), diagnosed),
    Door("gclog", lambda: files("readers/gclog/*"), diagnosed),
    Door("run", of_run, opened),
    Door("score", to_score, scored),
    Door("rules", lambda: {"rules.toml": RULES}, beside_a_capture("--interactions")),
    Door("topology", topology, beside_a_capture("--topology")),
    Door("experiment", experiments("experiment.toml"), as_experiment),
    Door("paper", experiments("expected.toml"), as_paper),
    Door("scaled", experiments("testbed.toml"), as_scaled),
]


def attack(door: Door, seed: int) -> None:
    """Try one damaged input. What it raises is a fault of Tailrace."""
    draw = random.Random(f"{door.name} {seed}")
    inputs = door.inputs()
    name = draw.choice(sorted(inputs))
    data = mutated(inputs[name], draw)
    with tempfile.TemporaryDirectory(prefix="tailrace-attack-") as folder:
        door.enter(Path(folder), name, data)


def _worker(doors: list[str], pipe: multiprocessing.connection.Connection) -> None:
    from polars.exceptions import PanicException

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    known = {door.name: door for door in DOORS if door.name in doors}
    while True:
        try:
            name, seed = pipe.recv()
        except EOFError:  # nobody asks any more
            return
        began = time.monotonic()
        try:
            attack(known[name], seed)
            pipe.send(("", time.monotonic() - began))
        except (Exception, PanicException) as error:
            pipe.send((f"{type(error).__name__}: {error}"[:600], time.monotonic() - began))


class _Worker:
    """A process that attacks, begun anew when one of its attacks has ended it."""

    def __init__(self, doors: list[str]) -> None:
        self.doors = doors
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_worker, args=(self.doors, other), daemon=True)
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
    asked = words.parse_args()
    doors = asked.door or [door.name for door in DOORS]
    worker, faults, slowest = _Worker(doors), 0, (0.0, "", 0)
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
