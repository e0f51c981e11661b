"""Servers and calls: `[tiers.NAME]` and `[tiers.NAME.calls.OTHER]`.

A key that depends on the software (threads of Apache, pool of Tomcat) is None here and gets its value from
`software.toml` before a file is checked, so that a checked experiment is complete.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tailrace.experiment.quantities import Above0, Duration, Number, Positive, Share, Size, SizeAbove0, Whole
from tailrace.toml import Count, Flag, Name, Table

Software = Literal["apache", "nginx", "tomcat", "xtomcat", "cjdbc", "haproxy", "mysql", "xmysql"]
NAMES = "dns"
"""The protocol of servers of names."""
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
    "prequal",
]


class Quota(Table):
    """CFS bandwidth control. A server that has used up its quota neither runs nor accepts until the next period."""

    time: Positive
    """CPU time in each period, over all cores."""
    period: Positive = 100_000_000
    """`cpu.cfs_period_us`: 100 ms, Linux' default."""
    burst: Duration = 0
    """Unused time of earlier periods, up to this much, is added to a later one (`cpu.max.burst`). At most `time`, as in
    Linux."""
    phases: Literal["together", "even"] = "together"
    """together: periods of all servers begin at once, as on one machine before Linux 6.4, whose timers all count from
    its start. even: servers whose quotas have this divide the period evenly."""


class Limit(Table):
    """A limit of the requests inside a server that adapts to their response times; what comes above it is refused at
    once. The rules and defaults are those of Netflix' concurrency-limits (AIMDLimit, Gradient2Limit); Envoy's adaptive
    concurrency is a gradient, too. Every visit that is answered adapts it, from its arrival to its departure."""

    kind: Literal["aimd", "gradient"] = "gradient"
    """aimd: one more after an answer within `timeout`, if half of the limit was in use; after a later one `backoff`
    times as many. gradient: in proportion to the long-term mean response time over the last one, at least a half and at
    most one, plus `queue`."""
    initial: Annotated[Count, Field(le=1_000_000)] = 20
    min: Annotated[Count, Field(le=1_000_000)] = 20
    max: Annotated[Count, Field(le=1_000_000)] = 200
    timeout: Positive = 5_000_000_000
    """For aimd."""
    backoff: Annotated[Share, Field(gt=0.0)] = 0.9
    """For aimd."""
    tolerance: Annotated[Above0, Field(le=1e9)] = 1.5
    """For gradient: so many times the long-term mean is still normal."""
    queue: Annotated[Number, Field(le=1e9)] = 4.0
    """For gradient: by how many the limit grows while response times are normal."""
    smoothing: Annotated[Share, Field(gt=0.0)] = 0.2
    """For gradient: the share of each change that is made."""
    window: Annotated[Count, Field(le=1_000_000)] = 600
    """For gradient: visits in the long-term mean, which is exponentially weighted."""


Bounded = Annotated[Number, Field(le=1e9)]
"""Upper bound of the inflation: no work grows by a factor of a billion, and no machine runs as many threads."""


class Inflation(Table):
    """Service demand grows with runnable threads n (cache misses, context switches): times 1 + slope·(n -
    free)^power."""

    free: Bounded
    """Up to this many threads it does not grow."""
    slope: Bounded
    """The relative increase for the first thread above `free`."""
    power: Annotated[Above0, Field(le=1e9)] = 1.0
    """1: the growth is linear."""


class Spawn(Table):
    """A further process, started when all threads have been busy for a while (`rpc-vs-async` IV-A, `lightning` 3.3)."""

    processes_max: Annotated[Count, Field(le=10_000)] = 2
    """Two: queues of 278 and then 428 (`rpc-vs-async` IV-A)."""
    after: Duration = 1_000_000_000
    """How long all workers must have been busy ("for some time"): Apache checks once a second."""
    work: Duration = 50_000_000
    """CPU time of a new process before it serves ("non-trivial CPU resources")."""
    retire_after: Duration = 10_000_000_000
    """It ends when it was not needed for this long; 0: never. The default is longer than the 3 s between two peaks
    above 400 (`lightning` fig. 10)."""


