"""`tailrace watch`: detects what is unusual on this host, and explains it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.confinement import foreign
from tailrace.cli.options import KeepQueries, Protocols, Servers
from tailrace.cli.recording import (
    INTERFACE,
    Containers,
    Duration,
    Interactions,
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
from tailrace.cli.words import tell_at
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.hub.reporting import Reporter
    from tailrace.watch.outlets import Outlets

EPILOG = (
    "Example:\n\n`tailrace watch -o incidents --interface eth0`, then look at incidents/*/report.html after an incident"
)


def watch(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for incidents.")],
    interface: Annotated[list[str], INTERFACE],
    node: Nodes = None,
    server: Servers = None,
    containers: Containers = False,
    process: Processes = None,
    port: Ports = None,
    promiscuous: Promiscuous = False,
    snaplen: Snaplen = 256,
    ring: Ring = "16MiB",
    interactions: Interactions = None,
    protocol: Protocols = None,
    keep_queries: KeepQueries = False,
    interval: Interval = "50ms",
    duration: Duration = None,
    keep: Annotated[str, typer.Option(metavar="TIME", help="How much of the past an incident holds.")] = "2min",
    most: Annotated[int, typer.Option(min=1, help="The most incidents that the folder may hold.")] = 50,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDR:PORT|otlp:URL",
            envvar="TAILRACE_METRICS",
            help="Serve metrics for Prometheus at this address, at /metrics, or send them to a receiver of OTLP. "
            "Repeat it.",
        ),
    ] = None,
    notify: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET",
            envvar="TAILRACE_NOTIFY",
            help="Send each incident to URL, slack:URL, alertmanager:URL, otlp:URL, otlp-span:URL, pagerduty:KEY or "
            "journald:. Repeat it.",
        ),
    ] = None,
    report_to: Annotated[
        str | None, typer.Option(metavar="URL", help="Report to a hub, and send it the minutes that it asks for.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The secret that the hub and its hosts share.")
    ] = None,
    hub_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM certificates that the hub's is checked against.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="NAME", help="What the hub calls this host. Default: its host name.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when the first incident has been explained.")] = False,
) -> None:
    """Keep the last minutes, detect lost or very slow requests, and explain why they happened; then go on."""
    from tailrace.watch import Watch

    outlets = _outlets(metrics, notify)
    outlets.reporter = _reporter(report_to, token_file, hub_ca, host)
    servers = servers_of(server)
    plan = plan_of(nodes_of(node), servers, process, interval, duration, keep)
    plan = with_containers(plan) if containers else plan
    decode = decode_options(servers, interactions, protocol, keep_queries)
    packets = packets_of(interface, plan.nodes, port, promiscuous, snaplen, ring, decode, capture=False)
    plan = replace(plan, packets=packets, leave_out=outlets.listening(), keep_dac_override=foreign(out))
    words = [word for name, address in servers.items() for word in ("--server", f"{name}={address}")]
    Watch(out, words, most, once, tell_at, outlets).run(plan)


def _outlets(metrics: list[str] | None, notify: list[str] | None) -> Outlets:
    """Wrong words and an address in use are refused before anything is recorded."""
    from tailrace._core import __version__
    from tailrace.watch import pushing
    from tailrace.watch.notifying import Notifier, target
    from tailrace.watch.outlets import Outlets
    from tailrace.watch.serving import listen

    served = [text for text in metrics or () if not text.startswith("otlp:")]
    if len(served) > 1:
        raise UsageError("--metrics names two addresses", advice="let all scrapers use one")
    sent = [pushing.target(text) for text in metrics or () if text.startswith("otlp:")]
    every_s = pushing.interval_s() if sent else 0.0
    pushers = [pushing.Pusher(url, __version__, every_s) for url in sent]
    notifier = Notifier(tuple(map(target, notify))) if notify else None
    return Outlets(listen(served[0]) if served else None, pushers, notifier)


def _reporter(to: str | None, token_file: Path | None, authority: Path | None, host: str | None) -> Reporter | None:
    if to is None:
        if token_file or authority or host:
            raise UsageError("--token-file, --hub-ca and --host belong to a hub", advice="add --report-to")
        return None
    if token_file is None:
        raise UsageError("--report-to needs the token of the hub", advice="add --token-file")
    from socket import gethostname

    from tailrace.cli.hub import token_of
    from tailrace.hub.reporting import Reporter, address
    from tailrace.hub.wire import host_name

    name = host if host is not None else gethostname()
    try:
        host_name(name)
    except ValueError as error:
        raise UsageError(f"--host {name}: {error}") from error
    return Reporter(address(to, authority), token_of(token_file), name)
