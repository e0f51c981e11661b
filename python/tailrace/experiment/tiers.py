"""Who serves and who calls whom: `[tiers.NAME]` and `[tiers.NAME.calls.OTHER]`.

A key that depends on the program in use (threads of Apache, pool of Tomcat) is None here and gets its value from
`software.toml` before a file is checked, so that a checked experiment is complete.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tailrace.experiment.quantities import Above0, Duration, Number, Positive, Share, Size, SizeAbove0, Whole
from tailrace.toml import Count, Flag, Name, Table

Software = Literal["apache", "nginx", "tomcat", "xtomcat", "cjdbc", "haproxy", "mysql", "xmysql"]
Kind = Literal["sync", "async", "bounded"]
Policy = Literal[
    "total_request",
    "total_traffic",
    "current_load",
    "sessions",
    "round_robin",
    "random",
    "least_connections",
    "power_of_two",
    "peak_ewma",
    "shortest_queue",
]


class Quota(Table):
    """CFS bandwidth control. A server that has used it up neither runs nor accepts until the next period."""

    time: Positive
    """CPU time in each period, over all cores."""
    period: Positive = 100_000_000
    """`cpu.cfs_period_us`: 100 ms, Linux' default."""


Bounded = Annotated[Number, Field(le=1e9)]
"""Of an inflation: no work takes a billion times as long, and no machine runs as many threads."""


class Inflation(Table):
    """Work grows with runnable threads n (cache misses, context switches): times 1 + slope·(n - free)^power."""

    free: Bounded
    """Up to this many threads it does not grow."""
    slope: Bounded
    """As much more work for the first thread above."""
    power: Annotated[Above0, Field(le=1e9)] = 1.0
    """1: in proportion."""


class Spawn(Table):
    """A further process when the threads of all have been busy for a while (`rpc-vs-async` IV-A, `lightning` 3.3)."""

    processes_max: Annotated[Count, Field(le=10_000)] = 2
    """Two: queues of 278 and then 428 (`rpc-vs-async` IV-A)."""
    after: Duration = 1_000_000_000
    """So long all workers have been busy ("for some time"): Apache looks once a second."""
    work: Duration = 50_000_000
    """CPU time that a new process takes before it serves ("non-trivial CPU resources")."""
    retire_after: Duration = 10_000_000_000
    """It ends again when it was not needed for so long; 0: never. Longer than the 3 s between two peaks above 400
    (`lightning` fig. 10)."""


class Collection(Table):
    """What a collection costs."""

    base: Duration
    """CPU time of a collection of an empty heap, all collecting threads together."""
    per_live: Duration = 0
    """As much again for each request inside, whose objects live."""


class Heap(Table):
    """A collected heap. A collection stops the server's other threads and is work of the server's own: it stands still
    while the server is frozen, and shares its `cores`, its quota and its weight. `heap = "jvm15"` or `"jvm16"` means a
    preset of heaps.toml."""

    young: SizeAbove0
    """Fills by allocation and is then collected."""
    per_visit: Size
    """A visit allocates this much."""
    filled: tuple[Share, ...] = Field((0.0,), min_length=1)
    """Share of the young generation that is allocated at the begin, of the tier's servers in turn. Servers as full that
    a balancer gives equally many requests collect together."""
    young_collection: Collection
    """What collecting it costs."""
    old_every: Whole = 0
    """After so many young collections an old one; 0: never."""
    old_above: Whole = 0
    """An old one instead of a young one whenever more requests than this are inside, whose objects find no room among
    the survivors; 0: never."""
    old_collection: Collection | None = None
    """What that costs."""
    threads: Above0 = 1.0
    """Threads that collect: as many of the server's cores work on a collection, so many being there."""


