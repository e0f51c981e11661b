"""`tailrace demo`: explains a recording that comes with Tailrace."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.options import window_ns
from tailrace.cli.running import diagnosed, show, write_html
from tailrace.cli.words import AsJson, Quiet, progress
from tailrace.whole import refuse_unusual

FILES = ("packets.pcap.zst", "samples.csv", "app=gc.log")
SERVERS = {
    "web": "10.77.0.3:80",
    "app": "10.77.0.4:8009",
    "db": "10.77.0.5:3306",
    "neighbour": "10.77.0.6:3306",
}

EPILOG = "Example:\n\n`tailrace demo`"


def demo(
    report: Annotated[Path, typer.Option(metavar="FILE.html", help="Write the report here.")] = Path(
        "demo-report.html"
    ),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Explain a bundled recording: 3.5 s of a web site, in which 315 of 3,503 requests took a second."""
    from tailrace.readers import read

    refuse_unusual(report)
    with as_file(files("tailrace") / "demo") as folder:
        with progress("Reading", quiet) as step:
            run = read(*(_within(folder, name) for name in FILES), servers=SERVERS, progress=step)
        found = diagnosed(run, None, window_ns("50ms"), quiet)
        write_html(run, found, report)
        show(run, found, as_json)


def _within(folder: Path, name: str) -> str:
    """`app=gc.log` assigns the file to the server."""
    server, mark, file = name.rpartition("=")
    return f"{server}{mark}{folder / file}"
