"""Options and arguments of several commands, and their parsing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.words import duration_ns, pairs
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.engines import Mapping

WINDOW_MIN_NS, WINDOW_MAX_NS = 1_000_000, 10_000_000_000

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES… | RUN",
        help="Captures (pcap, pcapng; plain, gzip, zstd; - is standard input), traces (OTLP, Jaeger, Zipkin), access "
        "logs, samples (CSV, Parquet, collectl, sadf, Prometheus), JVM GC logs, in any order; their content shows "
        "which they are. Or one run folder. `app=gc.log` assigns a file to a server.",
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as `tailrace read -o RUN` writes it.")]
Servers = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="NAME=IP:PORT", help="Name a server. Without a name, its address is its name."),
]
Places = Annotated[
    list[str] | None,
    typer.Option("--place", metavar="PLACE=NODE", help="The server or address that a place in the samples stands for."),
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
Protocols = Annotated[
    list[str] | None,
    typer.Option(
        "--protocol",
        metavar="PORT=NAME",
        help="The protocol of servers at a port, instead of what their bytes show: http, http2, ajp, fastcgi, mysql, "
        "postgres, redis, memcached, mongodb, kafka, cassandra, amqp, ldap, dns, or opaque (any other, by change of "
        "direction). Repeat it.",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys", metavar="FILE", help="The secrets of TLS sessions, as SSLKEYLOGFILE logs them: TLS is decrypted."
    ),
]
KeepQueries = Annotated[
    bool,
    typer.Option(
        "--keep-queries",
        help="Keep queries, SQL literals and everything else in names of requests; they reach the run folder and "
        "the report.",
    ),
]
Began = Annotated[
    list[str] | None,
    typer.Option(
        "--began",
        metavar="NAME=TIME",
        help="Start of a JVM or a load test, for a log that counts from it, like app=2026-11-20T16:49:00Z. Repeat "
        "it for several logs, or for several runs in one.",
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="The format of access logs that Tailrace does not recognise, as the configuration of nginx or Apache has "
        "it: '%h %l %u %t \"%r\" %>s %b %D'.",
    ),
]
Columns = Annotated[
    Path | None,
    typer.Option("--columns", metavar="FILE", help="Which columns of flat tables of spans mean what, as TOML."),
]
Threads = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, metavar="N", help="Threads that decode captures. Default: all cores."),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="First check every row and the SHA-256 of every file of the run folder.")
]
Threshold = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="What counts as very long, e.g. 800ms. Default: 0.95 s, or the gap between modes."
    ),
]
Window = Annotated[str, typer.Option(metavar="TIME", help="Width of a window, 1ms to 10s.")]
ExperimentFile = Annotated[
    Path, typer.Argument(metavar="EXPERIMENT", help="An experiment.toml, or a folder with one in it.")
]
Experiments = Annotated[Path, typer.Option(metavar="FOLDER", help="Where the papers' experiments are.")]
SERVER_FORM = "NAME=IP:PORT, like web=10.0.0.3:80"
Out = Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="The run folder to write.")]
Change = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY.PATH=VALUE", help="Change the experiment, as TOML; repeat it."),
]
Add = Annotated[
    bool,
    typer.Option("--add", help="--set and --vary may name new workloads, tiers, nodes and pages."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Runs at once. Default: all cores.")]


Cluster = Annotated[
    str,
    typer.Option("--engine", metavar="URL", help="What simulates: local, dask://…, ray://… or spark://…."),
]


def protocols_of(given: list[str] | None) -> dict[int, str]:
    named = pairs("--protocol", given, _PROTOCOL)
    for port, name in named.items():
        if not (port.isascii() and port.isdigit()):
            raise UsageError(f"--protocol {port}={name}: expected {_PROTOCOL}")
    return {int(port): name for port, name in named.items()}


_PROTOCOL = "PORT=NAME, like 9000=fastcgi"


def window_ns(text: str) -> int:
    window = duration_ns("--window", text)
    if not WINDOW_MIN_NS <= window <= WINDOW_MAX_NS:
        raise UsageError(f"--window {text}: a window is 1 ms to 10 s wide")
    return window


def cluster_of(url: str) -> Mapping | None:
    """The workers that simulate; None for this machine."""
    from tailrace.engines import mapping

    return mapping(url)


def threshold_ns(text: str | None) -> int | None:
    return None if text is None else duration_ns("--threshold", text)


SoftwareOfTiers = Annotated[
    list[str] | None,
    typer.Option(
        "--software",
        metavar="TIER=NAME,…",
        help="The software of a tier, for the lines to change: app=gunicorn; repeat it.",
    ),
]