class Collection(Table):
    """The cost of a collection."""

    base: Duration
    """CPU time of a collection of an empty heap, all collecting threads together."""
    per_live: Duration = 0
    """Additional CPU time for each request inside, whose objects live."""


class Heap(Table):
    """A garbage-collected heap. A collection stops the server's other threads and is work of the server's own: it
    pauses while the server is frozen, and uses its `cores`, its quota and its weight. `heap = "jvm15"` or `"jvm16"`
    means a preset of heaps.toml."""

    young: SizeAbove0
    """It fills by allocation and is then collected."""
    per_visit: Size
    """What a visit allocates."""
    filled: tuple[Share, ...] = Field((0.0,), min_length=1)
    """Share of the young generation that is allocated at the begin, for the tier's servers in turn. Servers with equal
    shares that get equally many requests from a balancer collect together."""
    young_collection: Collection
    """The cost of a young collection."""
    old_every: Whole = 0
    """After this many young collections comes an old one; 0: never."""
    old_above: Whole = 0
    """An old collection replaces a young one if more requests than this are inside, because the survivor space is too
    small for their objects; 0: never."""
    old_collection: Collection | None = None
    """The cost of an old collection."""
    threads: Above0 = 1.0
    """Threads that collect: this many of the server's cores work on a collection, if it has them."""


class Call(Table):
    """How servers of one tier call those of another."""

    kept: Flag | None = None
    """Connections stay open: there is no SYN, so none can be dropped. Default: of synchronous callers, by
    software.toml."""
    pool: Whole | None = None
    """The most connections, 0: any number. AJP 50 (`lightning` 3.1), database 50 (`rpc-vs-async` V-B)."""
    pool_per: tuple[Literal["process", "interaction", "candidate"], ...] | None = None
    """There is one pool for each of these; without candidate, all candidates share one. mod_jk: process and candidate;
    servlets' own pools: interaction (interactions of one servlet share one)."""
    for_visit: Flag | None = None
    """A connection is held from a visit's first call to its end, as servlets of RUBBoS do; simultaneous calls share
    it."""
    priority: Whole | None = None
    """Cross-tier priority: light interactions first, and no heavy one while more light ones than this hold a connection
    or wait for one (`average` 5, heuristic i)."""
    policy: Policy | None = None
    """Which candidate receives a call. mod_jk's default is total_request (`balancers` II-A); its sessions is the same
    where clients have none, as RUBBoS's. least_connections, power_of_two and peak_ewma count calls that have their
    connection, as mod_jk's own do; calls that wait at a pool are not counted. Ties are broken in turn, those of
    power_of_two by the first drawn. prequal asks three drawn candidates for the requests inside and their response
    time: of those without unusually many inside (hot), the fastest is taken (Wydrowski et al., NSDI 2024)."""
    decay: Positive = 10_000_000_000
    """For peak_ewma: how long response times are remembered; Finagle's default. The cost of a candidate is this mean,
    decayed since the last answer, times one more than its outstanding calls; a longer response time counts at once, in
    full."""
    look_every: Positive = 50_000_000
    """For shortest_queue: how old the lengths may be; the first call after that reads them again."""
    endpoint: Literal["wait", "original", "modified"] | None = None
    """What happens when the candidate's pool is empty. wait: the call waits in line. original: mod_jk's original
    get_endpoint polls and holds its worker. modified: the papers' version tries another candidate (`balancers` IV); if
    all are busy it tries once more after 100 ms, mod_jk's retry_interval, and then fails. Default: Apache before
    several candidates original, else wait."""
    endpoint_step: Positive = 100_000_000
    """The original sleeps 100 ms between polls (`balancers` IV-B)."""
    endpoint_timeout: Positive = 300_000_000
    """The original gives the candidate up after 300 ms (`balancers` IV-B)."""
    recover_time: Duration | None = None
    """A candidate to which a connection failed is in the error state and gets no calls for this long, and a call
    that cannot connect goes to another; 0: the call fails. Default: Apache before several candidates 60 s, mod_jk's,
    else 0."""
    connect_timeout: Duration = 0
    """How long the caller waits for a connection; then the call fails, or goes to another candidate if there is a
    `recover_time`. 0: as long as its kernel repeats the attempt."""
    hedge: Duration = 0
    """When the caller sends a call without an answer a second time, to another candidate where there is one, and uses
    the first answer; 0: never. The second goes out only over a connection that is free at once, and the slower one goes
    on without its caller. Calls to all candidates are sent once."""
    kernel: Name | None = None
    """The SYN schedule of the caller. Default: `[kernel]`'s."""


