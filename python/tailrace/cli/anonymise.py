"""`tailrace anonymise`: a copy of a run folder for publication."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tailrace import foreign
from tailrace.cli.confinement import confine
from tailrace.cli.options import Out, Run
from tailrace.cli.running import open_run
from tailrace.cli.words import AsJson, Overwrite, Quiet, print_json, progress, tell

EPILOG = (
    "Examples:\n\n`tailrace anonymise run -o public`\n\n"
    "`head -c 32 /dev/urandom > our.key; tailrace anonymise monday -o a --key our.key; "
    "tailrace anonymise tuesday -o b --key our.key`"
)

_SHOWN = 50
"""Servers whose tokens are printed."""


def anonymise(
    run: Run,
    out: Out,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Hash with the bytes of this file, so that several runs have the same names and the same shift of "
            "times. Keep it secret: with it, guesses of names can be checked. Default: a random key that is not "
            "stored.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Overwrite = False,
) -> None:
    """Write a copy of a run that can be attached to a public ticket, with the same diagnosis.

    Names of servers, hosts, places, interactions and files become tokens such as `server-3fa9c1d2`, addresses become
    addresses of documentation, and all times are shifted by the same amount. Texts (notes, details of events), reports,
    raw packets and the experiment of a simulated run are left out. Which token stands for which server is printed; the
    copy does not hold it.
    """
    from tailrace.anonymise import anonymise as write_anonymised
    from tailrace.anonymise import key_of

    confine([run, key], [out])
    dataset = open_run(run)
    secret = None if key is None else key_of(key)
    with progress("Anonymising", quiet):
        written = write_anonymised(dataset, out, key=secret, overwrite=overwrite)
    if as_json:
        print_json({"path": str(out), "names": dict(written.names), "shift_ns": written.shift_ns})
        return
    servers = [server.name for server in dataset.topology.servers if server.name in written.names]
    tell(f"{out}: {len(written.names):,} names were replaced")
    tell(*(f"  {written.names[name]} is {foreign.name(name)}" for name in servers[:_SHOWN]))
    if len(servers) > _SHOWN:
        tell(f"  and {len(servers) - _SHOWN:,} more servers, which --json lists")
    tell(f"read it before you publish it: tailrace info {shlex.quote(str(out))}")
