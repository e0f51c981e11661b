"""`tailrace gate`: exit code 1 if a run exceeds its limits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.options import Threshold, Window, threshold_ns, window_ns
from tailrace.cli.running import diagnosed, open_run
from tailrace.cli.words import AsJson, Quiet, duration_ns, parsed, print_json, tell
from tailrace.errors import UsageError
from tailrace.whole import refuse_unusual

if TYPE_CHECKING:
    from tailrace.report.stored import Stored

NOT_PASSED = 1

EPILOG = (
    "Examples:\n\n`tailrace gate run --max-vlrt 0.1% --no-drops --junit gate.xml`\n\n"
    "`tailrace gate run --baseline main/diagnosis.json`"
)


def gate(
    run: Annotated[Path, typer.Argument(metavar="RUN | DIAGNOSIS.json", help="A run folder, or its diagnosis.json.")],
    max_vlrt: Annotated[
        str | None, typer.Option(metavar="SHARE", help="The most requests that may be VLRT, like 0.1% or 0.001.")
    ] = None,
    max_response: Annotated[str | None, typer.Option(metavar="TIME", help="The longest response time.")] = None,
    max_unanswered: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The most requests that may get no answer.")
    ] = None,
    no_drops: Annotated[bool, typer.Option("--no-drops", help="No lost packet may make a request very long.")] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="JSON", help="A diagnosis.json; the run may have no cause at a place that it lacks."),
    ] = None,
    min_requests: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="A run with fewer does not pass. Default: 1.")
    ] = None,
    threshold: Threshold = None,
    window: Window = "50ms",
    junit: Annotated[Path | None, typer.Option(metavar="FILE.xml", help="Write the checks as JUnit XML.")] = None,
    github: Annotated[
        bool | None,
        typer.Option("--github/--no-github", help="Print GitHub's annotations. Default: where GITHUB_ACTIONS is set."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check a run against limits: exit code 1 if it exceeds one, or if the recording cannot settle one."""
    from tailrace import whole
    from tailrace.gate import Limits, judge, passed, results
    from tailrace.report import stored
    from tailrace.units import parse_share

    if not no_drops and all(
        limit is None for limit in (max_vlrt, max_response, max_unanswered, baseline, min_requests)
    ):
        raise UsageError("no limit is given", advice="give --max-vlrt, --no-drops, or another one of `--help`")
    most = None if max_vlrt is None else parsed("--max-vlrt", parse_share, max_vlrt)
    longest = None if max_response is None else duration_ns("--max-response", max_response)
    least, width = threshold_ns(threshold), window_ns(window)
    refuse_unusual(junit)
    confine([run, baseline], [junit])
    before = stored.read(baseline) if baseline is not None else None
    found = _found(run, least, width, quiet)
    checks = judge(found, Limits(min_requests or 1, most, longest, max_unanswered, no_drops, before))
    if junit is not None:
        whole.write(junit, results.junit(checks, run.name, found.answer))
    if as_json:
        print_json({"passed": passed(checks), "checks": [vars(check) for check in checks], "answer": found.answer})
    else:
        tell(*(f"{check.verdict:7} {check.name}: {check.sentence}" for check in checks))
        if not passed(checks):
            tell(*found.answer)
    if github or (github is None and not as_json and os.environ.get("GITHUB_ACTIONS") == "true"):
        tell(*results.for_github(checks, run.name, found.answer))
    if not passed(checks):
        raise typer.Exit(NOT_PASSED)


def _found(run: Path, threshold: int | None, window: int, quiet: bool) -> Stored:
    """A folder is diagnosed; a file is read."""
    from tailrace.report import stored

    if run.is_dir():
        return stored.of(diagnosed(open_run(run), threshold, window, quiet))
    if threshold is not None:
        raise UsageError("--threshold: a diagnosis.json has its own threshold", advice="give the run folder instead")
    return stored.read(run)
