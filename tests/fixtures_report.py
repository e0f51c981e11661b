"""A synthetic run for the report's tests: three bursts of a neighbour, upstream CTQO, drops at the web server.

It uses the arithmetic of the real testbed without randomness: 1000 requests a second, a stall of 0.9 s, 165 + 128
places at the app server, 150 + 128 at the web server. It imitates a shape; nothing in it is measured.
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.finding import (
    CauseEvidence,
    Diagnosis,
    Episode,
    Finding,
    Mode,
    PushBack,
    SummaryRow,
    Unknown,
)
from tailrace.diagnosis.judged import DONE, IDLE, UNACCOUNTED, Charged, Columns, Judged, Lost, Sheet
from tailrace.report.recording import Axis, Line, Recording, Span

SECOND = 1_000_000_000
BEGIN = 1_795_193_376_250_000_000
WINDOW = 50_000_000
STALL = 900_000_000
LIMITS = {"web": 278, "app": 150, "db": None}


def stalls(seconds: int) -> list[int]:
    return list(range(6 * SECOND, (seconds - 4) * SECOND, 7 * SECOND))


def recording(seconds: int = 26, names: dict[str, str] | None = None) -> Recording:
    """Windows and samples of the synthetic run; `names` renames places."""
    names = names or {}
    count = seconds * SECOND // WINDOW
    rng = np.random.default_rng(7)
    starts = np.arange(count, dtype=np.int64) * WINDOW
    inside = np.zeros(count)
    since = np.full(count, np.inf)
    for stall in stalls(seconds):
        inside += np.clip(np.minimum(starts + WINDOW, stall + STALL) - np.maximum(starts, stall), 0, WINDOW) / WINDOW
        since = np.where(starts + WINDOW > stall, (starts + WINDOW - stall) / SECOND, since)
    grown = np.where(since < 0.9, 1000 * since, np.where(since < 1.2, 900 - 3600 * (since - 0.9), 0)).clip(0)
    app = np.minimum(grown, 150) + rng.integers(1, 5, count)
    web = np.minimum(grown, 278) + rng.integers(2, 6, count)
    database = rng.integers(0, 3, count).astype(float) + np.where((since > 0.9) & (since < 1.1), 30, 0)
    lost = np.where((grown > 278) & (since < 0.9), 50, 0)
    windows = Axis(BEGIN + starts + WINDOW // 2, WINDOW)
    samples = Axis(BEGIN + starts + WINDOW // 2 + 3_000_000, WINDOW)
    cores = Axis(BEGIN + starts + WINDOW // 2 + 21_000_000, WINDOW)
    busy = np.clip(0.56 + 0.06 * rng.standard_normal(count), 0, 1)
    neighbour = np.clip(0.01 * np.abs(rng.standard_normal(count)) + 0.88 * inside, 0, 1)
    series = [
        (0, "web", "vlrt", lost),
        (0, "web", "drops", lost),
        (0, "web", "queue_length", web),
        (0, "app", "queue_length", app),
        (0, "db", "queue_length", database),
        (0, "web", "arrivals", 50 + rng.integers(-6, 7, count)),
        (1, "app", "cpu_busy", np.where(inside > 0, 0.1 * (1 - inside) + 0.1, busy)),
        (1, "app", "cpu_iowait", np.zeros(count)),
        (2, "core1", "cpu_busy", np.clip(np.where(inside > 0, 1.0, busy + 0.05), 0, 1)),
        (1, "neighbour", "cpu_busy", neighbour),
        (1, "web", "cpu_busy", np.clip(0.25 + 0.04 * rng.standard_normal(count), 0, 1)),
        (1, "db", "cpu_busy", np.clip(0.29 + 0.04 * rng.standard_normal(count), 0, 1)),
        (1, "host", "dirty_bytes", 4e6 + np.cumsum(rng.integers(0, 9000, count))),
    ]
    lines = tuple(Line(a, names.get(p, p), m, np.asarray(v, dtype=np.float64)) for a, p, m, v in series)
    spans = tuple(
        Span(names.get("neighbour", "neighbour"), "neighbour_burst", BEGIN + s, BEGIN + s + STALL)
        for s in stalls(seconds)
    )
    return Recording(
        begin=BEGIN,
        end=BEGIN + seconds * SECOND,
        window_ns=WINDOW,
        servers=tuple(names.get(n, n) for n in ("web", "app", "db")),
        axes=(windows, samples, cores),
        lines=lines,
        spans=spans,
        means=((names.get("app", "app"), "core1"),),
        provenance=(("Maker", "synthetic run of the tests"), ("Packets lost by the capture", "none")),
    )


def findings(at: int, vlrt: int, names: dict[str, str]) -> tuple[Finding, Finding, Finding, Finding, Finding]:
    web, app, near = (names.get(n, n) for n in ("web", "app", "neighbour"))
    return (
        Finding(
            "vlrt",
            "found",
            f"{vlrt} requests sent within 0.62 s took longer than 0.95 s; those sent before and after took 2 ms.",
            web,
            at + SECOND * 28 // 100,
            at + STALL,
            {"vlrt": vlrt, "response_ns_median": 1_004_000_000, "length_ns": 620_000_000},
        ),
        Finding(
            "drops",
            "found",
            f"{vlrt} of {vlrt} lost their first SYN at {web}, which was sent again 1.00 s later.",
            web,
            at + SECOND * 28 // 100,
            at + STALL,
            {"drops": vlrt, "vlrt_with_drop": vlrt, "retransmission_ns": 1_000_000_000},
        ),
        Finding(
            "overflow",
            "found",
            f"{web} was full (278 of 278) for 620 ms; the queue of {app} rose first, 150 ms before: upstream CTQO.",
            web,
            at + 20_000_000,
            at + SECOND,
            {"queue_length_max": 279, "queue_max": 278, "full_ns": 620_000_000, "ctqo": "upstream"},
        ),
        Finding(
            "millibottleneck",
            "found",
            f"The core of {app} was saturated for 0.90 s while {app} got a tenth of it and answered almost nothing.",
            app,
            at,
            at + STALL,
            {"cpu_busy_mean": 1.0, "length_ns": STALL, "throughput_share": 0.08},
        ),
        Finding(
            "cause",
            "found",
            f"It took 0.81 s of the 0.82 s of CPU time that {app} lacked.",
            near,
            at - 10_000_000,
            at + STALL,
            {"taken_ns": 812_000_000, "lacked_ns": 820_000_000, "share_neighbour": 1.0},
        ),
    )


def causes(at: int, names: dict[str, str]) -> tuple[CauseEvidence, ...]:
    near, app = names.get("neighbour", "neighbour"), names.get("app", "app")
    return (
        CauseEvidence("neighbour", near, "found", f"{near} used 0.88 of the core.", 1.0, 0.99, at, at + STALL),
        CauseEvidence("concurrency-overhead", app, "absent", "Throughput fell at once, not with threads.", None, 0.4),
        CauseEvidence("workload-burst", None, "absent", "Arrivals stayed at 1000 requests/s."),
        CauseEvidence("garbage-collection", app, "absent", "No collection overlaps the stall."),
        CauseEvidence("frequency-step", app, "unknown", "No clock rate was sampled.", missing=f"`cpu_hz` of {app}"),
        CauseEvidence(
            "log-flush", app, "unknown", "No disk was sampled.", missing=f"`disk_busy` or `cpu_iowait` of {app}"
        ),
    )


def judged(at: int, vlrt: int, names: dict[str, str]) -> Judged:
    """The neighbour took most of the capacity of app; little is unaccounted for."""
    app, near = names.get("app", "app"), names.get("neighbour", "neighbour")
    step, begin, steps = 10_000_000, at - SECOND, 300
    since = np.arange(steps) * step - SECOND
    inside = (since >= 0) & (since < STALL)
    taken, rest = 0.8 * inside, 0.1 * ((since >= STALL) & (since < STALL + 100_000_000))
    done = np.where(inside, 0.2, 0.55)
    queue = np.clip(np.where(inside, since / 1e6, 0), 2, 150).astype(float)
    shares = {DONE: done, "neighbour": taken, UNACCOUNTED: rest, IDLE: 1 - done - taken - rest}
    whole = {name: round(float(share.sum()) * step) for name, share in shares.items()}
    sheet = Sheet(
        app,
        begin,
        begin + steps * step,
        steps * step,
        whole[DONE],
        whole[IDLE],
        (Lost("neighbour", whole["neighbour"]),),
        whole[UNACCOUNTED],
        Columns(begin, step, shares, queue, queue * 0.95),
    )
    lines = (Charged("neighbour", app, near, 0.97, 9), Charged("unknown", app, None, 0.03, vlrt - 12))
    sentence = f"Without what {near} took of the CPU of {app}, {vlrt - 9} of {vlrt} would not have happened."
    return Judged(True, (), vlrt, vlrt, 0.0, sentence, lines, (sheet,))


def episode(at: int, vlrt: int, names: dict[str, str] | None = None) -> Episode:
    names = names or {}
    web, app, database = (names.get(n, n) for n in ("web", "app", "db"))
    return Episode(
        begin=at + SECOND * 28 // 100,
        end=at + STALL,
        vlrt=vlrt,
        findings=findings(at, vlrt, names),
        dropper=web,
        origin=app,
        cause="neighbour",
        ctqo="upstream",
        wave=(
            PushBack(app, at + 20_000_000, at + 150_000_000, 151, 150, "plateau"),
            PushBack(web, at + 170_000_000, at + 280_000_000, 279, 278, "samples"),
            PushBack(database, at + STALL, None, 32, None, "unknown"),
        ),
        causes=causes(at, names),
        ledger=judged(at, vlrt, names),
    )


def histogram() -> tuple[tuple[int, int, int], ...]:
    """Log-linear bins of 64 a power of two: a main mode at 2 ms, a thin tail, and one mode at 1 s."""
    bins = []
    for power in range(19, 32):
        for part in range(64):
            low = (64 + part) << (power - 6)
            high = low + (1 << (power - 6))
            main = 400 * np.exp(-((np.log2(low / 2e6) / 0.5) ** 2))
            tail = 12 * np.exp(-low / 2e8) if low > 4e6 else 0
            second = 250 * np.exp(-(((low - 1.02e9) / 4e7) ** 2))
            number = int(main + tail + second)
            if number:
                bins.append((low, high, number))
    return tuple(bins)


def diagnosis(seconds: int = 26, names: dict[str, str] | None = None) -> Diagnosis:
    """The diagnosis of `recording(seconds, names)`."""
    names = names or {}
    web, app, near = (names.get(n, n) for n in ("web", "app", "neighbour"))
    counts = [(BEGIN + s, 325 + 5 * (i % 3)) for i, s in enumerate(stalls(seconds))]
    vlrt = sum(n for _, n in counts)
    bins = histogram()
    return Diagnosis(
        requests=sum(n for _, _, n in bins),
        vlrt=vlrt,
        threshold_ns=950_000_000,
        threshold_reason="the gap between the main mode and the mode at 1.00 s",
        explained=1.0,
        begin=BEGIN,
        end=BEGIN + seconds * SECOND,
        window_ns=WINDOW,
        answer=(
            f"{vlrt} of {sum(n for _, _, n in bins)} requests took about a second because {web} dropped their packets.",
            f"Its queue was full because {app} stood still {len(counts)} times for 0.9 s (upstream CTQO).",
            f"Each time {near} had taken the core of {app}; this explains all of them.",
        ),
        summary=(SummaryRow(web, app, "neighbour", "upstream", vlrt),),
        episodes=tuple(episode(at, n, names) for at, n in counts),
        modes=(
            Mode(2_000_000, sum(n for _, _, n in bins) - vlrt, None, None),
            Mode(1_004_000_000, vlrt, 1_000_000_000, 1),
        ),
        histogram=bins,
        unknown=(
            Unknown("whether the clock rate of the cores changed", f"`cpu_hz` of {app}, every 50 ms"),
            Unknown("whether a log flush took part", f"`disk_busy` of the host of {app}"),
        ),
        notes=("Accept queue limits are the kernel's own count.",),
    )


def quiet(seconds: int = 26) -> tuple[Recording, Diagnosis]:
    """A run without any VLRT."""
    run = recording(seconds)
    calm = tuple(
        Line(
            n.axis, n.place, n.metric, np.zeros_like(n.values) if n.metric in ("vlrt", "drops") else n.values.clip(0, 6)
        )
        for n in run.lines
    )
    bins = tuple(b for b in histogram() if b[1] < 40_000_000)
    total = sum(n for _, _, n in bins)
    return (
        Recording(
            run.begin, run.end, run.window_ns, run.servers, run.axes, calm, (), run.means, provenance=run.provenance
        ),
        Diagnosis(
            requests=total,
            vlrt=0,
            threshold_ns=SECOND,
            threshold_reason="the default: no gap between modes",
            explained=1.0,
            begin=run.begin,
            end=run.end,
            window_ns=WINDOW,
            answer=("No request took longer than 1 s, so there is nothing to explain.",),
            summary=(),
            episodes=(),
            modes=(Mode(2_000_000, total, None, None),),
            histogram=bins,
            unknown=(),
        ),
    )
