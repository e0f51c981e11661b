"""What a diagnosis is made of: findings, episodes, and their summary. Plain values; nothing here computes."""

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

STEPS: tuple[Step, ...] = ("vlrt", "drops", "overflow", "millibottleneck", "cause")


@dataclass(frozen=True)
class Finding:
    """One step's answer for one episode.

    `begin` and `end` are nanoseconds since the Unix epoch; None where the finding has no interval.
    `missing` names the datum that would settle an unknown verdict.
    `numbers` are the evidence, unit last in the key (`queue_length_max`, `cpu_busy_mean`, `length_ns`).
    """

    step: Step
    verdict: Verdict
    sentence: str
    place: str | None = None
    begin: int | None = None
    end: int | None = None
    numbers: Mapping[str, Number] = field(default_factory=dict)
    missing: str | None = None


@dataclass(frozen=True)
class CauseEvidence:
    """What one detector says of one episode.

    `coverage`: share of the stall that the evidence overlaps, 0 to 1.
    `lift`: rate of the evidence inside stalls over its rate outside (1 = chance; None = not computable).
    `p_value`: of that lift under random shifts of the stalls (None = not computable).
    `lead_ns`: onset of the evidence before the onset of the stall; negative when it came after.
    """

    cause: str
    place: str | None
    verdict: Verdict
    sentence: str
    coverage: float | None = None
    lift: float | None = None
    p_value: float | None = None
    lead_ns: int | None = None
    begin: int | None = None
    end: int | None = None
    numbers: Mapping[str, Number] = field(default_factory=dict)
    missing: str | None = None


@dataclass(frozen=True)
class PushBack:
    """When a server's queue began to rise in an episode and when it reached its limit (None = it did not)."""

    server: str
    rise: int
    full: int | None
    queue_length_max: int
    queue_max: int | None
    """The limit it was held against: configured, counted by the kernel, or inferred as a plateau (`limit_source`)."""
    limit_source: LimitSource


@dataclass(frozen=True)
class SummaryRow:
    """VLRT requests with the same chain. `dropper` is None where nothing was dropped."""

    dropper: str | None
    origin: str | None
    cause: str
    ctqo: Ctqo
    vlrt: int


@dataclass(frozen=True)
class Slowest:
    """One VLRT request and where its time went; see `Accounted`."""

    request: int
    sent: int
    response_ns: int
    lost_ns: int
    queued_ns: int
    transferred_ns: int
    unaccounted_ns: int


@dataclass(frozen=True)
class Accounted:
    """Where the time of the VLRT requests of an episode went, in sums over them; the parts add up to `response_ns`."""

    response_ns: int
    lost_ns: int
    """Until lost packets were sent again …"""
    queued_ns: int
    """… while a queue on the way through the origin (without one, through the dropper) was long and held others, too:
    this and `lost_ns` is what the finding accounts for …"""
    transferred_ns: int
    """… after the first byte of the response …"""
    unaccounted_ns: int
    """… and the rest."""
    vlrt_unexplained: int
    """Requests of whose time the finding accounts for less than half: it does not explain them …"""
    unexplained_place: str | None
    """… and the server in which most of these spent the most time."""
    slowest: tuple[Slowest, ...] = ()
    """Up to 20 VLRT requests of the episode, those with the most time that the finding does not account for."""


@dataclass(frozen=True)
class Episode:
    """VLRT requests sent close together, and the chain that explains them."""

    begin: int
    end: int
    vlrt: int
    findings: tuple[Finding, Finding, Finding, Finding, Finding]
    """One per step, in the order of STEPS."""
    dropper: str | None
    origin: str | None
    cause: str
    """Kebab-case name of the winning detector, or "unknown". Ties are joined: "garbage-collection or neighbour"."""
    ctqo: Ctqo
    wave: tuple[PushBack, ...] = ()
    causes: tuple[CauseEvidence, ...] = ()
    """Every detector's say, the strongest first."""
    chains: tuple[SummaryRow, ...] = ()
    """Its VLRT requests by dropper: in one episode some may have been dropped and others only have waited."""
    account: Accounted | None = None
    """Where their time went."""
    ledger: Judged | None = None
    """What became of the capacity of the servers, and what the replay says; None where there are no visits."""


@dataclass(frozen=True)
class Mode:
    """A cluster of response times, and the retransmission schedule entry it sits at, if any."""

    centre_ns: int
    requests: int
    retransmission_ns: int | None
    """Sum of the sender's waits that puts requests here (1 s, 3 s, 200 ms …), or None for the main mode or no match."""
    attempts_lost: int | None


@dataclass(frozen=True)
class Unknown:
    """Something the data could not settle, and the datum that would."""

    what: str
    datum: str


@dataclass(frozen=True)
class Constant:
    """A time that several VLRT requests took, whenever they were sent: a timer's, such as a timeout."""

    response_ns: int
    """The middle one of theirs."""
    shortest_ns: int
    longest_ns: int
    requests: int
    place: str | None
    """The server in which most of them spent the most time; None where no visit of theirs is known."""
    retransmission: bool
    """Whether a sender's first retransmission comes after as long: then a loss may not have been recorded."""


@dataclass(frozen=True)
class Unanswered:
    """Requests that got no answer from a server."""

    server: str
    how: Literal["refused", "reset", "timeout", "abandoned", "under-way", "connecting"]
    """As the requests' `status` has it; `under-way`: sent, and not answered when the recording ended."""
    requests: int
    longest_ns: int | None
    """For how long the one that waited longest had waited; None where that is not known."""


@dataclass(frozen=True)
class Diagnosis:
    """The answer. `explained` is the share of VLRT whose cause is not "unknown" (1.0 when there are none)."""

    requests: int
    vlrt: int
    threshold_ns: int
    threshold_reason: str
    explained: float
    begin: int | None
    end: int | None
    window_ns: int
    answer: tuple[str, ...]
    """Up to five sentences for the top of the report."""
    summary: tuple[SummaryRow, ...]
    episodes: tuple[Episode, ...]
    modes: tuple[Mode, ...]
    histogram: tuple[tuple[int, int, int], ...]
    """Response times of all requests: (lower bound ns, upper bound ns, requests), log-linear, empty bins left out."""
    unknown: tuple[Unknown, ...]
    unanswered: tuple[Unanswered, ...] = ()
    """Requests that were refused, reset, given up or still under way at the end, the most first."""
    constants: tuple[Constant, ...] = ()
    """Times that several VLRT requests took alike, the most first."""
    notes: tuple[str, ...] = ()
    """How the numbers were made and what to be careful about (losses of the capture, clock bounds)."""

    def _repr_html_(self) -> str:
        """A notebook asks the value itself how it looks; the one arrow from here to the report."""
        from tailrace.report.notebook import repr_html

        return repr_html(self)
