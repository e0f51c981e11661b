"""A diagnosis consists of findings, episodes and their summary. These are plain values; this module computes
nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tailrace.diagnosis.judged import Judged

Verdict = Literal["found", "absent", "unknown"]
Step = Literal["vlrt", "drops", "overflow", "millibottleneck", "cause"]
Ctqo = Literal["upstream", "downstream", "local", "soft-resource", "unknown", "none"]
LimitSource = Literal["topology", "samples", "plateau", "unknown"]
Number = float | int | str | bool | None

UNKNOWN = "unknown"
PACKET_LOSS = "packet-loss"
"""This cause belongs to no server. The network, or a filter before the accept queue, lost the packets."""

STEPS: tuple[Step, ...] = ("vlrt", "drops", "overflow", "millibottleneck", "cause")


@dataclass(frozen=True)
class Finding:
    """A finding is the answer of one step for one episode.

    `begin` and `end` are nanoseconds since the Unix epoch; they are None where the finding has no interval.
    `missing` names the datum that would settle an unknown verdict.
    `numbers` are the evidence, with the unit last in the key (`queue_length_max`, `cpu_busy_mean`, `length_ns`).
    `inputs` are the files that the finding rests on, if the run folder was made from several.
    """

    step: Step
    verdict: Verdict
    sentence: str
    place: str | None = None
    begin: int | None = None
    end: int | None = None
    numbers: Mapping[str, Number] = field(default_factory=dict)
    missing: str | None = None
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CauseEvidence:
    """This is what speaks for or against one cause in one episode.

    `share` is the share of the VLRT requests that the ledger charges it with, from 0 to 1 (None = none).
    `coverage` is the part that it took of the capacity that the origin lacked, from 0 to 1 (None = it takes no
    capacity, or the origin lacked none).
    `missing` is the datum that would show it, if it was not recorded and is possible.
    """

    cause: str
    place: str | None
    verdict: Verdict
    sentence: str
    share: float | None = None
    coverage: float | None = None
    begin: int | None = None
    end: int | None = None
    numbers: Mapping[str, Number] = field(default_factory=dict)
    missing: str | None = None


@dataclass(frozen=True)
class PushBack:
    """This shows when a server's queue began to rise in an episode and when it reached its limit (None = it did
    not)."""

    server: str
    rise: int
    full: int | None
    queue_length_max: int
    """Where a sampler kept a share of the visits, the length is scaled by it; `queue_length_error` is then the half
    width of its 95 % interval."""
    queue_max: int | None
    """This is the limit of the queue. `limit_source` shows whether it was configured, counted by the kernel, or
    inferred as a plateau."""
    limit_source: LimitSource
    queue_length_error: int = 0


@dataclass(frozen=True)
class SummaryRow:
    """These VLRT requests have the same chain. `dropper` is None where nothing was dropped."""

    dropper: str | None
    origin: str | None
    cause: str
    ctqo: Ctqo
    vlrt: int


@dataclass(frozen=True)
class Slowest:
    """This is one VLRT request and where its time went; `Accounted` explains the parts."""

    request: int
    sent: int
    response_ns: int
    lost_ns: int
    queued_ns: int
    transferred_ns: int
    unaccounted_ns: int


@dataclass(frozen=True)
class Accounted:
    """This shows where the time of an episode's VLRT requests went, in sums over them. The parts add up to
    `response_ns`."""

    response_ns: int
    lost_ns: int
    """This time passed until lost packets were sent again, or until the client gave up if nobody sent them."""
    queued_ns: int
    """In this time a queue on the way through the origin was long and held other requests, too. Without an origin it is
    a queue on the way through the dropper. The finding accounts for this time and `lost_ns`."""
    transferred_ns: int
    """This time passed after the first byte of the response."""
    unaccounted_ns: int
    """This is the rest of the time."""
    vlrt_unexplained: int
    """The finding accounts for less than half of the time of these requests: it does not explain them."""
    unexplained_place: str | None
    """Most of the unexplained requests spent the most time in this server."""
    slowest: tuple[Slowest, ...] = ()
    """These are up to 20 VLRT requests of the episode: those with the most time that the finding does not account
    for."""


@dataclass(frozen=True)
class Episode:
    """An episode consists of VLRT requests that were sent close together, and of the chain that explains them."""

    begin: int
    end: int
    vlrt: int
    findings: tuple[Finding, Finding, Finding, Finding, Finding]
    """There is one finding per step, in the order of STEPS."""
    dropper: str | None
    origin: str | None
    cause: str
    """This is the kebab-case name of the cause with the largest share, or "unknown"."""
    ctqo: Ctqo
    wave: tuple[PushBack, ...] = ()
    causes: tuple[CauseEvidence, ...] = ()
    """This is what speaks for or against each cause: those with a share first, then those that made it worse."""
    chains: tuple[SummaryRow, ...] = ()
    """These are its VLRT requests by dropper. In one episode some may have been dropped and others may only have
    waited."""
    account: Accounted | None = None
    """This shows where their time went."""
    ledger: Judged | None = None
    """This shows what happened to the capacity of the servers, and what the replay shows. It is None where there are no
    visits."""


@dataclass(frozen=True)
class Mode:
    """A mode is a cluster of response times. It names the entry of the retransmission schedule that it matches, if
    any."""

    centre_ns: int
    requests: int
    retransmission_ns: int | None
    """This is the sum of the sender's waits that puts requests here (1 s, 3 s, 200 ms …). It is None for the main mode
    or without a match."""
    attempts_lost: int | None


@dataclass(frozen=True)
class Unknown:
    """This is something that the data could not settle, and the datum that would settle it."""

    what: str
    datum: str


@dataclass(frozen=True)
class Constant:
    """Several VLRT requests took this same time, whenever they were sent. It comes from a timer, such as a timeout."""

    response_ns: int
    """This is the median of their response times."""
    shortest_ns: int
    longest_ns: int
    requests: int
    place: str | None
    """Most of these requests spent the most time in this server. It is None where none of their visits is known, and
    `clients` where their clients gave most of them up then."""
    retransmission: bool
    """This shows whether a sender's first retransmission comes after the same time. Then a loss may be missing in the
    recording."""


@dataclass(frozen=True)
class Unanswered:
    """These requests got no answer from a server."""

    server: str
    how: Literal["refused", "reset", "timeout", "abandoned", "under-way", "connecting"]
    """This is the `status` of the requests. `under-way` means: sent, and not answered when the recording ended.
    `connecting` means: without an answer to the connection attempt when the recording ended."""
    requests: int
    longest_ns: int | None
    """This is the longest time that one of them had waited. It is None where that is not known."""


@dataclass(frozen=True)
class Diagnosis:
    """This is the answer. `explained` is the share of VLRT whose cause is not "unknown" (1.0 when there are none)."""

    requests: int
    vlrt: int
    threshold_ns: int
    threshold_reason: str
    explained: float
    begin: int | None
    end: int | None
    window_ns: int
    answer: tuple[str, ...]
    """These are up to five sentences for the top of the report."""
    summary: tuple[SummaryRow, ...]
    episodes: tuple[Episode, ...]
    modes: tuple[Mode, ...]
    histogram: tuple[tuple[int, int, int], ...]
    """These are the response times of all requests: (lower bound ns, upper bound ns, requests). The bins are
    log-linear, and empty bins are left out."""
    unknown: tuple[Unknown, ...]
    unanswered: tuple[Unanswered, ...] = ()
    """These requests were refused, reset, given up or still under way at the end. The most frequent kind comes
    first."""
    constants: tuple[Constant, ...] = ()
    """Several VLRT requests took each of these times alike. The most frequent time comes first."""
    notes: tuple[str, ...] = ()
    """The notes explain how the numbers were made and where care is needed (losses of the capture, clock bounds)."""

    def _repr_html_(self) -> str:
        """Return how a notebook shows the value. This is the only dependency of this module on the report."""
        from tailrace.report.notebook import repr_html

        return repr_html(self)
