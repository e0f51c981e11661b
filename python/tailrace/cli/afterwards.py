"""What a command does with what it recorded: it reads it in another process, and shows the run folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tailrace.cli.screen import for_another_tailrace
from tailrace.cli.words import say, tell
from tailrace.errors import OutputError


def read_apart(recorded: Path, out: Path, words: list[str], *more: Path) -> None:
    """Make the run folder in a process without rights. Damage in the recording can end only that process."""
    files = map(str, (recorded, *more))
    command = (sys.executable, "-P", "-m", "tailrace", "read", "--quiet", f"--out={out}", *words, "--", *files)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=for_another_tailrace()) as reader:
        try:
            code = reader.wait()
        except KeyboardInterrupt:
            reader.terminate()
            raise
    if code:
        advice = f"once that is mended, make a run folder of it with `tailrace read {recorded} -o NAME`"
        ended = f"signal {-code} ended the process that reads it; " if code < 0 else ""
        raise OutputError(recorded, f"{ended}the recording is kept", advice)


def show_run(out: Path) -> None:
    from tailrace.dataset import Dataset

    run = Dataset.open(out)
    rows = ", ".join(f"{count:,} {table}" for table, count in run.manifest.rows.items()) or "nothing"
    tell(f"{run.path}: {rows}; explain it with `tailrace diagnose {run.path}`", lenient=True)
    say(*(f"lost: {what}: {count:,}" for what, count in run.manifest.lost.items()), lenient=True)
