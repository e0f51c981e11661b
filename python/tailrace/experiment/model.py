"""The keys of `experiment.toml`, independent of the engine. Every default is the papers' value."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tailrace.experiment.interactions import Interaction, Rubbos
from tailrace.experiment.losses import Loss
from tailrace.experiment.machines import Node
from tailrace.experiment.quantities import Above0, Duration, Positive, Share, Whole
from tailrace.experiment.tiers import Tier
from tailrace.experiment.workloads import AnyWorkload
from tailrace.toml import Count, Name, Table

SYN_SCHEDULES: dict[str, tuple[tuple[int, ...], int]] = {
    "linux-2.6.32": ((3, 9, 21, 45, 93), 189),
    "linux-3.3": ((1, 3, 7, 15, 31), 63),
    "linux-6.5": ((1, 2, 3, 4, 5, 7, 11, 19, 35, 67), 131),
}
"""Times of the repeated SYNs after the first, and of giving up, in seconds. Initial timeout 3 s, then 1 s (RFC 6298,
since 3.1), then four linear repetitions first (`tcp_syn_linear_timeouts`, since 6.5); 5, 5 and 6 retries."""


RESOLVER: tuple[tuple[int, ...], int] = (5,), 10
"""The same for queries for names: timeout 5 s and two attempts, the defaults of the C library (resolv.conf(5))."""


class Kernel(Table):
    """How a sender repeats a lost connection attempt."""

    syn: Name | tuple[Positive, ...] = "linux-2.6.32"
    """linux-2.6.32 (3, 9, 21 s …), linux-3.3 (1, 3, 7, 15 s …), linux-6.5 (1, 2, 3, 4, 5, 7, 11 s …), or moments after
    the first attempt. The papers: 2.6.32, `balancers` 3.3."""
    give_up: Positive | None = None
    """When the sender stops and the request has failed. Default: the kernel's; for a list, twice its last moment; for
    an empty list, 1 s. It does not apply to senders with a `kernel` of their own."""
    data: tuple[Positive, ...] = ()
    """The second way to be dropped: the handshake's last ACK meets a full queue, and the first data are repeated at
    these moments (Linux: 0.2, 0.6, 1.4, 3.0 s). It needs a `latency`, during which the queue fills. Default: never."""


class Sampling(Table):
    """What monitors sample: CPUs, queues, pools and disks."""

    interval: Duration = 50_000_000
    """50 ms (all papers); 0: no samples (of simulated runs)."""
    cost: Duration = 0
    """CPU time of one sampling, on each server's CPUs and in addition to its work."""


class Injected(Table):
    at: Duration
    """Begin, after the ramp."""
    length: Positive = Field(400_000_000, alias="for")
    """0.4 s: "of sufficient length" (`rpc-vs-async` III)."""
    every: Positive | None = None
    """Period of repetition. Default: once."""


class Slow(Injected):
    """The server runs at a share of its speed."""

    kind: Literal["slow"]
    place: Name
    """A server, or a tier for all its servers."""
    left: Annotated[Share, Field(gt=0.0)] = 0.5
    """The share: 1.12 of 2.26 GHz is 0.5 (`lightning` 3.2)."""


class Freeze(Injected):
    """The server does not run, uses no CPU and accepts nothing (SIGSTOP). New connections wait in its backlog, which is
    as long as its light queue if that is longer."""

    kind: Literal["freeze"]
    place: Name
    """A server, or a tier for all its servers."""
    by: Literal["signal", "group"] = "signal"
    """How the testbed does it: SIGSTOP to each process, or the freezer of the control group."""


class Iowait(Injected):
    """The node's CPUs wait for the disk."""

    kind: Literal["iowait"]
    place: Name
    """A node, or a tier for all its own nodes."""
    blocks: Share = 1.0
    """The share of the CPUs that waits."""


class Burn(Injected):
    """A neighbour on the node computes without end."""

    kind: Literal["burn"]
    place: Name
    """A node, or a tier for all its own nodes."""
    threads: Annotated[Count, Field(le=10_000)] = 1
    """Its threads."""
    weight: Above0 = 1.0
    """Its CPU weight when the cores are short."""


