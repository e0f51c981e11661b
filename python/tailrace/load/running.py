"""Starts the workers, waits for them, and makes a run folder of their logs.

During the load, each worker's log is in the temporary folder of the run. If the load is killed, the folder stays, and
`recover` makes the run folder from it; at most the last quarter of a second is missing.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from tailrace import dataset
from tailrace.dataset import Writer
from tailrace.errors import InputError, OutputError, UsageError, cannot_write
from tailrace.experiment import Experiment
from tailrace.load import ports
from tailrace.load.crew import Crew
from tailrace.load.lowering import Settings, Share, for_worker, plan, refuse, workers
from tailrace.load.outcome import Outcome, outcome, write_notes
from tailrace.load.targets import Target, can_bind

Progress = Callable[[int, int], None]

LOGS = "worker-*.log"
HEAD_START = 200_000_000
"""Time between the moment at which all workers are ready and the begin of the load."""


def load(
    experiment: Experiment,
    targets: Sequence[Target],
    out: str | PathLike[str],
    *,
    settings: Settings | None = None,
    share: Share | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Send the requests of the experiment's workloads to the targets, and write the run folder `out`.

    Ctrl-C ends it early and keeps what was recorded. `progress(ns done, ns in all)` is called now and then. Raises
    UsageError for what the generator cannot do. Raises OutputError if the disk was full or a worker died: the run
    folder then holds what was recorded until then; if even that cannot be written, the logs of the workers stay for
    `recover`.
    """
    settings = settings or Settings()
    share = share or Share(workers=workers(experiment, 1))
    refuse(experiment, share, settings)
    strange = next((source for source in settings.sources if not can_bind(source)), None)
    if strange:
        raise UsageError(f"--source {strange} is not an address of this machine", advice="add it to an interface first")
    whole = plan(experiment, targets, settings)
    sockets = ports.sockets_max()
    plans = [for_worker(whole, number, share, settings.requests, sockets) for number in share.numbers()]
    warnings = ports.warnings(experiment, share, len(targets), len(settings.sources))
    with dataset.create(out, overwrite) as writer:
        reports, failure = _run(plans, settings.epoch, writer.folder, progress)
        if failure and not any(writer.folder.glob(LOGS)):
            raise failure
        if failure:
            writer.notes.append(f"ended early: {failure.found}")
        writer.keep = (
            f"free some space, then make a run folder of it with `tailrace load --recover {writer.folder} -o NAME`"
        )
        found = _finish(writer, reports, warnings, experiment.ramp + experiment.duration)
    if failure:
        seen = f"{found.requests:,} requests up to then are in {out}"
        raise OutputError(out, f"the load ended early: {failure.found}", seen)
    return found


def recover(left: str | PathLike[str], out: str | PathLike[str], *, overwrite: bool = False) -> Outcome:
    """Make the run folder `out` from the temporary folder of a load that was killed; the temporary folder stays."""
    folder = Path(left)
    logs = sorted(folder.glob(LOGS))
    if not logs:
        raise InputError(folder, f"there is no {LOGS}", "give the RUN.tmp-… folder of a load that was killed")
    with dataset.hold(folder), dataset.create(out, overwrite) as writer:
        for log in logs:
            shutil.copyfile(log, writer.folder / log.name)
        writer.notes.append(f"recovered from {folder.name}: the load was killed")
        return _finish(writer, [], [], None)


def _run(
    plans: Sequence[dict[str, Any]], epoch: int | None, folder: Path, progress: Progress | None
) -> tuple[list[dict[str, Any]], OutputError | None]:
    with Crew([folder / f"worker-{number}.log" for number in range(len(plans))]) as crew:
        crew.wait_until_ready()
        begin = time.monotonic_ns() + HEAD_START
        unix = time.time_ns() - time.monotonic_ns() if epoch is None else epoch
        reports = crew.work([json.dumps({**plan, "begin": begin, "unix": unix}) for plan in plans], progress)
        return reports, crew.failure


def _finish(writer: Writer, reports: list[dict[str, Any]], warnings: list[str], whole: int | None) -> Outcome:
    from tailrace._core import load_tables

    writer.maker = "tailrace load"
    logs = sorted(writer.folder.glob(LOGS))
    try:
        rows = json.loads(load_tables([str(log) for log in logs], str(writer.folder)))
    except OSError as error:
        raise cannot_write(writer.folder, error) from error
    except ValueError as error:
        raise OutputError(writer.folder, str(error)) from error
    for log in logs:
        log.unlink()
    found = outcome(writer.folder, rows, reports, whole)
    write_notes(writer, found, warnings)
    return found
