"""`tailrace record`: this host into a run folder."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.afterwards import read_apart, show_run
from tailrace.cli.confinement import elsewhere, foreign
from tailrace.cli.options import KeepQueries, Out, Protocols, Servers
from tailrace.cli.recording import (
    Containers,
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
    with_containers,
)
from tailrace.cli.words import Overwrite, say, tell
from tailrace.errors import UsageError

EPILOG = (
    "Examples:\n\n`tailrace record -o run --interface eth0 --duration 60s`, then `tailrace diagnose run`\n\n"
    "`tailrace record -o run --node web=netns:/run/netns/web,cgroup:web --server web=10.0.0.3:80 --interval 10ms`"
)

Capture = Annotated[bool, typer.Option("--capture", help="Keep the packets, decode them at the end.")]


def record(
    out: Out,
    node: Nodes = None,
    server: Servers = None,
    containers: Containers = False,
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
    """Record this host at 50 ms and finer, into a run folder. It prints `recording` once it records."""
    from tailrace.recorder import discard, recording_of
    from tailrace.recorder import record as record_host

    servers = servers_of(server)
    plan = plan_of(nodes_of(node), servers, process, interval, duration, keep)
    plan = with_containers(plan) if containers else plan
    if interface:
        decode = decode_options(servers, interactions, protocol, keep_queries)
        packets = packets_of(interface, plan.nodes, port, promiscuous, snaplen, ring, decode, capture)
        plan = replace(plan, packets=packets)
    elif port or capture or interactions or protocol or keep_queries:
        said = "--port, --capture, --interactions, --protocol and --keep-queries apply to packets"
        raise UsageError(said, advice="add --interface, such as --interface any")
    if os.path.lexists(out):
        elsewhere(_refuse, out, overwrite)
    folder = recording_of(out)
    record_host(folder, replace(plan, keep_dac_override=foreign(out.parent)), _heard)
    words = _words("--server", [f"{name}={address}" for name, address in servers.items()])
    if capture:
        words += _words("--interactions", [str(interactions)] if interactions else []) + _words("--protocol", protocol)
        words += ["--keep-queries"] if keep_queries else []
    read_apart(folder, out, [*words, *(["--overwrite"] if overwrite else [])])
    discard(folder)
    show_run(out)


def _words(option: str, values: list[str] | None) -> list[str]:
    return [word for value in values or () for word in (option, value)]


def _refuse(out: Path, overwrite: bool) -> None:
    from tailrace.dataset import refuse

    refuse(out, overwrite)


def _heard(kind: str, sentence: str) -> None:
    if kind == "recording":
        tell("recording", lenient=True)
    else:
        say(f"tailrace: {sentence}", lenient=True)
