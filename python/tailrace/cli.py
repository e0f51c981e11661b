"""The command line: a thin door. Parses words, calls the same functions as the Python API, prints, and exits.

Only the modules cli*.py print or exit. Exit codes: 0 done, whatever was found; 1 there are VLRT and --fail-on-vlrt was
given; 2 wrong use or unreadable input; 70 a fault of Tailrace itself; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from tailrace import cli_load, cli_record, cli_studies
from tailrace.cli_testbed import measured, testbed
from tailrace.cli_words import AsJson, Engine, Overwrite, Quiet, Systems, duration_ns, pairs, print_json, progress, say
from tailrace.errors import TailraceError, UsageError

if TYPE_CHECKING:
    from tailrace.dataset import Dataset
    from tailrace.diagnosis.finding import Diagnosis
    from tailrace.experiment import Experiment
    from tailrace.sim import Outcome as Simulated
    from tailrace.testbed import Outcome as Measured

WINDOW_MIN_NS, WINDOW_MAX_NS = 1_000_000, 10_000_000_000
VLRT_FOUND, WRONG_USE, OWN_FAULT, INTERRUPTED = 1, 2, 70, 130

app = typer.Typer(
    name="tailrace",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Why do a few requests take **seconds** when almost all take milliseconds, while no machine looks busy?\n\n"
    "Give it a packet capture (and, better, 50 ms resource samples and garbage-collection logs); it answers which "
    "server dropped connections, whose queue filled first, which resource was saturated, and by what.",
    epilog="Start with `tailrace diagnose capture.pcap`. Exit codes: 0 done, 1 VLRT found with --fail-on-vlrt, "
    "2 wrong use or unreadable input, 130 interrupted.",
)


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES… | RUN",
        help="Captures (pcap, pcapng; plain, gzip, zstd; - is standard input), samples (CSV, Parquet, collectl), JVM "
        "GC logs, in any order and told apart by content; or one run folder. `app=gc.log` says whose file it is.",
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as `tailrace read -o RUN` writes it.")]
Servers = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="NAME=IP:PORT", help="Name a server. Unnamed ones carry their address."),
]
Places = Annotated[
    list[str] | None,
    typer.Option("--place", metavar="PLACE=NODE", help="Which server or address a place in the samples means."),
]
TopologyFile = Annotated[
    Path | None, typer.Option("--topology", metavar="FILE", help="A topology.toml that overrides what is inferred.")
]
Interactions = Annotated[
    Path | None,
    typer.Option(
        "--interactions", metavar="FILE", help="TOML rules that name interactions: docs/reference/readers.md."
    ),
]
Threshold = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="What counts as very long, e.g. 800ms. Default: 0.95 s, or the gap between modes."
    ),
]
Window = Annotated[str, typer.Option(metavar="TIME", help="Width of a window, 1ms to 10s.")]


@app.command(
    epilog="Examples:\n\n"
    "`tailrace diagnose slow.pcap`\n\n"
    "`tailrace diagnose packets.pcap.zst samples.csv app=gc.log --server web=10.0.0.3:80 --report report.html`\n\n"
    "`zcat day.pcap.gz | tailrace diagnose - --json | jq .summary`"
)
def diagnose(
    files: Files,
    server: Servers = None,
    place: Places = None,
    topology: TopologyFile = None,
    interactions: Interactions = None,
    threshold: Threshold = None,
    window: Window = "50ms",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="RUN", help="Keep the run folder, with report.html and diagnosis.json."),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write the report here.")] = None,
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a trace for Perfetto's viewer here.")
    ] = None,
    fail_on_vlrt: Annotated[bool, typer.Option("--fail-on-vlrt", help="Exit with 1 when there are VLRT.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Overwrite = False,
) -> None:
    """Explain why some requests took seconds: from captures, samples and logs, or from a run folder."""
    window_ns, threshold_ns = _window_ns(window), _threshold_ns(threshold)
    run = _read(files, server, place, topology, interactions, out, quiet, overwrite)
    found = _diagnose(run, threshold_ns, window_ns, quiet)
    if out is not None:
        _write_beside(run, found)
    if report is not None:
        _write_html(run, found, report)
    if perfetto is not None:
        _write_perfetto(run, found, perfetto)
    _show(run, found, as_json)
    if fail_on_vlrt and found.vlrt:
        raise typer.Exit(VLRT_FOUND)


@app.command(
    epilog="Examples:\n\n`tailrace read web.pcapng app.pcapng samples.csv -o run`\n\n"
    "`tcpdump -w - -i any tcp | tailrace read - -o run`"
)
def read(
    files: Files,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="The run folder to write.")],
    server: Servers = None,
    place: Places = None,
    topology: TopologyFile = None,
    interactions: Interactions = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Overwrite = False,
) -> None:
    """Read captures, samples and logs into a run folder: Parquet tables that any tool opens."""
    _show_info(_read(files, server, place, topology, interactions, out, quiet, overwrite), as_json)


@app.command(
    epilog="Examples:\n\n`tailrace report run`\n\n`tailrace report run -o friday.html --perfetto friday.pftrace`"
)
def report(
    run: Run,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.html", help="Default: RUN/report.html.")
    ] = None,
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a trace for Perfetto's viewer here.")
    ] = None,
    threshold: Threshold = None,
    window: Window = "50ms",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run folder: one HTML file that needs no network."""
    window_ns, threshold_ns = _window_ns(window), _threshold_ns(threshold)
    dataset = _open(run)
    found = _diagnose(dataset, threshold_ns, window_ns, quiet)
    target = out or run / "report.html"
    _write_html(dataset, found, target)
    if perfetto is not None:
        _write_perfetto(dataset, found, perfetto)
    if as_json:
        print_json({"report": str(target), "perfetto": str(perfetto) if perfetto else None, "vlrt": found.vlrt})


