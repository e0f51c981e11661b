"""This module reads the tables of a Dataset once, as sorted columns on the diagnosis' own clock."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, TypeVar

import numpy as np
import polars as pl

from tailrace.dataset import INFERRED, SEEN, Connections, Input
from tailrace.dataset.apart import When, apart
from tailrace.dataset.traces import KIND as TRACE
from tailrace.diagnosis import answers, in_vain, slowly
from tailrace.diagnosis.clock import Clock, clock_of
from tailrace.diagnosis.queues import Stays
from tailrace.diagnosis.series import Series, within_cores
from tailrace.diagnosis.spans import Spans, spans
from tailrace.diagnosis.view import View
from tailrace.topology import Topology

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)


class Tables(Protocol):
    """This is the part of a `tailrace.dataset.Dataset` that the diagnosis reads."""

    @property
    def topology(self) -> Topology: ...
    @property
    def connections(self) -> Connections: ...
    @property
    def inputs(self) -> tuple[Input, ...]: ...
    def requests(self) -> pl.LazyFrame: ...
    def visits(self) -> pl.LazyFrame: ...
    def samples(self) -> pl.LazyFrame: ...
    def events(self) -> pl.LazyFrame: ...


def look(tables: Tables, window_ns: int) -> View:
    tables = in_vain.added(slowly.named_apart(answers.arrived(tables)))
    requests = _requests(tables)
    visits = _inside_from(tables.visits())
    stays, calls, callers = _visits(visits, _late(tables), tables.topology)
    of_calls = [each for callees in calls.values() for each in callees.values()]
    whole = Stays.of(requests["sent"].to_numpy(), requests["end"].to_numpy())
    clock = clock_of([whole, *stays.values(), *of_calls])
    requests = _on(clock, requests, "sent", "connected", "end")
    stays = {server: each.on(clock) for server, each in stays.items()}
    samples = _samples(tables, clock)
    begin, end = _range(requests, stays, samples)
    return View(
        begin,
        end,
        window_ns,
        requests,
        _on(clock, _lossy(tables.visits()), "sent", "arrival", "departure"),
        stays,
        {caller: {name: each.on(clock) for name, each in callees.items()} for caller, callees in calls.items()},
        samples,
        _events(tables, clock),
        tables.topology,
        _on(clock, visits, "sent", "arrival", "start", "first_byte", "departure"),
        callers,
        tables.connections,
        _only_inferred(tables.inputs),
        clock,
        clock.idle(int(np.median(np.diff(whole.arrivals))) if len(whole.arrivals) > 1 else 0),
    )


def _only_inferred(inputs: Collection[Input]) -> bool:
    """Return whether the inputs show lost attempts by times to connect alone. A run folder without a list of inputs was
    simulated or recorded."""
    shown = {one.carries.get("losses", "") for one in inputs}
    return any(how.startswith(INFERRED) for how in shown) and SEEN not in shown


def _on(clock: Clock, frame: Frame, *columns: str) -> Frame:
    """Return the frame with these columns of moments on the diagnosis' clock."""
    if not clock.runs:
        return frame

    def moved(column: pl.Series) -> pl.Series:
        return pl.Series(column.name, clock.of(column.fill_null(0).to_numpy()))

    return frame.with_columns(
        pl.when(pl.col(name).is_not_null()).then(pl.col(name).map_batches(moved, return_dtype=pl.Int64)).alias(name)
        for name in columns
    )


def _requests(tables: Tables) -> pl.DataFrame:
    found = (
        tables.requests()
        .select(
            "request", "client", "server", "interaction", "sent", "connected", "end", "status", "drops", "data_drops"
        )
        .filter(pl.col("end").is_not_null() & pl.col("sent").is_not_null())
        .with_columns(
            response_ns=pl.col("end") - pl.col("sent"), given_up=pl.col("status").cast(pl.String) == "abandoned"
        )
        .with_columns(twice=pl.lit(False), given_up=pl.col("given_up").fill_null(False))
        .collect()
        .sort("sent")
    )
    return _with_hedged(found) if found["given_up"].any() else found


