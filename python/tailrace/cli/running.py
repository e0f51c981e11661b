"""What several commands do with a run folder: open it, read files into one, diagnose it, write and show the answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.cli.options import SERVER_FORM, protocols_of
from tailrace.cli.screen import Screen
from tailrace.cli.words import pairs, print_json, progress, say, tell

ADVICE_SECONDS = 60.0
"""The time budget of `diagnose --advise`, as the default of `advise --budget`."""

if TYPE_CHECKING:
    from tailrace.advise.beside import Beside
    from tailrace.dataset import Dataset
    from tailrace.diagnosis.finding import Diagnosis


def open_run(path: Path, verify: bool = False) -> Dataset:
    from tailrace.dataset import Dataset

    run = Dataset.open(path)
    if verify:
        run.validate(checksums=True)
    return run


def read_files(
    files: list[str],
    server: list[str] | None = None,
    place: list[str] | None = None,
    topology: Path | None = None,
    interactions: Path | None = None,
    protocol: list[str] | None = None,
    keep_queries: bool = False,
    keys: Path | None = None,
    began: list[str] | None = None,
    log_format: str | None = None,
    columns: Path | None = None,
    out: Path | None = None,
    quiet: bool = False,
    overwrite: bool = False,
    verify: bool = False,
    jobs: int | None = None,
) -> Dataset:
    from tailrace.readers import read as read_files

    servers = pairs("--server", server, SERVER_FORM)
    places = pairs("--place", place, "PLACE=NODE, like web=10.0.0.3")
    with progress("Reading", quiet) as step:
        return read_files(
            *files,
            servers=servers,
            places=places,
            topology=topology,
            interactions=interactions,
            protocols=protocols_of(protocol),
            keep_queries=keep_queries,
            keys=keys,
            began=began or (),
            log_format=log_format,
            columns=columns,
            out=out,
            overwrite=overwrite,
            verify=verify,
            jobs=jobs,
            progress=step,
            say=None if quiet else say,
        )


def gathered(
    files: list[str], engine: str | None, threshold_ns: int | None, out: Path | None, overwrite: bool, quiet: bool
) -> list[str]:
    """The run folder of what happened around the VLRT of many run folders, a lake or a database. Without any VLRT, the
    command ends with a sentence that says so."""
    import tempfile

    import typer

    from tailrace.engines import gathering
    from tailrace.units import format_duration

    source = files[0] if len(files) == 1 else files
    engine = engine or "local"
    with progress("Looking for VLRT", quiet):
        found = gathering.survey(source, engine, threshold_ns)
    if not found.vlrt:
        long = format_duration(found.threshold_ns)
        tell(f"None of the {found.requests:,} requests of {found.folders:,} {found.of} took {long} or longer.")
        raise typer.Exit
    into = out if out is not None else Path(tempfile.mkdtemp(prefix="tailrace-")) / "run"
    with progress("Fetching", quiet):
        gathering.gather(source, engine, found, into, overwrite=overwrite)
    return [str(into)]


def diagnosed(dataset: Dataset, threshold_ns: int | None, window_ns: int, quiet: bool) -> Diagnosis:
    from tailrace.diagnosis import diagnose as run_diagnosis

    with progress("Diagnosing", quiet):
        return run_diagnosis(dataset, threshold_ns=threshold_ns, window_ns=window_ns)


def write_beside(dataset: Dataset, found: Diagnosis, beside: Beside | None = None) -> None:
    from tailrace.report import write_json

    write_json(found, dataset.path / "diagnosis.json")
    write_html(dataset, found, dataset.path / "report.html", beside)


def write_html(dataset: Dataset, found: Diagnosis, path: Path, beside: Beside | None = None) -> None:
    from tailrace.report import write_html

    write_html(dataset, found, path, [beside.section()] if beside else [])
    say(f"report: {path}")


def write_perfetto(dataset: Dataset, found: Diagnosis, path: Path) -> None:
    from tailrace.report import write_perfetto

    write_perfetto(dataset, found, path)
    say(f"Perfetto trace: {path} (open it at ui.perfetto.dev)")


def advised(dataset: Dataset, quiet: bool) -> Beside:
    from tailrace.advise.beside import beside

    with progress("Simulating", quiet, of_bytes=False) as step:
        return beside(dataset, seconds=ADVICE_SECONDS, progress=step)


def show(dataset: Dataset, found: Diagnosis, as_json: bool, beside: Beside | None = None) -> None:
    if as_json:
        from tailrace.diagnosis.serialise import as_dict

        print_json(as_dict(found) | ({"advice": beside.to_json()} if beside else {}))
        return
    from tailrace.report import print_terminal

    print_terminal(found, Screen(), dataset)
    if beside:
        tell("", *beside.sentences, *(f"  {reason}" for reason in beside.reasons))


def show_info(dataset: Dataset, as_json: bool) -> None:
    from tailrace.report.info import describe, print_info

    if as_json:
        print_json(describe(dataset))
    else:
        print_info(dataset, Screen())