class Call(Table):
    """How servers of one tier call those of another."""

    kept: Flag | None = None
    """Connections stay open: no SYN, nothing to drop. Default: of synchronous callers, by software.toml."""
    pool: Whole | None = None
    """Connections to have at most, 0: any number. AJP 50 (`lightning` 3.1), database 50 (`rpc-vs-async` V-B)."""
    pool_per: tuple[Literal["process", "interaction", "candidate"], ...] | None = None
    """There is one pool for each of these; without candidate, all candidates share one. mod_jk: process and candidate;
    servlets' own pools: interaction (those of one servlet share one)."""
    for_visit: Flag | None = None
    """A connection is kept from a visit's first call to its end, as servlets of RUBBoS do; calls at once share it."""
    priority: Whole | None = None
    """Cross-tier priority: light interactions first, and no heavy one while more light ones than this hold a connection
    or want one (`average` 5, heuristic i)."""
    policy: Policy | None = None
    """Which candidate a call goes to. mod_jk's default is total_request (`balancers` II-A); its sessions is the same
    where clients have none, as RUBBoS's. least_connections, power_of_two and peak_ewma count calls that have their
    connection, as mod_jk's own do: those who wait for one at a pool are not seen. Ties go in turn, of power_of_two to
    the first drawn."""
    decay: Positive = 10_000_000_000
    """Of peak_ewma: how long response times are remembered; Finagle's default. Its cost is this mean, decayed since the
    last answer, times one more than the calls that are out; a longer response time counts at once, in full."""
    look_every: Positive = 50_000_000
    """Of shortest_queue: how old the lengths may be; the first call after that looks again."""
    endpoint: Literal["wait", "original", "modified"] | None = None
    """When the candidate's pool is empty: wait in line; mod_jk's original get_endpoint, which polls and holds its
    worker; or the papers' modified one, which skips to another (`balancers` IV), and where all are busy looks once more
    after 100 ms, mod_jk's retry_interval, and then fails. Default: Apache before several candidates original, else
    wait."""
    endpoint_step: Positive = 100_000_000
    """The original sleeps 100 ms between looks (`balancers` IV-B)."""
    endpoint_timeout: Positive = 300_000_000
    """The original gives the candidate up after 300 ms (`balancers` IV-B)."""
    recover_time: Duration | None = None
    """A candidate to which connections fail is in error and not asked for so long, and a call that cannot connect goes
    to another; 0: it fails. Default: Apache before several candidates 60 s, mod_jk's, else 0."""
    kernel: Name | None = None
    """Whose SYN schedule the caller has. Default: `[kernel]`'s."""


def _listed(calls: Any) -> Any:
    """`calls = ["app"]` is short for empty tables."""
    if isinstance(calls, list | tuple) and all(isinstance(name, str) for name in calls):
        return {name: {} for name in calls}
    return calls


class Tier(Table):
    """Servers of one sort."""

    software: Software | None = None
    """A program of the papers, with its threads, pools and role; the testbed starts it. Every key can be overridden."""
    role: Name | None = None
    """What interactions call it: web, app, middleware, db. Default: by its software, else its own name."""
    count: Annotated[Count, Field(le=1_000)] = 1
    """Servers: NAME alone, or NAME1 to NAMEn."""
    kind: Kind | None = None
    """sync: a worker is held through calls. async: event loops, which go on with what has its answers before they
    take anything new. bounded: few workers, long queue. Default: by its software, else sync."""
    protocol: Name | None = None
    """What it speaks. Default: by its software."""
    workers: Whole | None = None
    """Threads of a process, 0: any number. Apache 150, Tomcat 165, MySQL 100, bounded 8 (`rpc-vs-async` V); an
    asynchronous server has an event loop for each core, XTomcat any number of threads."""
    processes: Annotated[Count, Field(le=10_000)] = 1
    """At the begin."""
    spawn: Spawn | None = None
    """A further process under load. Without it there is none."""
    backlog: Whole = 128
    """Of listen(): 128 (`rpc-vs-async` III); one more fits."""
    order: Literal["arrival", "lightest"] = "arrival"
    """Who waits inside gets a worker in this order. lightest: first what belongs to interactions of few calls, by the
    tier that makes most and by powers of two: cross-tier priority in a server told what it works for (`average` 5).
    It shows where workers are few and requests come on kept connections or wait in a light queue; answers to an
    asynchronous server come before either."""
    light_queue: Whole | None = None
    """Accepted, waiting inside for a worker: 65535 asynchronous, 2000 bounded (`rpc-vs-async` V), 0 synchronous. With
    any number of workers: so many are inside at most, 0: any number."""
    node: Annotated[tuple[Name, ...], BeforeValidator(lambda node: (node,) if isinstance(node, str) else node)] = ()
    """Where its servers run, in turn: nodes, or tiers to run beside. Default: each on its own, NAME-node."""
    cores: Above0 | None = None
    """Cores it may use at once. Default: all of its node."""
    weight: Above0 = 1.0
    """Its share when the cores are short (cpu.shares: all the same)."""
    quota: Quota | None = None
    """CPU time that it may use."""
    demand_factor: Above0 = 1.0
    """All its work, times this: a faster or slower machine."""
    heap: Heap | None = None
    """Of a JVM: "jvm15", "jvm16" or a table. Default: none, nothing is collected."""
    log: Size = 0
    """What a visit writes to its logs (dirty pages of the node, or a part of its flush)."""
    logs: Annotated[Count, Field(le=10_000)] = 1
    """Files that it is spread over evenly. Linux flushes each file by its own age, so that they come in turn."""
    inflation: Inflation | None = None
    """Overhead of many runnable threads. Default: none."""
    calls: Annotated[dict[Name, Call], BeforeValidator(_listed)] = Field(default_factory=dict)
    """Tiers that it calls; a list of names is short for tables without keys."""
