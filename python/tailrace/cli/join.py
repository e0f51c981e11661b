"""`tailrace join`: the run folders of several hosts become one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.options import Out
from tailrace.cli.running import read_files
from tailrace.cli.words import AsJson, Overwrite, Quiet, print_json, progress, tell
from tailrace.errors import InputError, UsageError

if TYPE_CHECKING:
    from tailrace.dataset import Dataset
    from tailrace.join import Joined

EPILOG = "Example:\n\n`tailrace join web=web-run app=app-run db=db-run -o run`, then `tailrace diagnose run`"


def join(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]RUN…",
            help="Run folders or recordings of hosts that served the same requests at the same time. Without a name, "
            "a host has the name of its folder.",
        ),
    ],
    out: Out,
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Overwrite = False,
    leave_out: Annotated[
        bool,
        typer.Option("--leave-out", help="Leave out hosts that cannot be read, or share no visits with the others."),
    ] = False,
) -> None:
    """Join recordings of several hosts: what two hosts saw is one, and all times are on the clock of the first."""
    from tailrace.dataset import refuse
    from tailrace.join import join as join_runs

    folders = _hosts(runs)
    confine(folders.values(), [out])
    refuse(out, overwrite)
    found, unread = _read(folders, quiet, leave_out)
    with progress("Joining", quiet):
        joined = join_runs(found, out, overwrite=overwrite, leave_out=leave_out, unread=unread)
    if as_json:
        hosts = [_row(joined, host) for host in joined.both]
        print_json({"path": str(out), "hosts": hosts, "left_out": list(joined.left_out)})
    else:
        _print(joined, out)


def _read(folders: dict[str, Path], quiet: bool, leave_out: bool) -> tuple[dict[str, Dataset], dict[str, str]]:
    """The runs, and with `leave_out` the hosts that cannot be read, with the reason."""
    found: dict[str, Dataset] = {}
    unread: dict[str, str] = {}
    for name, folder in folders.items():
        try:
            found[name] = read_files([str(folder)], quiet=quiet)
        except InputError as error:
            if not leave_out or len(unread) == len(folders) - 1:
                raise
            unread[name] = f"it cannot be read: {error.found}"
    return found, unread


def _hosts(runs: list[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in runs:
        name, equals, path = text.partition("=")
        folder = Path(path if equals else text)
        name = name if equals else folder.resolve().name.removesuffix(".recording")
        if not name or name in found:
            raise UsageError(f"{text}: another host has the name {name!r}", advice="give each a name: NAME=RUN")
        if not folder.is_dir():
            raise UsageError(
                "it is no folder", where=str(folder), advice="give run folders, as `tailrace record` makes"
            )
        found[name] = folder
    return found


def _row(joined: Joined, host: str) -> dict[str, object]:
    offset = joined.offsets[host]
    drift = round(offset.drift * 1e6, 3)
    return {
        "host": host,
        "visits_seen_twice": joined.both[host],
        "offset_ns": offset.offset_ns,
        "bound_ns": offset.bound_ns,
        "drift_ppm": drift,
    }


def _print(joined: Joined, out: Path) -> None:
    from tailrace.units import exact_duration, format_duration

    rows = {name: joined.run.manifest.rows.get(name, 0) for name in ("visits", "requests")}
    tell(f"{out}: {rows['visits']:,} visits, {rows['requests']:,} requests")
    for host, offset in joined.offsets.items():
        clock = f"{exact_duration(offset.offset_ns)} ± {format_duration(offset.bound_ns)}"
        tell(f"  {host}: {joined.both[host]:,} visits seen at both ends; its clock + {clock} is the first host's")
    for host, why in joined.left_out.items():
        tell(f"  {host}: it is left out, because {why}")
