"""One run: start the servers and the load, ramp, record with stalls, drain, stop everything, and write a run folder.

```text
up ── warm-up ──────┬── ramp ──┬── duration ──────────────────┬── drain ── down ── read ── run folder
       AJP filled ──┘          └  packets, samples, stalls     └── lost SYNs are repeated
```
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from tailrace import dataset, endings
from tailrace.dataset import Writer
from tailrace.errors import TailraceError
from tailrace.experiment import Experiment, truth
from tailrace.testbed import clock, disk, layout, load, program, recording, stalls, system, undoing
from tailrace.testbed.cgroup import entered
from tailrace.testbed.guardian import guarded
from tailrace.testbed.ledger import held
from tailrace.testbed.nodes import CLIENTS, MONITORS
from tailrace.testbed.outcome import Outcome, outcome
from tailrace.testbed.playing import played
from tailrace.testbed.program import Program
from tailrace.testbed.refusals import notes, refuse
from tailrace.testbed.site import Site
from tailrace.testbed.stalls import freeze
from tailrace.testbed.system import System
from tailrace.topology import Topology
from tailrace.units import MILLISECOND, SECOND

FILL_BEFORE_NS, FILL_NS = SECOND, 150 * MILLISECOND
"""A short freeze near the end of the warm-up opens all connections of a pool. Otherwise the first stall would open
them, and Tomcat's backlog would drop some, although mod_jk keeps its connections."""
DRAIN_NS = load.PATIENCE_NS + 10 * SECOND
"""Time for the load generator to wait for its last answers and to write its record."""
INTERACTIONS = {r"^GET /(\w+)": "$1"}
"""The bulletin board's pages, by RUBBoS' names."""

SEGMENTS, CLOCKS = "recording", "clocks.csv"
"""In `raw/`: the recorder's files until they are read, and samples of nodes with a governor."""

Progress = Callable[[int, int], None]
Read = Callable[[Writer, list[str], Topology, dict[str, str]], None]
"""Reads captures, samples and logs into a run folder. It is passed in, because makers do not import each other."""


def run(
    experiment: Experiment,
    out: str | PathLike[str],
    read: Read,
    *,
    site: Site | None = None,
    loading: load.Command = load.command,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Write the run folder `out`: tables, topology, truth, and `raw/` with captures, configurations and logs.

    Raises UsageError for what the testbed cannot do, TailraceError for other failures. After any error everything is
    undone, and no half-written file remains. `progress(ns, ns in all)` may raise to stop it.
    """
    with TemporaryDirectory(prefix="tailrace-") as requests, dataset.create(out, overwrite) as writer:
        asked = played(experiment, Path(requests))
        refuse(asked.experiment)
        raw = writer.folder / "raw"
        raw.mkdir()
        with serving(asked.experiment, site or Site()) as up:
            happened = measure(up, raw, loading, progress or (lambda done, whole: None))
            topology, files = layout.topology(up), _keep(up, raw)
        read(writer, files, topology, INTERACTIONS)
        writer.maker = "tailrace testbed"
        writer.notes += [*asked.notes, *notes(asked.experiment)]
        shutil.rmtree(raw / SEGMENTS)
        recording.compress(raw / "packets.pcap")
        stalled = truth.stalls_of(vars(stall) for stall in [*happened, *stalls.arose(up, writer.folder)])
        truth.write(truth.Truth("testbed", experiment, stalled), writer.folder / truth.FILE)
        return outcome(writer.folder, stalled)


@contextmanager
def serving(experiment: Experiment, site: Site) -> Iterator[System]:
    """An experiment's servers, running while the block lasts; also removes what a killed testbed left."""
    with held(site) as ledger, guarded(site, ledger):
        undoing.undo(ledger)
        try:
            with system.up(site, ledger, experiment) as up:
                yield up
        finally:
            with endings.ignored():  # a second Ctrl-C
                undoing.undo(ledger)


def measure(up: System, raw: Path, loading: load.Command, progress: Progress) -> list[truth.Stall]:
    """One measurement with running servers; returns the stalls that happened."""
    experiment = up.experiment
    whole = experiment.ramp + experiment.duration
    injector = stalls.prepare(up)
    with ExitStack() as stack:
        stack.enter_context(entered(up.nodes.rooms[MONITORS].group))
        _warm_up(up, loading, lambda: progress(0, whole))
        for folder in up.disks.values():
            disk.clean(folder)
        clients = _start_load(up, loading, experiment, raw / "load")
        stack.callback(clients.stop)
        watched, begun = [clients, *up.programs.values()], time.monotonic_ns()

        def until(moment: int) -> None:
            _wait(begun, moment, whole, watched, progress)

        until(experiment.ramp - SECOND)
        stack.enter_context(recording.recording(up, raw / SEGMENTS))
        stack.enter_context(clock.sampled(up.clocks, up.epoch, raw / CLOCKS))
        until(experiment.ramp)
        with stalls.injecting(injector, begun + experiment.ramp):
            until(whole)
        _drained(clients)
    return injector.happened


def _start_load(up: System, loading: load.Command, experiment: Experiment, out: Path) -> Program:
    return program.start("the load", loading(up, experiment, out), up.nodes.rooms[CLIENTS], out.with_suffix(".log"))


def _warm_up(up: System, loading: load.Command, go_on: Callable[[], None]) -> None:
    """Compile the pages and open all connections: a cold JVM is a millibottleneck of its own. `go_on` may raise."""
    experiment = load.rising(up.experiment)
    if experiment is None:
        return
    clients = _start_load(up, loading, experiment, up.folder / "warm-up")
    try:
        begun, whole = time.monotonic_ns(), experiment.duration
        _wait(begun, whole - FILL_BEFORE_NS, whole, [clients, *up.programs.values()], lambda done, whole: go_on())
        _fill(up)
        _drained(clients)
    finally:
        clients.stop()


def _wait(begun: int, moment: int, whole: int, programs: list[Program], progress: Progress) -> None:
    """Wait until this long after the begin; if a program ends meanwhile, the run fails."""
    while (left := begun + moment - time.monotonic_ns()) > 0:
        for each in programs:
            if each.process.poll() is not None:
                raise TailraceError(f"{each.name} ended with {each.process.returncode} during the run: {each.told()}")
        progress(moment - left, whole)
        time.sleep(min(left / SECOND, 0.1))


def _fill(up: System) -> None:
    for name, setting in up.settings.items():
        if any(caller.software == "apache" for caller in setting.callers):
            one = freeze.of_server(up, name)
            one.begin()
            time.sleep(FILL_NS / SECOND)
            one.end()


def _drained(clients: Program) -> None:
    deadline = time.monotonic_ns() + DRAIN_NS
    while clients.process.poll() is None and time.monotonic_ns() < deadline:
        time.sleep(0.05)
    if clients.process.returncode not in (None, 0):
        raise TailraceError(f"the load ended with {clients.process.returncode}: {clients.told()}")


def _keep(up: System, raw: Path) -> list[str]:
    """Store configurations and logs beside the captures; returns the files for the readers."""
    files = [str(raw / SEGMENTS)] + [str(file) for file in [raw / CLOCKS] if file.exists()]
    for name, setting in up.settings.items():
        kept = raw / name
        kept.mkdir()
        for file in setting.folder.iterdir():
            if file.is_file() and not file.is_socket():
                shutil.copyfile(file, kept / file.name)
        logs = [kept / log for log in up.kind(name).logs if (kept / log).exists()]
        for log in logs:
            up.epoch.restamp(log)
        files += [f"{name}={log}" for log in logs]
    return files
