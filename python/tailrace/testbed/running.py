"""One run: servers up, load on, ramp, record with stalls, drain, everything down, and a run folder of what was seen.

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

from tailrace import dataset
from tailrace.dataset import Writer
from tailrace.errors import TailraceError
from tailrace.experiment import Experiment, truth
from tailrace.testbed import clock, disk, layout, load, program, recording, stalls, system, undoing
from tailrace.testbed.cgroup import entered
from tailrace.testbed.ledger import held
from tailrace.testbed.nodes import CLIENTS, MONITORS
from tailrace.testbed.outcome import Outcome, outcome
from tailrace.testbed.program import Program
from tailrace.testbed.refusals import notes, refuse
from tailrace.testbed.site import Site
from tailrace.testbed.stalls import freeze
from tailrace.testbed.system import System
from tailrace.topology import Topology
from tailrace.units import MILLISECOND, SECOND

FILL_BEFORE_NS, FILL_NS = SECOND, 150 * MILLISECOND
"""A short freeze near the end of the warm-up opens all connections of a pool. Otherwise the first stall would, and
Tomcat's backlog would drop some of them although mod_jk keeps its connections."""
DRAIN_NS = load.PATIENCE_NS + 10 * SECOND
"""For the load to wait for its last answers and to write what it saw."""
INTERACTIONS = {r"^GET /(\w+)": "$1"}
"""The bulletin board's pages, by the names that RUBBoS gives them."""

SEGMENTS, CLOCKS = "recording", "clocks.csv"
"""In `raw/`: what the recorder writes, until it is read; samples of nodes with a governor."""

Progress = Callable[[int, int], None]
Read = Callable[[Writer, list[str], Topology, dict[str, str]], None]
"""Puts the tables of captures, samples and logs into a run folder; passed in, for makers do not know each other."""


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

    Raises UsageError for what the testbed cannot do, TailraceError for what goes wrong on the way. Whatever is raised,
    everything is undone and nothing half-written is left. `progress(ns, ns in all)` may raise to stop it.
    """
    refuse(experiment)
    with dataset.create(out, overwrite) as writer:
        raw = writer.folder / "raw"
        raw.mkdir()
        with serving(experiment, site or Site()) as up:
            happened = measure(up, raw, loading, progress or (lambda done, whole: None))
            topology, files = layout.topology(up), _keep(up, raw)
        read(writer, files, topology, INTERACTIONS)
        writer.maker = "tailrace testbed"
        writer.notes += notes(experiment)
        shutil.rmtree(raw / SEGMENTS)
        recording.compress(raw / "packets.pcap")
        stalled = truth.stalls_of(vars(stall) for stall in [*happened, *stalls.arose(up, writer.folder)])
        truth.write(truth.Truth("testbed", experiment, stalled), writer.folder / truth.FILE)
        return outcome(writer.folder, stalled)


@contextmanager
def serving(experiment: Experiment, site: Site) -> Iterator[System]:
    """An experiment's servers, up while the block lasts; also undoes what a killed testbed left over."""
    with held(site) as ledger:
        undoing.undo(ledger)
        try:
            with system.up(site, ledger, experiment) as up:
                yield up
        finally:
            undoing.undo(ledger)


def measure(up: System, raw: Path, loading: load.Command, progress: Progress) -> list[truth.Stall]:
    """One measurement of servers that are up: the stalls that happened."""
    experiment = up.experiment
    whole = experiment.ramp + experiment.duration
    injector = stalls.prepare(up)
    with ExitStack() as stack:
        stack.enter_context(entered(up.nodes.rooms[MONITORS].group))
        _warm_up(up, loading)
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


def _warm_up(up: System, loading: load.Command) -> None:
    """Compiled, and with all its connections open: a JVM that is not is a millibottleneck of its own."""
    experiment = load.rising(up.experiment)
    if experiment is None:
        return
    clients = _start_load(up, loading, experiment, up.folder / "warm-up")
    try:
        begun, whole = time.monotonic_ns(), experiment.duration
        _wait(begun, whole - FILL_BEFORE_NS, whole, [clients, *up.programs.values()], lambda done, whole: None)
        _fill(up)
        _drained(clients)
    finally:
        clients.stop()


def _wait(begun: int, moment: int, whole: int, programs: list[Program], progress: Progress) -> None:
    """Until so long after the begin; a program that ends meanwhile ends the run."""
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
    """Configurations and logs beside the captures; returns what the readers are given."""
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