def _listed(calls: Any) -> Any:
    """`calls = ["app"]` is shorthand for empty tables."""
    if isinstance(calls, list | tuple) and all(isinstance(name, str) for name in calls):
        return {name: {} for name in calls}
    return calls


class Tier(Table):
    """A group of equal servers."""

    software: Software | None = None
    """A program of the papers, with its threads, pools and role; the testbed starts it. Every key can be overridden."""
    runs: tuple[Name, ...] = ()
    """The programs whose lines `tailrace advise` prints, such as ["gunicorn"]. No engine uses them."""
    role: Name | None = None
    """Its name in interactions: web, app, middleware, db. Default: by its software, else its own name."""
    count: Annotated[Count, Field(le=1_000)] = 1
    """Number of servers: NAME alone, or NAME1 to NAMEn."""
    kind: Kind | None = None
    """sync: a worker is held during calls. async: event loops, which process answers before new requests. bounded: few
    workers, long queue. Default: by its software, else sync."""
    protocol: Name | None = None
    """Its protocol. Default: by its software. A tier that answers queries for names has "dns": callers send these over
    UDP, without a pool, and again after 5 s without an answer."""
    workers: Whole | None = None
    """Threads of a process, 0: any number. Apache 150, Tomcat 165, MySQL 100, bounded 8 (`rpc-vs-async` V); an
    asynchronous server has an event loop for each core, XTomcat any number of threads."""
    processes: Annotated[Count, Field(le=10_000)] = 1
    """Processes at the begin."""
    spawn: Spawn | None = None
    """A further process under load. Without it there is none."""
    backlog: Whole = 128
    """The argument of listen(): 128 (`rpc-vs-async` III); one more fits."""
    order: Literal["arrival", "lightest", "newest"] = "arrival"
    """The order in which waiting requests get a worker. lightest: first the requests of interactions with few calls,
    counted at the tier that makes most and in powers of two. This is cross-tier priority in a server that knows the
    interaction behind a request (`average` 5). It matters where workers are few and requests come on kept connections
    or wait in a light queue; answers to an asynchronous server come before either. newest: the last that came is next,
    of those that wait inside; the accept queue stays in order."""
    limit: Limit | None = None
    """Requests above it are refused. Default: none."""
    light_queue: Whole | None = None
    """Accepted requests that wait inside for a worker: 65535 asynchronous, 2000 bounded (`rpc-vs-async` V), 0
    synchronous. With any number of workers it bounds the requests inside, 0: any number."""
    node: Annotated[tuple[Name, ...], BeforeValidator(lambda node: (node,) if isinstance(node, str) else node)] = ()
    """The nodes of its servers, in turn: names of nodes, or of tiers to run beside. Default: a node for each,
    NAME-node."""
    cores: Above0 | None = None
    """The most cores that it uses at once. Default: all of its node."""
    weight: Above0 = 1.0
    """Its CPU weight when the cores are short (cpu.shares: all the same)."""
    quota: Quota | None = None
    """CPU time that it may use."""
    demand_factor: Above0 = 1.0
    """A factor for all its work: a faster or slower machine."""
    heap: Heap | None = None
    """The heap of a JVM: "jvm15", "jvm16" or a table. Default: none, nothing is collected."""
    log: Size = 0
    """Bytes that a visit writes to its logs (dirty pages of the node, or a part of its flush)."""
    logs: Annotated[Count, Field(le=10_000)] = 1
    """Files among which they are divided evenly. Linux flushes each file by its own age, so they are flushed in
    turn."""
    inflation: Inflation | None = None
    """Overhead of many runnable threads. Default: none."""
    calls: Annotated[dict[Name, Call], BeforeValidator(_listed)] = Field(default_factory=dict)
    """Tiers that it calls; a list of names is shorthand for tables without keys."""
