"""`tailrace reproduce`: the papers' figures and tables beside ours."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.options import Experiments, Jobs, cluster_of
from tailrace.cli.words import AsJson, Engine, Quiet, print_json, progress, say, tell
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.reproduce import Reproduction
    from tailrace.reproduce.diagnoses import Diagnosed
    from tailrace.reproduce.earlier import Earlier
    from tailrace.reproduce.outcome import Seeds
    from tailrace.reproduce.shelf import Entry

EPILOG = (
    "Examples:\n\n`tailrace reproduce --list`\n\n`tailrace reproduce rpc-vs-async figure-1`\n\n"
    "`tailrace reproduce balancers table-I --seeds 10 --json | jq .summary`\n\n"
    "`tailrace reproduce lightning figure-10 --diagnose`\n\n"
    "`tailrace reproduce lightning figure-10 --seeds 1 --first-seed 901`\n\n"
    "`tailrace reproduce rpc-vs-async figure-7 --engine testbed`"
)

Measured = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="With --package: JSON of an earlier --engine testbed or --diagnose, for what this command does not make.",
    ),
]

Diagnose = Annotated[
    bool,
    typer.Option(
        "--diagnose", help="Diagnose the runs, and compare the reported cause with the one that the paper names."
    ),
]
Count = Annotated[int, typer.Option(min=1, metavar="N", help="Replications of each run that --diagnose diagnoses.")]
Knobs = Annotated[
    bool,
    typer.Option(
        "--knobs", help="Change each number that the paper does not give by a quarter, and show which claims change."
    ),
]
FirstSeed = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**62,
        metavar="N",
        help="Seed of each run's first replication; further ones have the next seeds. Default: the experiment's, 1.",
    ),
]


def reproduce(
    paper: Annotated[str | None, typer.Argument(metavar="PAPER", help="A folder of the experiments.")] = None,
    figure: Annotated[
        str | None,
        typer.Argument(
            metavar="FIGURE | TABLE", help="figure-1, table-I; several with commas. Default: all of the paper."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All papers.")] = False,
    diagnose: Diagnose = False,
    diagnosed: Count = 1,
    knobs: Knobs = False,
    package: Annotated[
        bool,
        typer.Option(
            "--package", help="Write a page, its PDF and JSON for each paper, a summary, and a manifest with checksums."
        ),
    ] = False,
    measured: Measured = None,
    listed: Annotated[bool, typer.Option("--list", help="Show what can be reproduced and exit.")] = False,
    engine: Annotated[
        str,
        typer.Option(
            metavar="sim | testbed | URL",
            help="sim: the simulator alone; testbed: real servers as well, as root, for what has a testbed.toml; "
            "dask://…, ray://…, spark://…: the simulator alone, on their workers.",
        ),
    ] = Engine.SIM.value,
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Replications of each run. Default: each figure's own.")
    ] = None,
    at_most: Annotated[int | None, typer.Option(min=1, metavar="N", help="Replications of each run at most.")] = None,
    first_seed: FirstSeed = None,
    jobs: Jobs = None,
    experiments: Experiments = Path("experiments"),
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the page, its JSON, and the stored runs.")
    ] = Path("reproduced"),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a paper's experiments and compare its figures and tables with ours: does it behave as the papers say?"""
    from tailrace.reproduce import as_dict, earlier
    from tailrace.reproduce import entries as every_entry
    from tailrace.reproduce import reproduce as reproduce_all
    from tailrace.reproduce.outcome import Seeds
    from tailrace.study.engines import TESTBED

    if listed:
        _list(every_entry(experiments), as_json)
        return
    entries = _named(experiments, paper, figure, every)
    if knobs:
        _vary(entries, out, Seeds(seeds, at_most, first_seed), jobs, quiet)
        return
    served = engine == Engine.TESTBED.value
    cluster = None if served or engine == Engine.SIM.value else cluster_of(engine)
    if served:
        entries = _servable(entries)
    known = earlier.read(measured or [])
    began = time.monotonic()
    with progress("Running" if served else "Simulating", quiet, of_bytes=False) as step:
        testbed = TESTBED if served else None
        count = diagnosed if diagnose else 0
        made = reproduce_all(entries, out, seeds, jobs, step, testbed, count, at_most, cluster, first_seed)
    if package:
        _package(made, out, time.monotonic() - began, known)
    else:
        _write(made, out, "-".join([str(paper), *(entry.name for entry in entries)]) if figure else paper or "all")
    print_json(as_dict(made)) if as_json else _show(made)


