"""`tailrace info`: what is in a run folder."""

from __future__ import annotations

from tailrace.cli.confinement import confine
from tailrace.cli.options import Run, Verify
from tailrace.cli.running import open_run, show_info
from tailrace.cli.words import AsJson

EPILOG = "Example:\n\n`tailrace info run --json | jq .lost`"


def info(run: Run, verify: Verify = False, as_json: AsJson = False) -> None:
    """Show what is in a run folder, what is missing, clock offsets and losses."""
    confine([run])
    show_info(open_run(run, verify), as_json)
