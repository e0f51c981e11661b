"""Commands that record this host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli_words import duration_ns, pairs, say
from tailrace.errors import UsageError
from tailrace.units import MILLISECOND, SECOND

if TYPE_CHECKING:
    from tailrace.dataset import Dataset
    from tailrace.recorder import Node, Plan

RECORD = (
    "Examples:\n\n`tailrace record -o run --duration 60s`, then `tailrace diagnose run`\n\n"
    "`tailrace record -o run --node web=netns:/run/netns/web,cgroup:web --server web=10.0.0.3:80 --interval 10ms`"
)

INTERVAL_MIN_NS, INTERVAL_MAX_NS = 5 * MILLISECOND, 10 * SECOND

Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="NAME=netns:PATH,cgroup:PATH",
        help="Sample a network namespace, a control group, or both, under this name; repeat it.",
    ),
]
Servers = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="NAME=IP:PORT", help="Name a server. Unnamed ones carry their address."),
]
Processes = Annotated[
    list[str] | None,
    typer.Option("--process", metavar="NAME=PID", help="Sample the CPU time of a process; repeat it."),
]
Interval = Annotated[str, typer.Option(metavar="TIME", help="Between two samples, 5ms to 10s.")]


def record(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="The run folder to write.")],
    node: Nodes = None,
    server: Servers = None,
    process: Processes = None,
    interval: Interval = "50ms",
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="End by itself. Default: on SIGINT (Ctrl-C) or SIGTERM.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep only so much of the past. Default: everything.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run folder if it exists.")] = False,
) -> None:
    """Record this host at 50 ms and finer, into a run folder; says `recording` once it does."""
    from tailrace.readers import read
    from tailrace.recorder import discard, recording_of
    from tailrace.recorder import record as record_host

    servers = pairs("--server", server, "NAME=IP:PORT, like web=10.0.0.3:80")
    plan = _plan(node, servers, process, interval, duration, keep)
    if out.exists() and not overwrite:
        raise UsageError("it exists already", where=str(out), advice="choose another name or overwrite it")
    folder = recording_of(out)
    record_host(folder, plan, _heard)
    run = read(folder, out=out, servers=servers, overwrite=overwrite)
    discard(folder)
    _show(run)


def _plan(
    node: list[str] | None,
    servers: dict[str, str],
    process: list[str] | None,
    interval: str,
    duration: str | None,
    keep: str | None,
) -> Plan:
    from tailrace.recorder import Plan, Process

    interval_ns = duration_ns("--interval", interval)
    if not INTERVAL_MIN_NS <= interval_ns <= INTERVAL_MAX_NS:
        raise UsageError(f"--interval {interval}: samples are 5 ms to 10 s apart")
    processes = pairs("--process", process, "NAME=PID, like tomcat=4711")
    for name, pid in processes.items():
        if not (pid.isascii() and pid.isdigit()):
            raise UsageError(f"--process {name}={pid}: a PID is a whole number")
    return Plan(
        interval_ns=interval_ns,
        duration_ns=None if duration is None else duration_ns("--duration", duration),
        keep_ns=None if keep is None else duration_ns("--keep", keep),
        nodes=tuple(_node(name, parts) for name, parts in pairs("--node", node, _NODE).items()),
        processes=tuple(Process(name, int(pid)) for name, pid in processes.items()),
        ports=tuple(sorted({int(address.rpartition(":")[2]) for address in _checked(servers).values()})),
    )


_NODE = "NAME=netns:PATH,cgroup:PATH, like web=netns:/run/netns/web,cgroup:web"


def _node(name: str, text: str) -> Node:
    from tailrace.recorder import Node

    parts: dict[str, str] = {}
    for part in text.split(","):
        kind, colon, path = part.partition(":")
        if kind not in ("netns", "cgroup") or not colon or not path or kind in parts:
            raise UsageError(f"--node {name}={text}: expected {_NODE}")
        parts[kind] = path
    return Node(name, parts.get("netns"), parts.get("cgroup"))


def _checked(servers: dict[str, str]) -> dict[str, str]:
    from tailrace.topology import endpoint

    for name, address in servers.items():
        try:
            endpoint(address)
        except ValueError:
            said = f"--server {name}={address}: the address must be ip:port"
            raise UsageError(said, advice="such as 10.0.0.3:80 or [::1]:80") from None
    return servers


def _heard(kind: str, sentence: str) -> None:
    if kind == "recording":
        sys.stdout.write("recording\n")
        sys.stdout.flush()
    else:
        say(f"tailrace: {sentence}")


def _show(run: Dataset) -> None:
    rows = ", ".join(f"{count:,} {table}" for table, count in run.manifest.rows.items()) or "nothing"
    sys.stdout.write(f"{run.path}: {rows}; explain it with `tailrace diagnose {run.path}`\n")
    for what, count in run.manifest.lost.items():
        say(f"lost: {what}: {count:,}")