def _vary(entries: list[Entry], out: Path, seeds: Seeds, jobs: int | None, quiet: bool) -> None:
    from tailrace import whole
    from tailrace.reproduce import sensitivity

    with progress("Simulating", quiet, of_bytes=False) as step:
        found = sensitivity.vary(entries, out, seeds, jobs, step)
    text = sensitivity.markdown(found, seeds)
    whole.write(out / "knobs.md", text.encode())
    tell(*text.splitlines())
    say(f"table: {out / 'knobs.md'}")


def _named(experiments: Path, paper: str | None, figure: str | None, every: bool) -> list[Entry]:
    from tailrace.reproduce import entries, find

    if every == (paper is not None):
        found = "both a paper and --all are given" if every else "no paper is named"
        raise UsageError(found, advice="`tailrace reproduce --list` shows the papers; --all means all of them")
    return entries(experiments) if paper is None else find(experiments, paper, figure)


def _servable(entries: list[Entry]) -> list[Entry]:
    """The figures that real servers can run, after a check that this machine can."""
    from tailrace.reproduce.scaled import FILE
    from tailrace.testbed.doctor import examine, missing

    lacking = missing(examine())
    if lacking:
        raise UsageError(lacking)
    found = [entry for entry in entries if (entry.folder / FILE).exists()]
    return found or entries


def _list(entries: list[Entry], as_json: bool) -> None:
    found = [(entry, entry.read()) for entry in entries]
    if as_json:
        print_json([{"paper": e.paper, "name": e.name, "title": x.title, "shows": x.shows} for e, x in found])
        return
    width = max((len(f"{entry.paper} {entry.name}") for entry in entries), default=0)
    for entry, expected in found:
        tell(f"{f'{entry.paper} {entry.name}':{width}}  {expected.title}")


def _write(found: Reproduction, out: Path, name: str) -> None:
    from tailrace import whole
    from tailrace.reproduce import page, to_json

    whole.write(out / f"{name}.json", to_json(found).encode())
    whole.write(out / f"{name}.html", page.html(found).encode())
    say(f"page: {out / name}.html")


def _package(made: Reproduction, out: Path, seconds: float, known: Earlier) -> None:
    import shlex

    from tailrace.reproduce import package

    skipped = package.write(out, made, shlex.join(["tailrace", *sys.argv[1:]]), seconds, known)
    for name, why in skipped.items():
        say(f"{name} is skipped: {why}")
    say(f"package: {out}")


def _show(found: Reproduction) -> None:
    """A line for each figure, and the claims that do not hold."""
    from tailrace.report.plots import number

    for outcome in found.outcomes:
        verdicts = [claim.verdict for claim in outcome.claims]
        held = f"{verdicts.count('holds')} of {len(verdicts)} claims hold"
        held += f", {verdicts.count('undecided')} undecided" if "undecided" in verdicts else ""
        close = [cell.ours.close for cell in outcome.cells if cell.ours.close is not None]
        held += f"; {sum(close)} of {len(close)} numbers within a quarter" if close else ""
        tell(f"{outcome.entry.paper} {outcome.entry.name}: {held}")
        for claim in outcome.claims:
            if claim.verdict != "holds":
                tell(f"  {claim.verdict}: {claim.says} ({claim.why})")
        for cell in outcome.cells:
            if cell.ours.close is False:
                paper, ours = number(cell.paper or 0), number(cell.ours.interval.mean)
                why = cell.note or "no reason is written"
                tell(f"  {cell.value} @ {cell.run}: the paper {paper}, ours {ours}; {why}")
        for one in outcome.diagnoses:
            tell(f"  {_told(one)}")


def _told(one: Diagnosed) -> str:
    """What the diagnosis reports of a run, in a line."""
    from tailrace.units import format_share

    if not one.vlrt:
        return f"diagnosis @ {one.run}: no request was very slow"
    named = f"; the paper names {' or '.join(one.cause)}" if one.cause else ""
    named += f" at {one.origin}, the reported origin of {format_share(one.share(one.at_origin))}" if one.origin else ""
    named += f"; without that, {one.gone_share} are gone" if one.gone_share else ""
    verdict = {"holds": "finds it", "fails": "does not find it", None: "no claim"}[one.verdict]
    right = format_share(one.share(one.right))
    return (
        f"diagnosis @ {one.run}: {one.vlrt:,} VLRT: {one.shares}; {right} right by simulating without{named}: {verdict}"
    )