@app.command(
    epilog="Examples:\n\n`tailrace export run --pcap run.pcap`\n\n`tailrace export run --pcap run.pcap --snaplen 96`"
)
def export(
    run: Run,
    pcap: Annotated[Path, typer.Option(metavar="FILE", help="The capture to write.")],
    snaplen: Annotated[
        int, typer.Option(metavar="BYTES", help="Keep so many bytes of each packet, 96 to 262144.")
    ] = 262_144,
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the capture if it exists.")] = False,
) -> None:
    """Write the packets of a run's visits: a capture that Wireshark opens and `tailrace read` reads back."""
    from tailrace.export import describe, write_pcap

    dataset = _open(run)
    with progress("Exporting", quiet, of_bytes=False) as step:
        written = write_pcap(dataset, pcap, snaplen=snaplen, overwrite=overwrite, progress=step)
    if as_json:
        print_json(written.to_json())
    else:
        typer.echo(describe(written))


@app.command(epilog="Example:\n\n`tailrace info run --json | jq .lost`")
def info(run: Run, as_json: AsJson = False) -> None:
    """Show what is in a run folder, what is missing, clock offsets and losses."""
    _show_info(_open(run), as_json)


def _schema(wanted: bool) -> None:
    if wanted:
        from tailrace.experiment import json_schema

        print_json(json_schema())
        raise typer.Exit


@app.command(
    epilog="Examples:\n\n"
    "`tailrace run experiments/rpc-vs-async/base -o run`, then `tailrace diagnose run`\n\n"
    "`tailrace run experiments/rpc-vs-async/base --set tiers.web.workers=300 -o run-300`\n\n"
    "`tailrace run experiments/testbed/sync --engine testbed -o real`\n\n"
    "`tailrace run --schema > experiment.schema.json` for your editor"
)
def run(
    experiment: Annotated[
        Path, typer.Argument(metavar="EXPERIMENT", help="An experiment.toml, or a folder with one in it.")
    ],
    engine: Annotated[
        Engine,
        typer.Option(
            help="What runs it: sim simulates, at millions of events a second; testbed starts real servers on this "
            "machine, as root."
        ),
    ] = Engine.SIM,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="The run folder to write.")] = Path("run"),
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY.PATH=VALUE", help="Change the experiment, as TOML; repeat it."),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Instead of the experiment's.")] = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", callback=_schema, is_eager=True, help="Print the JSON Schema of experiments and exit."
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Overwrite = False,
) -> None:
    """Run an experiment: who asks, who serves, what stalls. Writes a run folder, with the truth beside the record."""
    from tailrace.experiment import read as read_experiment

    changes = [*(change or []), *([f"seed={seed}"] if seed is not None else [])]
    found = read_experiment(experiment, changes)
    outcome = (
        _simulated(found, out, overwrite, quiet) if engine is Engine.SIM else measured(found, out, overwrite, quiet)
    )
    _show_outcome(found, outcome, out, as_json)


def _simulated(found: Experiment, out: Path, overwrite: bool, quiet: bool) -> Simulated:
    from tailrace.sim import simulate

    with progress("Simulating", quiet, of_bytes=False) as step:
        return simulate(found, out, overwrite=overwrite, progress=step)


