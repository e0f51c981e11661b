"""`tailrace diagnose`: why some requests took seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.options import (
    Began,
    Columns,
    Files,
    Interactions,
    KeepQueries,
    Keys,
    LogFormat,
    Places,
    Protocols,
    Servers,
    Threads,
    Threshold,
    TopologyFile,
    Verify,
    Window,
    threshold_ns,
    window_ns,
)
from tailrace.cli.running import (
    advised,
    diagnosed,
    gathered,
    read_files,
    show,
    write_beside,
    write_html,
    write_perfetto,
)
from tailrace.cli.words import AsJson, Overwrite, Quiet
from tailrace.whole import refuse_unusual

VLRT_FOUND = 1

EPILOG = (
    "Examples:\n\n"
    "`tailrace diagnose slow.pcap`\n\n"
    "`tailrace diagnose packets.pcap.zst samples.csv app=gc.log --server web=10.0.0.3:80 --report report.html`\n\n"
    "`tailrace diagnose run --advise --report report.html`\n\n"
    "`zcat day.pcap.gz | tailrace diagnose - --json | jq .summary`"
)


def diagnose(
    files: Files,
    server: Servers = None,
    place: Places = None,
    topology: TopologyFile = None,
    interactions: Interactions = None,
    protocol: Protocols = None,
    keep_queries: KeepQueries = False,
    keys: Keys = None,
    began: Began = None,
    log_format: LogFormat = None,
    columns: Columns = None,
    jobs: Threads = None,
    threshold: Threshold = None,
    window: Window = "50ms",
    verify: Verify = False,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Read a folder of run folders, here or in object storage, or a table of visits or spans, in two "
            "passes, and fetch only what happened around the VLRT: local, dask://…, ray://…, spark://…, chdb://…, "
            "clickhouse://HOST.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="RUN", help="Keep the run folder, with report.html and diagnosis.json."),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write the report here.")] = None,
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a trace for Perfetto's viewer here.")
    ] = None,
    fail_on_vlrt: Annotated[bool, typer.Option("--fail-on-vlrt", help="Exit with 1 when there are VLRT.")] = False,
    advise: Annotated[
        bool, typer.Option("--advise", help="Also say what to change: simulate the remedies for at most 60 s.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Overwrite = False,
) -> None:
    """Explain why some requests took seconds: from captures, samples and logs, or from a run folder."""
    width, least = window_ns(window), threshold_ns(threshold)
    refuse_unusual(report, perfetto)
    from tailrace.lakes import is_lake

    remote = engine not in (None, "local") or any(map(is_lake, files))  # reached through sockets
    into = out if engine is None and not remote else None
    if remote:
        files = gathered(files, engine, least, out, overwrite, quiet)
    confine([*files, topology, interactions, keys, columns], [out, report, perfetto])
    if engine == "local" and not remote:
        files = gathered(files, engine, least, out, overwrite, quiet)
    named = (server, place, topology, interactions, protocol, keep_queries, keys, began, log_format, columns)
    run = read_files(files, *named, into, quiet, overwrite, verify, jobs)
    found = diagnosed(run, least, width, quiet)
    beside = advised(run, quiet) if advise else None
    if out is not None:
        write_beside(run, found, beside)
    if report is not None:
        write_html(run, found, report, beside)
    if perfetto is not None:
        write_perfetto(run, found, perfetto)
    show(run, found, as_json, beside)
    if fail_on_vlrt and found.vlrt:
        raise typer.Exit(VLRT_FOUND)
