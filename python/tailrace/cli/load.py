"""`tailrace load`: requests to real servers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailrace.cli.options import Add, Change, Out
from tailrace.cli.words import AsJson, Overwrite, Quiet, duration_ns, pairs, print_json, progress, say, tell
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.experiment import Experiment
    from tailrace.load.lowering import Share
    from tailrace.load.outcome import Outcome
    from tailrace.load.targets import Target

EPILOG = (
    "Examples:\n\n"
    "`tailrace load http://127.0.0.1:8080/ --rate 1000 --duration 30s -o run`, then `tailrace diagnose run`\n\n"
    "`tailrace load http://127.0.0.1/ --clients 7000 --think 7s --walk browse-only --ramp 30s -o run`\n\n"
    "`tailrace load --experiment experiments/rpc-vs-async/base web=http://10.0.0.2/ --i-own-this-target -o run`"
)
_PLAIN = ("rate", "clients", "think", "walk", "interaction", "kept", "timeout")
"""Options whose values an experiment states itself."""

Urls = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=]URL…",
        help="Where to send requests; clients are spread over several URLs. NAME is the server's name.",
    ),
]
ExperimentFile = Annotated[
    Path | None,
    typer.Option("--experiment", "-e", metavar="FILE", help="Send the requests of this experiment.toml's workloads."),
]
Rate = Annotated[
    float | None,
    typer.Option(metavar="N", help="Open arrivals (Poisson) in requests a second, each from a new client."),
]
Clients = Annotated[
    int | None, typer.Option(metavar="N", help="Clients that send a request, wait for the answer, think, and repeat.")
]
Think = Annotated[str | None, typer.Option(metavar="TIME", help="Mean think time (exponential). Default: none.")]
Walk = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="RUBBoS's pages: browse-only, read-write. Default: only the URL."),
]
Interaction = Annotated[str | None, typer.Option(metavar="NAME", help="Only this page of RUBBoS.")]
Kept = Annotated[bool, typer.Option("--kept", help="Keep connections open. Default: a new one for each request.")]
Timeout = Annotated[str | None, typer.Option(metavar="TIME", help="Give up waiting after this. Default: never.")]
Time = Annotated[str | None, typer.Option(metavar="TIME", help="Recorded time, after the ramp. Default: 30s.")]
Ramp = Annotated[str | None, typer.Option(metavar="TIME", help="Load before the recorded time. Default: none.")]
Drain = Annotated[str, typer.Option(metavar="TIME", help="How long to wait for answers after the end.")]
Requests = Annotated[int, typer.Option(min=0, metavar="N", help="Send at most this many. Default: no limit.")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Equal seeds give equal moments and pages. Default: 1.")]
Workers = Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes. Default: one for 18,000 clients.")]
Part = Annotated[
    str | None,
    typer.Option("--share", metavar="I/N", help="Run part I of N of the load; run the others elsewhere."),
]
Sources = Annotated[
    list[str] | None, typer.Option("--source", metavar="ADDRESS", help="Connect from this address; repeat it.")
]
Headers = Annotated[
    list[str] | None, typer.Option("--header", metavar="'NAME: VALUE'", help="Send this header; repeat it.")
]
Data = Annotated[
    list[str] | None, typer.Option("--data", metavar="ROWS=N", help="Rows of the board's data: users=1000; repeat it.")
]
Paths = Annotated[
    Path | None,
    typer.Option("--paths", metavar="CSV", help="CSV of interaction,path for pages other than the board's."),
]
Late = Annotated[str, typer.Option(metavar="TIME", help="Mark a window as invalid if a request was sent this late.")]
Own = Annotated[
    bool, typer.Option("--i-own-this-target", help="Permit requests to a server that is not on this machine.")
]
Epoch = Annotated[
    int | None,
    typer.Option(metavar="NS", help="Offset of the run's times from CLOCK_MONOTONIC."),
]
Recover = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Make the run folder from RUN.tmp-… of a killed load.")
]


def load(
    urls: Urls = None,
    experiment: ExperimentFile = None,
    change: Change = None,
    add: Add = False,
    rate: Rate = None,
    clients: Clients = None,
    think: Think = None,
    walk: Walk = None,
    interaction: Interaction = None,
    kept: Kept = False,
    timeout: Timeout = None,
    duration: Time = None,
    ramp: Ramp = None,
    drain: Drain = "10s",
    requests: Requests = 0,
    seed: Seed = None,
    workers: Workers = None,
    share: Part = None,
    source: Sources = None,
    header: Headers = None,
    data: Data = None,
    paths: Paths = None,
    late: Late = "10ms",
    i_own_this_target: Own = False,
    epoch: Epoch = None,
    recover: Recover = None,
    out: Out = Path("run"),
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Overwrite = False,
) -> None:
    """Send requests to real servers as clients do, and write a run folder with the outcome of each request."""
    from tailrace.load.lowering import Settings
    from tailrace.load.running import load as run
    from tailrace.load.running import recover as recover_run
    from tailrace.load.targets import aim

    if recover is not None:
        _show(recover_run(recover, out, overwrite=overwrite), out, as_json)
        return
    if not urls:
        raise UsageError("no URL is given", advice="give a URL such as http://127.0.0.1:8080/")
    given = {
        "rate": rate, "clients": clients, "think": think, "walk": walk, "interaction": interaction,
        "kept": kept or None, "timeout": timeout, "duration": duration, "ramp": ramp, "seed": seed,
    }  # fmt: skip
    asked, targets = _what(
        {k: v for k, v in given.items() if v is not None}, experiment, change, add, aim(urls, i_own_this_target)
    )
    settings = Settings(
        duration_ns("--drain", drain),
        duration_ns("--late", late),
        requests,
        tuple(source or ()),
        _headers(header),
        _sizes(data),
        paths,
        epoch,
    )
    with progress("Loading", quiet, of_bytes=False) as step:
        part = _part(share, workers, asked)
        outcome = run(asked, targets, out, settings=settings, share=part, overwrite=overwrite, progress=step)
    _show(outcome, out, as_json)


def _what(
    given: dict[str, Any], file: Path | None, change: list[str] | None, add: bool, targets: tuple[Target, ...]
) -> tuple[Experiment, tuple[Target, ...]]:
    """The experiment and the targets."""
    from tailrace.experiment import read
    from tailrace.load import plain

    if file is None:
        if change or add:
            raise UsageError("--set and --add change an experiment", advice="name it with --experiment FILE")
        return plain.experiment({"duration": "30 s", **given}, targets)
    said = next((option for option in _PLAIN if option in given), None)
    if said:
        raise UsageError(
            f"--{said} contradicts --experiment, which states it", advice=f"--set workloads.NAME.{said}=… changes it"
        )
    changes = [f"{key}={given[key]}" for key in ("duration", "ramp", "seed") if key in given]
    return read(file, [*(change or ()), *changes], add=add), targets


def _part(share: str | None, workers: int | None, asked: Experiment) -> Share:
    from tailrace.load.lowering import Share
    from tailrace.load.lowering import workers as enough

    first, slash, last = (share or "1/1").partition("/")
    if not (slash and first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise UsageError(f"--share {share}: expected I/N, like 1/4, 2/4, 3/4 and 4/4 for the four parts")
    return Share(int(first) - 1, int(last), workers or enough(asked, int(last)))


def _headers(headers: list[str] | None) -> tuple[str, ...]:
    for header in headers or ():
        name, colon, _ = header.partition(":")
        if not (colon and name.strip() == name and name and header.isprintable() and header.isascii()):
            raise UsageError(f"--header {header!r}: expected NAME: VALUE, like 'Cookie: a=b'")
    return tuple(headers or ())


def _sizes(data: list[str] | None) -> dict[str, int]:
    found = pairs("--data", data, "ROWS=N, like users=1000")
    for name, size in found.items():
        if not size.isdecimal():
            raise UsageError(f"--data {name}={size}: expected a whole number")
    return {name: int(size) for name, size in found.items()}


def _show(found: Outcome, out: Path, as_json: bool) -> None:
    from tailrace.load.outcome import troubles
    from tailrace.units import format_count, format_duration, format_share

    say(*(f"warning: {trouble}" for trouble in troubles(found)))
    if as_json:
        print_json({**asdict(found), "run": str(out)})
        return
    share = found.over_1s / found.requests if found.requests else 0.0
    times = [found.response_p50, found.response_p99, found.response_p999, found.response_max]
    p50, p99, p999, most = ("-" if time is None else format_duration(time) for time in times)
    failed = ", ".join(f"{name} {format_count(n)}" for name, n in found.statuses.items() if name != "ok")
    lines = [
        f"{format_count(found.requests)} requests; response p50 {p50}, p99 {p99}, p99.9 {p999}, longest {most}",
        f"{format_count(found.over_1s)} took over 1 s ({format_share(share)}); failed: {failed or 'none'}",
        f"lost: {format_count(found.drops)} connection attempts, {format_count(found.data_drops)} segments after them",
        f"run folder: {out}",
    ]
    tell(*lines)