class MemoryWait(Injected):
    """The server waits for memory: for pages that are reclaimed, or that are read back from the disk. In the simulator
    it uses no CPU and accepts nothing meanwhile. Samples show `psi_memory` and `major_faults`."""

    kind: Literal["memory"]
    place: Name
    """A server, or a tier for all its servers."""
    keeps: Annotated[Share, Field(gt=0.0)] = 0.9
    """Only the testbed uses it: the share of its memory that the server keeps. The kernel swaps out the rest."""


class Lock(Injected):
    """Visits that a worker takes while the stall lasts wait for a lock until its end. They keep their workers."""

    kind: Literal["lock"]
    place: Name
    """A server, or a tier for all its servers."""
    interactions: tuple[Name, ...] = ()
    """Only visits of these interactions need the lock. Default: all."""
    tables: tuple[Name, ...] = ()
    """Only the testbed uses it: the tables of the database that are locked. Default: all."""


class Restart(Injected):
    """The processes of the server end with the visits that they have, and new ones answer when the stall is over. A
    supervisor keeps the socket, so new connections wait in its accept queue. Samples show `processes_ended`."""

    kind: Literal["restart"]
    place: Name
    """A server, or a tier for all its servers."""


class PacketLoss(Injected):
    """The network loses packets on their way to the server. Lost connection attempts are repeated as `kernel` says;
    data on a kept connection after 0.2, 0.6, 1.4 s … (Linux)."""

    kind: Literal["packet-loss"]
    place: Name
    """A server, or a tier for all its servers."""
    sender: Name | None = None
    """The tier whose packets are lost. Default: those of all senders, clients included."""
    share: Share = 1.0
    """The share of the packets that is lost. The default is a hole in the path."""


class NoAnswer(Injected):
    """Queries for names that are sent meanwhile get no answer. The resolver sends each again after 5 s, and gives up
    after 10 s (the defaults of the C library, resolv.conf(5))."""

    kind: Literal["dns"]
    place: Name
    """A server of names, or a tier of such servers: `protocol = "dns"`."""
    share: Share = 1.0
    """The share of the queries that get no answer."""


AnyStall = Slow | Freeze | Iowait | Burn | MemoryWait | Lock | Restart | PacketLoss | NoAnswer
Stall = Annotated[AnyStall, Field(discriminator="kind")]


class Experiment(Table):
    description: str = ""
    """The question of the experiment, in a sentence."""
    seed: Annotated[Whole, Field(le=2**63 - 1)] = 1
    """Equal seeds give equal bytes."""
    replication: Annotated[Whole, Field(le=2**63 - 1)] = 0
    """Each number draws from other streams."""
    duration: Positive = 180_000_000_000
    """The recorded time, after the ramp: 180 s (`balancers` II-B: 1.8 million requests at 10,000 a second)."""
    ramp: Duration = 30_000_000_000
    """It is not recorded, except for events that outlast it. All other moments count from its end."""
    latency: Duration = 100_000
    """One-way latency between any two servers, and between clients and servers; the papers' are on one Ethernet. A
    request comes with its SYN: opening a connection takes no extra time, unless `kernel.data` has repeats."""
    sampling: Sampling = Sampling()
    """What monitors sample."""
    kernel: Kernel = Kernel()
    """How lost connection attempts are repeated."""
    nodes: dict[Name, Node] = Field(default_factory=dict)
    """By name. The name of a tier without `node` means its own nodes. Nodes that are not listed have the defaults."""
    tiers: dict[Name, Tier] = Field(min_length=1)
    """The groups of servers, by name."""
    rubbos: Rubbos = Rubbos()
    """The work of RUBBoS's pages in the tiers."""
    interactions: dict[Name, Interaction] = Field(default_factory=dict)
    """New interactions, or changes to RUBBoS's."""
    workloads: dict[Name, AnyWorkload] = Field(min_length=1)
    """The clients, by name; several workloads run at the same time."""
    stalls: tuple[Stall, ...] = ()
    """Injected stalls, as opposed to those that arise in the system."""
    losses: tuple[Loss, ...] = ()
    """Capacity that servers lacked in a recording."""