def _with_hedged(requests: pl.DataFrame) -> pl.DataFrame:
    """Mark the second of two attempts that are one request: the client gave up both, or gave up one when the other was
    answered."""
    of_one = ("client", "interaction")
    unanswered = pl.col("sent") < pl.col("end").shift(1).over(of_one)
    one_of_two = pl.col("given_up") | pl.col("given_up").shift(1).over(of_one)
    twice = (pl.col("client").is_not_null() & unanswered & one_of_two).fill_null(False)
    answered = (pl.col("twice") & ~pl.col("given_up")).shift(-1).over(of_one).fill_null(False)
    return requests.with_columns(twice=twice).with_columns(given_up=pl.col("given_up") & ~pl.col("twice") & ~answered)


def _lossy(visits: pl.LazyFrame) -> pl.DataFrame:
    return (
        visits.filter((pl.col("drops") > 0) | (pl.col("data_drops") > 0))
        .select("request", "server", "caller", "sent", "arrival", "departure", "drops", "data_drops")
        .with_columns(pl.col("server", "caller").cast(pl.String))
        .collect()
        .sort("sent")
    )


def _late(tables: Tables) -> pl.DataFrame:
    of_late = tables.events().filter(pl.col("kind").cast(pl.String) == LATE)
    return until(of_late.select(server="place", departure="begin", until="end").collect())


def until(late: pl.DataFrame) -> pl.DataFrame:
    """Return until when each server worked for visits that were given up. The visits left, for their callers, at
    `departure`."""
    found = late.with_columns(pl.col("server").cast(pl.Categorical)).group_by("server", "departure")
    return found.agg(pl.col("until").max())


def _visits(
    visits: pl.LazyFrame, late: pl.DataFrame, topology: Topology
) -> tuple[dict[str, Stays], dict[str, dict[str, Stays]], dict[str, str]]:
    columns = pl.col("server", "caller").cast(pl.Categorical), pl.col("sent", "arrival", "departure")
    inside = visits.select(*columns).collect()
    left = pl.col("departure")
    if len(late):
        inside = inside.join(late, on=("server", "departure"), how="left", maintain_order="left")
        left = pl.coalesce("until", "departure")
    stays = {
        server: Stays.of(rows["arrival"].to_numpy(), rows["left"].to_numpy())
        for (server,), rows in inside.with_columns(left=left).partition_by("server", as_dict=True).items()
    }
    callers = _calling(inside["caller"].drop_nulls().unique(maintain_order=True), topology, stays)
    names = {"caller": pl.Categorical, "name": pl.String}
    calling = pl.DataFrame({"caller": list(callers), "name": list(callers.values())}, names)
    # A client on the host of a server has its address. The server did not call itself.
    of_others = (pl.col("name") != pl.col("server").cast(pl.String)) | (
        pl.col("name") == pl.col("caller").cast(pl.String)
    )
    by_servers = inside.join(calling, on="caller", maintain_order="left").filter(of_others)
    calls: dict[str, dict[str, Stays]] = {}
    for (name, server), rows in by_servers.partition_by("name", "server", as_dict=True).items():
        calls.setdefault(name, {})[server] = Stays.of(rows["sent"].to_numpy(), rows["departure"].to_numpy())
    return stays, calls, callers


def _inside_from(visits: pl.LazyFrame) -> pl.LazyFrame:
    """Return the visits with a corrected arrival. If the first data of a visit was lost, as it is while the accept
    queue is full, the visit arrives when it makes its first call. Its client sends the data again and again on a
    connection that the server does not know of, for seconds after the server works as usual. The moment when the server
    took the data is not recorded, but it was before that call and before the answer."""
    repeated = visits.filter(pl.col("data_drops") > 0).select("visit").collect()
    if repeated.is_empty():
        return visits
    first = visits.join(repeated.lazy(), left_on="parent", right_on="visit", how="semi").group_by("parent")
    first_call = first.agg(first_call=pl.col("sent").min()).collect()
    known = visits.join(first_call.lazy(), left_on="visit", right_on="parent", how="left", maintain_order="left")
    inside = pl.max_horizontal("arrival", pl.min_horizontal("first_call", "departure"))
    called = pl.col("first_call").is_not_null()
    return known.with_columns(arrival=pl.when(called).then(inside).otherwise(pl.col("arrival"))).drop("first_call")


