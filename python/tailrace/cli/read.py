"""`tailrace read`: files into a run folder."""

from __future__ import annotations

from tailrace.cli.confinement import confine
from tailrace.cli.options import (
    Began,
    Columns,
    Files,
    Interactions,
    KeepQueries,
    Keys,
    LogFormat,
    Out,
    Places,
    Protocols,
    Servers,
    Threads,
    TopologyFile,
)
from tailrace.cli.running import read_files, show_info
from tailrace.cli.words import AsJson, Overwrite, Quiet

EPILOG = (
    "Examples:\n\n`tailrace read web.pcapng app.pcapng samples.csv -o run`\n\n"
    "`tcpdump -w - -i any tcp | tailrace read - -o run`"
)


def read(
    files: Files,
    out: Out,
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
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Overwrite = False,
) -> None:
    """Read captures, samples and logs into a run folder: Parquet tables that any tool opens."""
    confine([*files, topology, interactions, keys, columns], [out])
    show_info(
        read_files(
            files,
            server,
            place,
            topology,
            interactions,
            protocol,
            keep_queries,
            keys,
            began,
            log_format,
            columns,
            out,
            quiet,
            overwrite,
            jobs=jobs,
        ),
        as_json,
    )
