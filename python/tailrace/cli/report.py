"""`tailrace report`: the report of a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.options import Run, Threshold, Verify, Window, threshold_ns, window_ns
from tailrace.cli.running import diagnosed, open_run, write_html, write_perfetto
from tailrace.cli.words import AsJson, Quiet, print_json
from tailrace.whole import refuse_unusual

EPILOG = "Examples:\n\n`tailrace report run`\n\n`tailrace report run -o friday.html --perfetto friday.pftrace`"


def report(
    run: Run,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.html", help="Default: RUN/report.html.")
    ] = None,
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a trace for Perfetto's viewer here.")
    ] = None,
    threshold: Threshold = None,
    window: Window = "50ms",
    verify: Verify = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run folder: one HTML file that needs no network."""
    width, least = window_ns(window), threshold_ns(threshold)
    refuse_unusual(out, perfetto)
    target = out or run / "report.html"
    confine([run], [target, perfetto])
    dataset = open_run(run, verify)
    found = diagnosed(dataset, least, width, quiet)
    write_html(dataset, found, target)
    if perfetto is not None:
        write_perfetto(dataset, found, perfetto)
    if as_json:
        print_json({"report": str(target), "perfetto": str(perfetto) if perfetto else None, "vlrt": found.vlrt})
