"""All commands, in the order in which `tailrace --help` lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Annotated

import typer

from tailrace.cli import (
    advise,
    anonymise,
    calibrate,
    demo,
    diagnose,
    examine,
    export,
    fetch,
    gate,
    hub,
    incidents,
    info,
    join,
    load,
    load_table,
    mcp,
    prove,
    read,
    receive,
    record,
    report,
    reproduce,
    run,
    score,
    sweep,
    testbed,
    twin,
    watch,
    windows,
)
from tailrace.cli.words import tell

HELP = (
    "Why do a few requests take **seconds** when almost all take milliseconds, while no machine looks busy?\n\n"
    "Give it a packet capture (and, better, 50 ms resource samples and garbage-collection logs); it reports "
    "which server dropped connections, which queue filled first, which resource was saturated, and what saturated it."
)
EPILOG = (
    "Start with `tailrace demo`, then `tailrace diagnose capture.pcap`. Exit codes: 0 done, "
    "1 VLRT found with --fail-on-vlrt or a gate not passed, 2 wrong use or unreadable input, 130 interrupted."
)
COMMANDS = (
    (diagnose, diagnose.diagnose),
    (advise, advise.advise),
    (prove, prove.prove),
    (demo, demo.demo),
    (read, read.read),
    (report, report.report),
    (gate, gate.gate),
    (export, export.export),
    (info, info.info),
    (windows, windows.windows),
    (load_table, load_table.load_table),
    (anonymise, anonymise.anonymise),
    (run, run.run),
    (score, score.score),
    (examine, examine.examine),
    (load, load.load),
    (record, record.record),
    (receive, receive.receive),
    (fetch, fetch.fetch),
    (join, join.join),
    (watch, watch.watch),
    (hub, hub.hub),
    (incidents, incidents.incidents),
    (mcp, mcp.mcp),
    (reproduce, reproduce.reproduce),
    (calibrate, calibrate.calibrate),
    (sweep, sweep.sweep),
    (twin, twin.twin),
)


def app_of(words: Sequence[str]) -> typer.Typer:
    """The program, with the command of the words alone if they begin with one: others need not be made ready."""
    named = [(module, command) for module, command in COMMANDS if command.__name__.replace("_", "-") in words[:1]]
    return _app(named) if named else app


def _app(commands: Iterable[tuple[ModuleType, Callable[..., None]]]) -> typer.Typer:
    app = typer.Typer(
        name="tailrace",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=HELP,
        epilog=EPILOG,
    )
    for module, command in commands:
        app.command(epilog=module.EPILOG)(command)
    app.callback()(_root)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from tailrace._core import __version__

        tell(f"tailrace {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app = _app(COMMANDS)
app.add_typer(testbed.testbed)
