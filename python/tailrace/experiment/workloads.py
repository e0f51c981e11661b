"""Clients and their requests: `[workloads.NAME]`, one table for each kind of arrivals (`kind`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Field, Tag

from tailrace.experiment.quantities import Above0, Duration, Number, PerSecond, Positive, Scv, Share, Whole
from tailrace.toml import Count, Flag, Name, Table

Walk = Literal["browse-only", "browse-only-no-search", "read-write", "read-write-no-search"]


class Workload(Table):
    """Keys of all workloads."""

    entry: Name | None = None
    """The tier that receives the requests. Default: the only one that no other tier calls. Clients are assigned to its
    servers in turn, and each open arrival is a client: each server gets every n-th (of Poisson arrivals this is not a
    Poisson stream, but one with gaps that vary less)."""
    walk: Walk | None = None
    """RUBBoS's walk from page to page. Default: browse-only, unless a mix or an interaction is given. Closed clients
    walk; each open arrival requests an independently drawn page, as often as such walks lead to it."""
    authors: Share = 0.1
    """For a read-write walk: share of clients that are authors (RUBBoS)."""
    mix: dict[Name, Number] = Field(default_factory=dict)
    """Interactions drawn independently, by weight."""
    interaction: Name | None = None
    """A single interaction."""
    embedded: tuple[Name, ...] = ()
    """Requests that follow one after another when a page has arrived. RUBBoS's client fetches ["logo"]; the papers'
    throughputs count pages alone, so the default is none."""
    embedded_apart: Flag = False
    """Embedded requests are sent and not counted: response times, rates and visits are those of pages alone, as a
    monitor of transactions reports them. It must be the same for all workloads that embed anything."""
    kept: Flag = False
    """Clients keep their connections open. RUBBoS's open one for each request (KeepAlive Off)."""
    kernel: Name | None = None
    """The SYN schedule of the clients. Default: `[kernel]`'s."""
    timeout: Duration = 0
    """When a client gives up waiting for an answer: the request is `abandoned`; 0: never."""
    retries: Whole = 0
    """How often a client repeats a request that it gave up or that failed. RUBBoS's client does so for a page, four
    times; the papers' requests hardly ever fail."""
    retry_pause: Duration = 1_000_000_000
    """How long it waits before it repeats: 1 s in RUBBoS's client."""
    retry_budget: Share | None = None
    """The most repetitions as a share of first requests: 20 % in Finagle and Envoy. All clients of the workload share a
    bucket of 100 repetitions, which is full at the begin; each first request adds this share of one. Default: no such
    limit."""
    retried_as_one: Flag = False
    """A request and its repetitions count as one, from the first one's sending to the last one's end, and fail only if
    the last one does. Without it each counts as a request. `requests.parquet` has a row for each. It is not supported
    for what pages embed."""
    hedge: Duration = 0
    """When a client sends an unanswered request a second time, to the same server, and uses the first answer; 0: never.
    Both count as one request. `requests.parquet` has a row for each (of one `client` and interaction, the second sent
    before the first had ended); the slower one is `abandoned`."""
    hedge_elsewhere: Flag = False
    """The second request goes to the next server of the entry tier instead of the same one."""
    begin: Duration | None = None
    """After the ramp. Default: with the ramp. After the end of the run: never; the summary of the run says so."""
    end: Duration | None = None
    """After the ramp. Default: with the run."""

    @classmethod
    def elsewhere(cls, key: str) -> str:
        """Keys of another kind."""
        kinds = [str(get_args(kind.model_fields["kind"].annotation)[0]) for kind in KINDS if key in kind.model_fields]
        return f"; it is one of kind {' or '.join(repr(kind) for kind in kinds)}" if kinds else ""


