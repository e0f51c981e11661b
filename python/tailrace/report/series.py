"""Gathers the content of the report from a Dataset: windows, samples, events, and the requests of the trace."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np
import polars as pl

from tailrace import units
from tailrace.dataset import Dataset, traces
from tailrace.dataset.apart import Sampled, apart
from tailrace.diagnosis import answers
from tailrace.diagnosis.finding import Diagnosis
from tailrace.report import words
from tailrace.report.charts import around
from tailrace.report.grid import Grid, grid
from tailrace.report.histogram import BARS_MAX, nice
from tailrace.report.perfetto import STAYS_MAX, Stay
from tailrace.report.recording import LOST, NOTE, NOTHING, Axis, Line, Recording, Span, Times, Values
from tailrace.topology import distances

SPANS_MAX = 20_000
"""Events that are kept: more than a chart or a viewer can show."""
DROP_EVENTS = ("drop", "data_drop")
TRACED_REQUESTS_MAX = 3_000
"""Requests in a Perfetto trace; with a few visits each, they stay below the bound of the trace."""
VALUES_MAX = 1_500_000
"""Numbers in a page, about 5 MB: 30 min at 50 ms of 40 lines are not thinned."""
COARSE_MAX = 20_000
"""Times of a thinned line: five for every pixel of a wide screen."""


def gather(dataset: Dataset, diagnosis: Diagnosis) -> Recording:
    """Everything that the report may draw, at full resolution."""
    begin, end = _range(dataset, diagnosis)
    drawn = grid(dataset, begin, end, diagnosis.window_ns)
    queues, seen = drawn.queues(dataset)
    answered = answers.arrived(dataset).requests()
    requests = _vlrt(answered, diagnosis, drawn) + _drops(dataset, drawn)
    calls = _calls(dataset, seen)
    servers = _servers(dataset, seen, calls)
    axes, samples = _samples(dataset)
    response = _responses(answered)
    return Recording(
        begin=begin,
        end=end,
        window_ns=drawn.window_ns,
        servers=servers,
        axes=(drawn.axis, *axes),
        lines=(*requests, *queues, *samples),
        spans=_spans(dataset),
        calls=calls,
        traces={(one.begin, one.end): one.trace for one in traces.traces(dataset, diagnosis.threshold_ns)},
        means=_means(dataset, servers, samples),
        responses=_equal_bins(response),
        response_ns_p50=int(np.median(response)) if len(response) else None,
        provenance=_provenance(dataset),
    )


def stays(dataset: Dataset, diagnosis: Diagnosis) -> tuple[Stay, ...]:
    """VLRT requests with their visits, then other requests that were sent during an episode, up to a bound."""
    seen = answers.arrived(dataset)
    requests = seen.requests().select(
        "request",
        "sent",
        "end",
        "drops",
        pl.col("interaction").cast(pl.String),
        slow=pl.col("end") - pl.col("sent") >= diagnosis.threshold_ns,
    )
    near = pl.col("slow")
    for this in diagnosis.episodes:
        near = near | pl.col("sent").is_between(this.begin, this.end)
    chosen = requests.filter(near).sort("slow", "sent", descending=[True, False]).head(TRACED_REQUESTS_MAX).collect()
    visits = (
        seen.visits()
        .select(
            "request",
            "arrival",
            "departure",
            "drops",
            server=pl.col("server").cast(pl.String),
            interaction=pl.col("interaction").cast(pl.String),
        )
        .join(chosen.lazy().select("request"), on="request", how="semi")
        .sort("arrival", "request", "server")
        .head(STAYS_MAX)
        .collect()
    )
    whole = chosen.select("request", "sent", "end", "interaction", "drops").iter_rows()
    parts = visits.select("request", "server", "arrival", "departure", "interaction", "drops").iter_rows()
    return (
        *(Stay(r, None, begin, end, interaction, drops) for r, begin, end, interaction, drops in whole),
        *(Stay(r, server, begin, end, interaction, drops) for r, server, begin, end, interaction, drops in parts),
    )


def thin(recording: Recording, diagnosis: Diagnosis, episodes: int) -> Recording:
    """Make a recording small enough for a page: the whole has the largest value of every few times, and the
    surroundings of each of the first `episodes` episodes have every time. A recording that is small enough is returned
    unchanged."""
    if sum(len(line.values) for line in recording.lines) <= VALUES_MAX:
        return recording
    axes: list[Axis] = []
    lines: list[Line] = []
    note = ""
    for number, axis in enumerate(recording.axes):
        mine = [line for line in recording.lines if line.axis == number]
        every = -(-len(axis.times) // COARSE_MAX)
        coarse, bounds = _coarse(axis, every)
        lines += [replace(line, axis=len(axes), values=_largest(line.values, bounds)) for line in mine]
        axes.append(coarse)
        if every > 1 and not note:
            note = f"the largest value of every {every} windows, and every window in the first {episodes} episodes"
        for index, this in enumerate(diagnosis.episodes[:episodes]):
            low, high = np.searchsorted(axis.times, around(this, recording))
            if every == 1 or low == high:
                continue
            lines += [replace(line, axis=len(axes), values=line.values[low:high]) for line in mine]
            axes.append(replace(axis, times=axis.times[low:high], episode=index))
    provenance = (*recording.provenance, ("Points drawn", note)) if note else recording.provenance
    return replace(recording, axes=tuple(axes), lines=tuple(lines), provenance=provenance)


def _coarse(axis: Axis, every: int) -> tuple[Axis, Times]:
    bounds = np.arange(0, len(axis.times), every)
    last = np.append(bounds[1:], len(axis.times)) - 1
    return replace(axis, times=(axis.times[bounds] + axis.times[last]) // 2, step_ns=axis.step_ns * every), bounds


def _largest(values: Values, bounds: Times) -> Values:
    return np.fmax.reduceat(values, bounds) if len(values) else values


def _range(dataset: Dataset, diagnosis: Diagnosis) -> tuple[int, int]:
    begin = diagnosis.begin if diagnosis.begin is not None else dataset.manifest.begin
    end = diagnosis.end if diagnosis.end is not None else dataset.manifest.end
    if begin is None or end is None:
        return 0, diagnosis.window_ns
    return begin, max(end, begin + 1)


def _vlrt(requests: pl.LazyFrame, diagnosis: Diagnosis, drawn: Grid) -> list[Line]:
    slow = requests.filter(pl.col("end") - pl.col("sent") >= diagnosis.threshold_ns)
    return drawn.count(slow.select(place=pl.col("server"), moment=pl.col("sent")), "vlrt")


def _drops(dataset: Dataset, drawn: Grid) -> list[Line]:
    """Lost packets at the time of the loss. Without events, they come from visits, at the time of the first sending."""
    events = dataset.events().filter(pl.col("kind").cast(pl.String).is_in(DROP_EVENTS))
    lines = drawn.count(events.select("place", moment=pl.col("begin")), "drops")
    if lines:
        return lines
    visits = dataset.visits().filter((pl.col("drops") > 0) | (pl.col("data_drops") > 0))
    return drawn.count(visits.select(place=pl.col("server"), moment=pl.col("sent")), "drops")


def _samples(dataset: Dataset) -> tuple[list[Axis], list[Line]]:
    """One axis for all metrics that were sampled at the same times; these axes follow the axis of the windows, number
    0. A place that stands for a server gets the name of the server."""
    axes: dict[bytes, Axis] = {}
    found: list[tuple[str, str, bytes, Values]] = []
    for sampled in apart(dataset.samples()):
        time, interval, values = _at_different_times(sampled)
        times = time - interval // 2
        key = sha256(times.data).digest()
        if key not in axes:
            axes[key] = Axis(times, max(1, int(np.median(interval))))
        found.append((sampled.place, sampled.metric, key, values))
    found.sort(key=lambda one: one[:2])
    number = {key: 1 + at for at, key in enumerate(dict.fromkeys(key for _, _, key, _ in found))}
    called = dataset.topology.called
    return [axes[key] for key in number], [
        Line(number[key], called(place), metric, values) for place, metric, key, values in found
    ]


def _at_different_times(sampled: Sampled) -> tuple[Times, Times, Values]:
    """Return times, intervals and values in the order of time; of samples at one time, the last."""
    (time, interval_ns), value = sampled.when, sampled.value
    if (time[1:] <= time[:-1]).any():
        order = np.argsort(time, kind="stable")
        order = order[np.append(time[order][1:] != time[order][:-1], True)]
        time, interval_ns, value = time[order], interval_ns[order], value[order]
    return time, interval_ns, value


def _spans(dataset: Dataset) -> tuple[Span, ...]:
    rows = (
        dataset.events()
        .with_columns(pl.col("place", "kind").cast(pl.String))
        .filter(~pl.col("kind").is_in((*DROP_EVENTS, traces.KIND)))
        .select("place", "kind", "begin", "end", "detail")
        .head(SPANS_MAX)
        .collect()
    )
    return tuple(Span(*row) for row in rows.iter_rows())


def _calls(dataset: Dataset, seen: list[str]) -> tuple[tuple[str, str], ...]:
    """Callers and servers of the visits, where both are among those seen."""
    calls = (
        dataset.visits()
        .select(pl.col("caller").cast(pl.String), pl.col("server").cast(pl.String))
        .drop_nulls()
        .unique()
        .collect()
    )
    known = set(seen)
    return tuple(sorted((caller, server) for caller, server in calls.iter_rows() if {caller, server} <= known))


def _servers(dataset: Dataset, seen: list[str], calls: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The servers, entry first: by tier where the topology has it, otherwise by the longest path of calls to the
    server."""
    tiers = {s.name: s.tier for s in dataset.topology.servers if s.tier is not None}
    depth = distances(seen, calls)
    return tuple(sorted(seen, key=lambda name: (tiers.get(name) or depth[name], name)))


