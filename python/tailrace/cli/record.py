"""`tailrace record`: this host into a run folder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.options import KeepQueries, Out, Protocols, Servers, protocols_of
from tailrace.cli.recording import (
    Duration,
    Interactions,
    Interfaces,
    Interval,
    Nodes,
    Ports,
    Processes,
    Promiscuous,
    Ring,
    Snaplen,
    decode_options,
    nodes_of,
    packets_of,
    plan_of,
    servers_of,
)
from tailrace.cli.words import Overwrite, say, tell
from tailrace.errors import OutputError, UsageError

if TYPE_CHECKING:
    from tailrace.dataset import Dataset

EPILOG = (
    "Examples:\n\n`tailrace record -o run --interface eth0 --duration 60s`, then `tailrace diagnose run`\n\n"
    "`tailrace record -o run --node web=netns:/run/netns/web,cgroup:web --server web=10.0.0.3:80 --interval 10ms`"
)

Capture = Annotated[bool, typer.Option("--capture", help="Keep the packets, decode them at the end.")]


def record(
    out: Out,
    node: Nodes = None,
    server: Servers = None,
    process: Processes = None,
    interface: Interfaces = None,
    port: Ports = None,
    promiscuous: Promiscuous = False,
    capture: Capture = False,
    snaplen: Snaplen = 256,
    ring: Ring = "16MiB",
    interactions: Interactions = None,
    protocol: Protocols = None,
    keep_queries: KeepQueries = False,
    interval: Interval = "50ms",
    duration: Duration = None,
    keep: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep only this much of the past. Default: everything.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Record this host at 50 ms and finer, into a run folder; prints `recording` when it has started."""
    from tailrace.dataset import refuse
    from tailrace.readers import read
    from tailrace.recorder import discard, kept, recording_of
    from tailrace.recorder import record as record_host

    servers = servers_of(server)
    plan = plan_of(nodes_of(node), servers, process, interval, duration, keep)
    if interface:
        decode = decode_options(servers, interactions, protocol, keep_queries)
        packets = packets_of(interface, plan.nodes, port, promiscuous, snaplen, ring, decode, capture)
        plan = replace(plan, packets=packets)
    elif port or capture or interactions or protocol or keep_queries:
        said = "--port, --capture, --interactions, --protocol and --keep-queries apply to packets"
        raise UsageError(said, advice="add --interface, such as --interface any")
    refuse(out, overwrite)
    folder = recording_of(out)
    record_host(folder, plan, _heard)
    rules, protocols = (interactions, protocols_of(protocol)) if capture else (None, None)
    try:
        run = read(
            folder,
            out=out,
            servers=servers,
            overwrite=overwrite,
            interactions=rules,
            protocols=protocols,
            keep_queries=capture and keep_queries,
        )
    except OutputError as error:
        raise kept(folder, error) from error
    discard(folder)
    _show(run)


def _heard(kind: str, sentence: str) -> None:
    if kind == "recording":
        tell("recording", lenient=True)
    else:
        say(f"tailrace: {sentence}", lenient=True)


def _show(run: Dataset) -> None:
    rows = ", ".join(f"{count:,} {table}" for table, count in run.manifest.rows.items()) or "nothing"
    tell(f"{run.path}: {rows}; explain it with `tailrace diagnose {run.path}`", lenient=True)
    say(*(f"lost: {what}: {count:,}" for what, count in run.manifest.lost.items()), lenient=True)