class Closed(Workload):
    """Clients that send a request, wait for the answer, think, and repeat."""

    kind: Literal["closed"] = "closed"
    clients: Annotated[Count, Field(le=10_000_000)]
    """Emulated users (the papers' WL)."""
    think: Duration = 7_000_000_000
    """Mean think time: 7 s (RUBBoS)."""
    think_scv: Scv = 1.0
    """Variance ÷ mean² of the think time, as `scv` of `compute`; 1: exponential (RUBBoS)."""
    think_max: Duration = 70_000_000_000
    """A longer draw becomes no pause at all, as in RUBBoS's client; 0: draws are not limited. It does not limit draws
    of bursty clients (`index_of_dispersion`)."""
    index_of_dispersion: float = Field(1.0, ge=1.0, strict=True, allow_inf_nan=False)
    """Burstiness I of the request rate: 1 none; 100, 200, 400, 1000 in the papers (Mi et al., ICAC'09)."""
    chain: Literal["process", "client"] = "process"
    """One chain of think-time modes for all clients of a process, as in the published generator, or one for each
    client."""
    client_processes: Annotated[Count, Field(le=10_000)] = 1
    """Processes among which the clients are divided."""
    burst_demand: Positive = 5_767_500
    """Total mean service demand of a request, to which the modes are fitted: 5.7675 ms in the published generator."""
    burst_knob: Above0 = 4.0
    """How much faster than that demand the fast mode is: 4 in the published generator."""
    start: Literal["thinking", "staggered", "at once"] = "thinking"
    """thinking: each client thinks first, so that the load and its bursts are stationary from the begin. staggered:
    first requests are spread evenly over one think time. at once: all send at once, as in RUBBoS's client."""
    aggregate: Flag = False
    """All thinking clients are one source. This is faster and has the same distribution, but gives no common random
    numbers for each client. It does not support `think_max`, which must be 0 or at least seven times `think`."""


class Poisson(Workload):
    """Open arrivals."""

    kind: Literal["poisson"]
    rate: Annotated[PerSecond, Field(gt=0.0)]
    """Requests per second."""


class Modulated(Workload):
    """Open arrivals whose rate switches (MMPP). They begin in a state drawn by its share of the time."""

    kind: Literal["modulated"]
    rates: tuple[PerSecond, ...] = Field(min_length=1)
    """Requests per second in each state, visited in turn."""
    stays: tuple[Positive, ...] = Field(min_length=1)
    """Mean time in each state."""


class Trace(Workload):
    """Arrivals from a file."""

    kind: Literal["trace"]
    file: Name
    """CSV or Parquet, beside the experiment: `time` in seconds since the end of the ramp, and `interaction` where it is
    known. The simulator also uses `client` and `think`: a request with a think time is sent that long after the answer
    to the request before it of the same client, any other at its `time`; `factor.TIER`: a factor for the work of the
    request in that tier, all its visits together; and `first.TIER`: a factor of its own for the work before the first
    call of these visits. Parquet has float64 seconds."""


class Batch(Workload):
    """Many requests at once, repeatedly."""

    kind: Literal["batch"]
    size: Annotated[Count, Field(le=1_000_000)] = 400
    """400 (`rpc-vs-async` V-B)."""
    every: Positive = 15_000_000_000
    """15 s (`rpc-vs-async` V-B)."""
    first: Duration | None = None
    """After the ramp. Default: after `every`."""

    @property
    def first_at(self) -> int:
        return self.every if self.first is None else self.first


def never(load: Workload, duration: int) -> int | None:
    """When it would begin, for a workload that begins after the end of such a run."""
    begin = load.first_at if isinstance(load, Batch) else load.begin
    return begin if begin is not None and begin >= duration else None


KINDS: tuple[type[Workload], ...] = (Closed, Poisson, Modulated, Trace, Batch)


def _kind(workload: Any) -> Any:
    return workload.get("kind", "closed") if isinstance(workload, dict) else getattr(workload, "kind", "closed")


AnyWorkload = Annotated[
    Annotated[Closed, Tag("closed")]
    | Annotated[Poisson, Tag("poisson")]
    | Annotated[Modulated, Tag("modulated")]
    | Annotated[Trace, Tag("trace")]
    | Annotated[Batch, Tag("batch")],
    Discriminator(_kind),
]