def _means(dataset: Dataset, servers: tuple[str, ...], samples: list[Line]) -> tuple[tuple[str, str], ...]:
    """Each server with each place of samples that stands for it or for its node."""
    topology = dataset.topology
    of_server: dict[str, list[str]] = {}
    for place in dict.fromkeys(line.place for line in samples):
        node = topology.place_to_node(place)
        meant = topology.place_to_server(place)
        on_node = topology.servers_on(node.name) if node is not None else ()
        for server in on_node if meant is None else (meant,):
            of_server.setdefault(server.name, []).append(place)
    return tuple((server, place) for server in servers for place in of_server.get(server, ()))


def _responses(requests: pl.LazyFrame) -> Times:
    response = requests.select(response=pl.col("end") - pl.col("sent")).drop_nulls().collect()
    return response["response"].to_numpy()


def _equal_bins(response: Times) -> tuple[tuple[int, int, int], ...]:
    if len(response) == 0:
        return ()
    width = nice(max(1, int(response.max())) / BARS_MAX)
    counts = np.bincount(response // width)
    return tuple((int(i) * width, (int(i) + 1) * width, int(counts[i])) for i in np.flatnonzero(counts))


def _provenance(dataset: Dataset) -> tuple[tuple[str, str], ...]:
    manifest = dataset.manifest
    rows = words.listed([f"{units.format_count(n)} {name}" for name, n in manifest.rows.items() if n])
    lost = words.listed([f"{units.format_count(n)} {words.label(what)}" for what, n in dataset.lost().items() if n])
    clocks = [
        (
            f"Clock of {words.name(clock.capture)}",
            f"{units.format_duration(clock.offset_ns)} was added to it"
            + (f", to within {units.format_duration(clock.bound_ns)}" if clock.bound_ns is not None else ""),
        )
        for clock in dataset.topology.clocks
    ]
    return (
        ("Recording read by", words.name(f"{manifest.maker} {manifest.maker_version}")),
        ("Rows", rows or "none"),
        (LOST, lost or NOTHING),
        *clocks,
        *((NOTE, words.sentence(note)) for note in manifest.notes),
    )
