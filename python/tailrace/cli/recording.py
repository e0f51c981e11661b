"""Options that `tailrace record` and `tailrace watch` share: what of this host is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailrace.cli.confinement import elsewhere
from tailrace.cli.options import SERVER_FORM, protocols_of
from tailrace.cli.words import duration_ns, pairs, parsed, say
from tailrace.errors import UsageError
from tailrace.units import exact_bytes, parse_bytes

if TYPE_CHECKING:
    from tailrace.containers import Found
    from tailrace.recorder import Interface, Node, Packets, Plan

RING_MIN, RING_MAX = 1 << 20, 1 << 30
_HOST = "host"
"""The name of the host as a whole (crates/core/src/host/options.rs)."""

Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="NAME=netns:PATH,cgroup:PATH",
        help="Sample a network namespace, a control group, or both, under this name; repeat it.",
    ),
]
Containers = Annotated[
    bool,
    typer.Option("--containers", help="Sample the containers and pods of this host, and name servers after them."),
]
Processes = Annotated[
    list[str] | None,
    typer.Option("--process", metavar="NAME=PID", help="Sample the CPU time of a process; repeat it."),
]
INTERFACE = typer.Option(
    "--interface",
    metavar="[NODE:]NAME",
    help="Read the packets of an interface (of a node's namespace), or of `any`; repeat it.",
)
Interfaces = Annotated[list[str] | None, INTERFACE]
Ports = Annotated[
    list[int] | None,
    typer.Option("--port", min=1, max=65535, help="Only packets with this port at either end; repeat it."),
]
Promiscuous = Annotated[
    bool,
    typer.Option("--promiscuous", help="Also packets for other hosts: those that pass a bridge, or a mirror port."),
]
Snaplen = Annotated[
    int, typer.Option(metavar="BYTES", min=80, max=65535, help="Bytes to keep of each packet, from its IP header on.")
]
Ring = Annotated[str, typer.Option(metavar="BYTES", help="Memory for packets that are not read yet.")]
Interval = Annotated[str, typer.Option(metavar="TIME", help="Time between two samples, 5ms to 10s.")]
Interactions = Annotated[
    Path | None,
    typer.Option("--interactions", metavar="FILE", help="TOML rules that name requests: docs/reference/readers.md."),
]


Duration = Annotated[
    str | None, typer.Option(metavar="TIME", help="End by itself. Default: on SIGINT (Ctrl-C), SIGTERM or SIGHUP.")
]


def plan_of(
    nodes: tuple[Node, ...],
    servers: dict[str, str],
    process: list[str] | None,
    interval: str,
    duration: str | None,
    keep: str | None,
) -> Plan:
    from tailrace._core import SAMPLING_NS
    from tailrace.recorder import Plan, Process
    from tailrace.units import format_duration

    interval_ns = duration_ns("--interval", interval)
    least, most = SAMPLING_NS
    if not least <= interval_ns <= most:
        raise UsageError(
            f"--interval {interval}: samples are {format_duration(least)} to {format_duration(most)} apart"
        )
    processes = pairs("--process", process, "NAME=PID, like tomcat=4711")
    for name, pid in processes.items():
        if not (pid.isascii() and pid.isdigit()):
            raise UsageError(f"--process {name}={pid}: a PID is a whole number")
    return Plan(
        interval_ns=interval_ns,
        duration_ns=None if duration is None else duration_ns("--duration", duration),
        keep_ns=None if keep is None else duration_ns("--keep", keep),
        nodes=nodes,
        processes=tuple(Process(name, int(pid)) for name, pid in processes.items()),
        every_process=True,
        ports=tuple(sorted({int(address.rpartition(":")[2]) for address in servers.values()})),
    )


def with_containers(plan: Plan) -> Plan:
    """The plan with the containers that run now; nodes that the user named keep their names."""
    from tailrace.recorder import Node

    found = elsewhere(_containers)
    taken = {_HOST, *(node.name for node in plan.nodes)}
    more = []
    for pod in found.pods:
        if pod.name not in taken:
            taken.add(pod.name)
            more.append(Node(pod.name, pod.netns, pod.cgroup, found=True))
    if found.left_out:
        say(f"tailrace: {found.left_out} further pods are named and not sampled", lenient=True)
    return replace(plan, nodes=(*plan.nodes, *more), containers=found.names)


def _containers() -> Found:
    from tailrace import containers

    return containers.find()


def packets_of(
    interface: list[str],
    nodes: Sequence[Node],
    port: list[int] | None,
    promiscuous: bool,
    snaplen: int,
    ring: str,
    decode: dict[str, Any],
    capture: bool,
) -> Packets:
    from tailrace.recorder import Packets

    return Packets(
        interfaces=() if interface == ["any"] else tuple(_interface(text, nodes) for text in interface),
        ports=tuple(sorted(set(port or ()))),
        promiscuous=promiscuous,
        snap=snaplen,
        ring_bytes=_ring_bytes(ring),
        raw=capture,
        decode=decode,
    )


def decode_options(
    servers: dict[str, str], interactions: Path | None, protocol: list[str] | None, keep_queries: bool
) -> dict[str, Any]:
    """The decoder's options; wrong words are refused before anything is recorded."""
    return elsewhere(_decode_options, servers, interactions, protocol, keep_queries)


def _decode_options(
    servers: dict[str, str], interactions: Path | None, protocol: list[str] | None, keep_queries: bool
) -> dict[str, Any]:
    from tailrace.readers.decoding import Decoding
    from tailrace.readers.interactions import rules

    return Decoding(servers, rules(interactions), protocols_of(protocol), keep_queries).options()


def _interface(text: str, nodes: Sequence[Node]) -> Interface:
    from tailrace.recorder import Interface

    node, colon, name = text.partition(":")
    if not colon:
        return Interface(text)
    namespaces = {node.name: node.netns for node in nodes if node.netns}
    if node not in namespaces:
        known = ", ".join(namespaces) or "none"
        raise UsageError(f"--interface {text}: {node} is no --node with a netns", advice=f"those there are: {known}")
    return Interface(name, namespaces[node])


def _ring_bytes(text: str) -> int:
    size = parsed("--ring", parse_bytes, text)
    if not RING_MIN <= size <= RING_MAX:
        raise UsageError(f"--ring {text}: it must be {exact_bytes(RING_MIN)} to {exact_bytes(RING_MAX)}")
    return size


_NODE = "NAME=netns:PATH,cgroup:PATH, like web=netns:/run/netns/web,cgroup:web"


def nodes_of(given: list[str] | None) -> tuple[Node, ...]:
    return tuple(_node(name, parts) for name, parts in pairs("--node", given, _NODE).items())


def _node(name: str, text: str) -> Node:
    from tailrace.recorder import Node

    parts: dict[str, str] = {}
    for part in text.split(","):
        kind, colon, path = part.partition(":")
        if kind not in ("netns", "cgroup") or not colon or not path or kind in parts:
            raise UsageError(f"--node {name}={text}: expected {_NODE}")
        parts[kind] = path
    return Node(name, parts.get("netns"), parts.get("cgroup"))


def servers_of(given: list[str] | None) -> dict[str, str]:
    from tailrace.topology import known_servers

    return known_servers(pairs("--server", given, SERVER_FORM), None)
