"""`tailrace twin`: an experiment that repeats a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.options import Run, SoftwareOfTiers, Verify
from tailrace.cli.running import open_run
from tailrace.cli.words import AsJson, Quiet, pairs, print_json, progress, tell

if TYPE_CHECKING:
    from tailrace.twin import Gate, Twin

EPILOG = (
    "Examples:\n\n"
    "`tailrace read packets.pcap samples.csv -o run`, then `tailrace twin run -o twin`\n\n"
    "`tailrace run twin -o again --set tiers.web.backlog=512`: the same minute with a longer accept queue\n\n"
    "`tailrace diagnose again`: why requests are slow in the twin\n\n"
    "`tailrace twin run --software app=gunicorn`, then `tailrace advise twin`: the lines to change in gunicorn\n\n"
    "docs/reference/twin.md says what is learnt from what, and when a twin is refused."
)


def twin(
    run: Run,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="The folder of experiment.toml and its files.")
    ] = Path("twin"),
    software: SoftwareOfTiers = None,
    verify: Verify = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the experiment in the folder.")] = False,
) -> None:
    """Learn an experiment that repeats a recording: its requests as they came, what each needed, how many each server
    holds, and the capacity that servers lacked. `tailrace run` runs it, and changes can be tried on it.

    The twin is simulated, and what it does is shown beside what was recorded. Where it does not repeat the
    recording, what changes do to it says nothing about the real system; the last lines say what would help.
    """
    from tailrace.advise.recordings import of_tiers
    from tailrace.twin import gate, learn

    confine([run], [out])
    named = pairs("--software", software, "TIER=NAME, like app=tomcat")
    dataset = open_run(run, verify)
    learnt = learn(dataset)
    runs = of_tiers(learnt, dataset, named)
    found = learnt.running(runs)
    path = found.write(out, overwrite=overwrite)
    with progress("Simulating", quiet, of_bytes=False) as step:
        checked = gate(found, dataset, progress=step)
    if as_json:
        print_json(_json(found, checked, path) | {"software": {name: list(names) for name, names in runs.items()}})
    else:
        told = ", ".join(f"{name} runs {' and '.join(names)}" for name, names in runs.items() if names)
        tell(*_lines(found, checked, path), *([f"for the lines to change: {told}"] if told else []))


def _json(found: Twin, checked: Gate, path: Path) -> dict[str, Any]:
    return {
        "experiment": str(path),
        "passed": checked.passed,
        "compared": [vars(row) for row in checked.rows],
        "demands": [vars(demand) for demand in found.demands],
        "origins": dict(found.origins),
        "unknown": [vars(unknown) for unknown in found.unknowns],
    }


def _lines(found: Twin, checked: Gate, path: Path) -> list[str]:
    rows = [("", "recorded", "reproduced", "")]
    rows += [(row.what, row.recorded, row.reproduced, "" if row.passed else "  differs") for row in checked.rows]
    width = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{a:<{width[0]}}  {b:>{width[1]}}  {c:>{width[2]}}{d}".rstrip() for a, b, c, d in rows]
    if found.unknowns:
        lines += ["", *(unknown.sentence for unknown in found.unknowns)]
    lines.append("")
    if checked.passed:
        lines.append(f"the twin repeats the recording: {path}; try a change with `tailrace run {path} --set KEY=VALUE`")
    else:
        lines.append(f"the twin does not repeat the recording, so it cannot tell what a change would do: {path}")
        lines += [f"  {sentence}" for sentence in checked.off]
    return lines
