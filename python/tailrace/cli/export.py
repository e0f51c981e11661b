"""`tailrace export`: a run folder as a packet capture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.options import Run, Verify
from tailrace.cli.running import open_run
from tailrace.cli.words import AsJson, Quiet, print_json, progress, tell

EPILOG = "Examples:\n\n`tailrace export run --pcap run.pcap`\n\n`tailrace export run --pcap run.pcap --snaplen 96`"


def export(
    run: Run,
    pcap: Annotated[Path, typer.Option(metavar="FILE", help="The capture to write.")],
    snaplen: Annotated[
        int, typer.Option(metavar="BYTES", help="Bytes to keep of each packet, 96 to 262144.")
    ] = 262_144,
    verify: Verify = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the capture if it exists.")] = False,
) -> None:
    """Write the packets of a run's visits: a capture for Wireshark and `tailrace read`."""
    from tailrace.export import describe, write_pcap

    confine([run], [pcap])
    dataset = open_run(run, verify)
    with progress("Exporting", quiet, of_bytes=False) as step:
        written = write_pcap(dataset, pcap, snaplen=snaplen, overwrite=overwrite, progress=step)
    if as_json:
        print_json(written.to_json())
    else:
        tell(*describe(written))
