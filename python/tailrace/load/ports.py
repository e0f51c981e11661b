"""Are there enough source ports and sockets? Without them, a load measures the generator instead of the server."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

from tailrace.experiment import Experiment
from tailrace.experiment.workloads import Closed
from tailrace.load.lowering import Share
from tailrace.units import format_count

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
SPARE = 64
"""Files that a worker has open besides its sockets, with a margin."""
_SOCKETS_MOST = 1_000_000


def sockets_max() -> int:
    """Sockets that one worker can have."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return max(1, (_SOCKETS_MOST if most == resource.RLIM_INFINITY else min(most, _SOCKETS_MOST)) - SPARE)


def ports() -> tuple[int, int]:
    """First and last source port of this network namespace."""
    with suppress(OSError, ValueError):
        low, high = RANGE.read_text().split()
        return int(low), int(high)
    return 32768, 60999


def warnings(experiment: Experiment, share: Share, targets: int, sources: int) -> list[str]:
    """Sentences about what may run short, before the load begins."""
    clients = sum(load.clients for load in experiment.workloads.values() if isinstance(load, Closed)) // share.parts
    low, high = ports()
    room = (high - low + 1) * targets * max(1, sources)
    found = []
    if clients > room:
        found.append(
            f"{format_count(clients)} clients may need as many source ports at once, and there are "
            f"{format_count(room)} ({advice()})"
        )
    if clients > sockets_max() * share.workers:
        found.append(
            f"{format_count(clients)} clients may need as many sockets at once, and {share.workers} workers can have "
            f"{format_count(sockets_max() * share.workers)}; raise --workers or `ulimit -n`"
        )
    return found


def advice() -> str:
    """How to get more source ports."""
    low, high = ports()
    return (
        f"net.ipv4.ip_local_port_range is {low} to {high}: `sysctl -w net.ipv4.ip_local_port_range='1024 65535'`, or "
        "connect from several addresses with --source. A port stays in TIME_WAIT for a minute if the client "
        "closes first"
    )