@app.command(epilog="Examples:\n\n`tailrace score run`\n\n`tailrace score run --diagnosis diagnosis.json --json`")
def score(
    run: Run,
    diagnosis: Annotated[
        Path | None, typer.Option(metavar="JSON", help="A diagnosis.json of it. Default: it is diagnosed.")
    ] = None,
    truth: Annotated[Path | None, typer.Option(metavar="FILE", help="Default: RUN/truth.toml.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare a diagnosis with what really happened: of simulated runs and of recordings with a truth.toml."""
    from tailrace.diagnosis.serialise import as_dict
    from tailrace.score import read_diagnosis
    from tailrace.score import score as compare
    from tailrace.score.table import print_score

    dataset = _open(run)
    told = as_dict(_diagnose(dataset, None, 50_000_000, quiet)) if diagnosis is None else read_diagnosis(diagnosis)
    found = compare(dataset, told, truth)
    print_json(found.as_dict()) if as_json else print_score(found, Console())


@app.command(
    epilog="Examples:\n\n`tailrace examine --runs 200`\n\n"
    "`tailrace examine --runs 900 --seed 100000 --without -o exam`\n\n"
    "`tailrace examine --systems chains --runs 400 --seed 30000000`"
)
def examine(
    runs: Annotated[int, typer.Option(min=1, help="How many random systems.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The first one's; the others follow.")] = 0,
    systems: Annotated[
        Systems,
        typer.Option(help="Chains of tiers; graphs of services; or both: chains for even seeds, graphs for odd ones."),
    ] = Systems.BOTH,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Keep results here; a killed sweep goes on.")
    ] = None,
    without: Annotated[
        bool,
        typer.Option("--without", help="Simulate each again without its troubles, too: what is told must be missed."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Diagnose random simulated systems with known troubles, and count what is right."""
    from tailrace.score import sweep
    from tailrace.score.table import print_summary

    with progress("Examining", quiet, of_bytes=False) as step:
        seeds = range(seed, seed + runs)
        rows = sweep.sweep(seeds, out, systems=systems.value, again=without, progress=step)
    found = sweep.summarise(rows)
    print_json(found.as_dict()) if as_json else print_summary(found, Console())


app.command(epilog=cli_load.LOAD)(cli_load.load)
app.command(epilog=cli_record.RECORD)(cli_record.record)
app.command(epilog=cli_record.WATCH)(cli_record.watch)
app.command(epilog=cli_studies.REPRODUCE)(cli_studies.reproduce)
app.command(epilog=cli_studies.SWEEP)(cli_studies.sweep)
app.add_typer(testbed)


def _version(wanted: bool) -> None:
    if wanted:
        from tailrace._core import __version__

        typer.echo(f"tailrace {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _window_ns(text: str) -> int:
    window = duration_ns("--window", text)
    if not WINDOW_MIN_NS <= window <= WINDOW_MAX_NS:
        raise UsageError(f"--window {text}: a window is 1 ms to 10 s wide")
    return window


def _threshold_ns(text: str | None) -> int | None:
    return None if text is None else duration_ns("--threshold", text)


def _open(path: Path) -> Dataset:
    from tailrace.dataset import Dataset

    return Dataset.open(path)


def _read(
    files: list[str],
    server: list[str] | None,
    place: list[str] | None,
    topology: Path | None,
    interactions: Path | None,
    out: Path | None,
    quiet: bool,
    overwrite: bool,
) -> Dataset:
    from tailrace.readers import read as read_files

    servers = pairs("--server", server, "NAME=IP:PORT, like web=10.0.0.3:80")
    places = pairs("--place", place, "PLACE=NODE, like web=10.0.0.3")
    with progress("Reading", quiet) as step:
        return read_files(
            *files,
            servers=servers,
            places=places,
            topology=topology,
            interactions=interactions,
            out=out,
            overwrite=overwrite,
            progress=step,
        )


def _diagnose(dataset: Dataset, threshold_ns: int | None, window_ns: int, quiet: bool) -> Diagnosis:
    from tailrace.diagnosis import diagnose as run_diagnosis

    with progress("Diagnosing", quiet):
        return run_diagnosis(dataset, threshold_ns=threshold_ns, window_ns=window_ns)


def _write_beside(dataset: Dataset, found: Diagnosis) -> None:
    from tailrace.report import write_json

    write_json(found, dataset.path / "diagnosis.json")
    _write_html(dataset, found, dataset.path / "report.html")


def _write_html(dataset: Dataset, found: Diagnosis, path: Path) -> None:
    from tailrace.report import write_html

    write_html(dataset, found, path)
    say(f"report: {path}")


def _write_perfetto(dataset: Dataset, found: Diagnosis, path: Path) -> None:
    from tailrace.report import write_perfetto

    write_perfetto(dataset, found, path)
    say(f"Perfetto trace: {path} (open it at ui.perfetto.dev)")


def _show(dataset: Dataset, found: Diagnosis, as_json: bool) -> None:
    if as_json:
        from tailrace.diagnosis.serialise import to_json

        sys.stdout.write(to_json(found) + "\n")
        return
    from tailrace.report import print_terminal

    print_terminal(found, Console(), dataset)


def _show_info(dataset: Dataset, as_json: bool) -> None:
    from tailrace.report.info import describe, print_info

    if as_json:
        print_json(describe(dataset))
    else:
        print_info(dataset, Console())


def _show_outcome(experiment: Experiment, outcome: Simulated | Measured, out: Path, as_json: bool) -> None:
    from tailrace.units import format_count, format_duration, format_share

    if as_json:
        print_json({**asdict(outcome), "run": str(out)})
        return
    rate = outcome.answered / experiment.duration * 10**9
    share = outcome.over_1s / outcome.requests if outcome.requests else 0.0
    mean = outcome.response_ns_mean
    lines = [
        f"{format_count(outcome.requests)} requests, {rate:,.4g} answered a second"
        + (f"; mean response {format_duration(round(mean))}" if mean is not None else ""),
        f"{format_count(outcome.over_1s)} answers took over 1 s ({format_share(share)}), "
        f"{format_count(outcome.failed)} requests failed",
        *_unfinished(outcome),
        *_never(experiment),
        _dropped(experiment, outcome),
        "stalled: " + (_stalls(outcome) or "nothing"),
        f"run folder: {out}; explain it with `tailrace diagnose {out}`",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def _dropped(experiment: Experiment, outcome: Simulated | Measured) -> str:
    from tailrace.sim import Outcome
    from tailrace.units import format_count

    lost = ", ".join(f"{name} {format_count(n)}" for name, n in outcome.drops.items())
    since = ", ramp included" if isinstance(outcome, Outcome) and experiment.ramp and lost else ""
    return f"dropped{since}: {lost or 'nothing'}"


def _unfinished(outcome: Simulated | Measured) -> list[str]:
    """Of the simulator: what it gave up."""
    from tailrace.sim import Outcome

    left = outcome.unfinished if isinstance(outcome, Outcome) else 0
    told = f"{left:,} requests and calls were still under way 10 minutes after the end: no table has them"
    return [told] if left else []


def _never(experiment: Experiment) -> list[str]:
    """Workloads of which nobody asks."""
    from tailrace.experiment.workloads import never
    from tailrace.units import exact_duration

    late = {name: never(load, experiment.duration) for name, load in experiment.workloads.items()}
    return [
        f"nobody asked of workloads.{name}: it begins at {exact_duration(begin)}, after the end of the run"
        for name, begin in late.items()
        if begin is not None
    ]


def _stalls(outcome: Simulated | Measured) -> str:
    kinds = Counter((stall.place, stall.kind) for stall in outcome.stalls)
    return ", ".join(f"{place} by {kind} {times} times" for (place, kind), times in sorted(kinds.items()))


def _fail(sentence: str, code: int) -> NoReturn:
    sys.stderr.write(f"tailrace: {sentence}\n")
    sys.exit(code)


def main() -> None:
    """Entry point: turns whatever goes wrong into one sentence and an exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except SystemExit as stop:
        _leave(stop)
    except TailraceError as error:
        _fail(str(error), WRONG_USE)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", WRONG_USE)
    except Exception as error:
        if os.environ.get("TAILRACE_TRACEBACK"):
            raise
        kind = type(error).__name__
        _fail(f"a fault of Tailrace itself ({kind}: {error}); TAILRACE_TRACEBACK=1 shows where", OWN_FAULT)


def _leave(stop: SystemExit) -> NoReturn:
    """Typer's own endings, made ours: an interruption gets its sentence, a reader that went away is no fault."""
    if stop.code == INTERRUPTED:
        _fail("interrupted; nothing half-written was left behind", INTERRUPTED)
    if isinstance(stop.__context__, BrokenPipeError):
        sys.exit(0)
    raise stop