def _calling(callers: pl.Series, topology: Topology, stays: Collection[str]) -> dict[str, str]:
    """Return the callers that are servers, and the server's name for each. A caller is a server if it has the name of
    one, or is a host on which only one server runs."""
    on_host: dict[str, list[str]] = {}
    addresses = {server.name: server.all_addresses for server in topology.servers}
    for name in stays:
        for host in {address.rpartition(":")[0].strip("[]") for address in addresses.get(name) or (name,)}:
            on_host.setdefault(host, []).append(name)
    found: dict[str, str] = {}
    for caller in callers:
        server = topology.place_to_server(caller)
        alone = on_host.get(caller, ())
        if caller in stays:
            found[caller] = caller
        elif server is not None and server.name in stays:
            found[caller] = server.name
        elif len(alone) == 1:
            found[caller] = alone[0]
    return found


def _samples(tables: Tables, clock: Clock) -> dict[tuple[str, str], Series]:
    found = {}
    before: When | None = None
    servers = {server.name for server in tables.topology.servers}.union(tables.topology.places)
    for place, metric, when, value in apart(tables.samples().filter(pl.col("value").is_not_nan())):
        if when is not before:  # series that were sampled at the same times share the arrays of these
            before, begin, end = when, clock.of(when.time - when.interval_ns), clock.of(when.time)
            # Samples that lie in the omitted time have no length.
            seen = (end > begin) | (when.interval_ns == 0) if clock.runs else slice(None)
            begin, end = begin[seen], end[seen]
        value = value[seen]
        if metric == "cpu_busy" and place in servers:
            node = tables.topology.place_to_node(place)
            value = within_cores(begin, end, value, node.cores) if node is not None and node.cores else value
        found[place, metric] = Series(place, metric, begin, end, value)
    return found


SILENT = "silent_client"
KEPT = "idle_client"
UNHEARD = "silent_server"
LOST = "drop"
LATE = "late_answer"
EACH = (SILENT, KEPT, UNHEARD, LOST, LATE, *in_vain.NAMES)
"""At the same time, several clients of a server may be silent, keep a connection, wait for the server to speak, lose a
packet, have given up, or try to connect. Each of them counts."""


def _events(tables: Tables, clock: Clock) -> dict[str, tuple[tuple[str, Spans], ...]]:
    wanted = pl.col("kind").cast(pl.String) != TRACE
    frame = tables.events().filter(wanted).select("place", "kind", "begin", "end").collect()
    groups = frame.partition_by("kind", "place", as_dict=True, maintain_order=True)
    found: dict[str, list[tuple[str, Spans]]] = {}
    for (kind, place), rows in groups.items():
        each = clock.of(rows.select("begin", "end").to_numpy())
        lasted = each if kind in EACH else spans(each)
        found.setdefault(str(kind), []).append((str(place), lasted))
    return {kind: tuple(places) for kind, places in found.items()}


def _range(requests: pl.DataFrame, stays: dict[str, Stays], samples: dict[tuple[str, str], Series]) -> tuple[int, int]:
    """Return the first and the last time seen of requests and visits; without those, return the times of samples."""
    firsts = [int(s.arrivals[0]) for s in stays.values() if len(s.arrivals)]
    lasts = [int(s.departures[-1]) for s in stays.values() if len(s.departures)]
    if len(requests):
        firsts.append(int(requests["sent"][0]))
        lasts.append(int(requests["end"].to_numpy().max()))
    if not firsts:
        firsts = [int(s.begin[0]) for s in samples.values() if len(s.begin)]
        lasts = [int(s.end[-1]) for s in samples.values() if len(s.end)]
    return (min(firsts), max(lasts)) if firsts else (0, 0)
