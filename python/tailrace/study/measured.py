"""A run folder in the form that measures use: the measured interval (after the ramp), with names of tiers for groups of
servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from tailrace import timeline
from tailrace.dataset import Dataset
from tailrace.errors import UsageError
from tailrace.experiment import Experiment, places
from tailrace.toml import wrong_name
from tailrace.units import MILLISECOND

WINDOW = 50 * MILLISECOND


@dataclass(frozen=True)
class Measured:
    dataset: Dataset
    experiment: Experiment
    begin: int
    """The end of the ramp, ns since the Unix epoch."""
    end: int
    early: Mapping[str, int] = field(default_factory=dict)
    """Requests to each server that were answered within the interval and are in no table, because they were sent before
    the recording (simulated runs only)."""

    @property
    def length(self) -> int:
        return self.end - self.begin

    def servers(self, place: str | None) -> tuple[str, ...]:
        """The servers that a place means: a server, or all of a tier. None: the first tier that receives client
        requests."""
        name = place or places.entries(self.experiment)[0]
        if name in self.experiment.tiers:
            return places.server_names(name, self.experiment.tiers[name])
        return (name,)

    def one_of(self, place: str, server: str) -> str:
        """The server, which must be one of the place's."""
        if server not in self.servers(place):
            raise UsageError(wrong_name("server", server, self.servers(place), f"server of {place}"))
        return server

    def requests(self, place: str | None = None) -> pl.DataFrame:
        """Requests sent to a place within the interval: `sent`, `response` (ns), `ok`, `drops`, `interaction`.

        They are counted from the client's view: a request and its hedge are one, and so are a page and the objects that
        it embeds and fetches afterwards, unless these are apart (`embedded_apart`). A repetition by the client is a new
        request, unless all workloads count it with the first (`retried_as_one`).
        """
        return self._asked(place).filter(self._within("sent"))

    def answered(self, place: str | None = None) -> int:
        """Requests to a place that were answered within the interval, whenever they were sent."""
        came = pl.col("sent") + pl.col("response")
        within = self._asked(place).filter("ok", came.is_between(self.begin, self.end, closed="left")).height
        return within + sum(self.early.get(server, 0) for server in self.servers(place))

    def _asked(self, place: str | None) -> pl.DataFrame:
        """All recorded requests to a place."""
        servers = self.servers(place)
        if servers not in self._requests:
            rows = (
                self.dataset.requests()
                .filter(pl.col("server").cast(pl.String).is_in(servers))
                .select(
                    "sent",
                    "end",
                    "client",
                    ok=pl.col("status").cast(pl.String) == "ok",
                    drops=pl.col("drops").cast(pl.Int64) + pl.col("data_drops"),
                    interaction=pl.col("interaction").cast(pl.String),
                )
            )
            if any(workload.hedge for workload in self.experiment.workloads.values()):
                rows = _with_hedges(rows)
            if self._retried:
                rows = _with_repetitions(rows, self._retried)
            if self._apart:
                rows = rows.filter(~self._is_embedded)
            elif self._embedded:
                rows = _pages(rows, self._is_embedded)
            columns = ("sent", "ok", "drops", "interaction")
            self._requests[servers] = rows.select(*columns, response=pl.col("end") - pl.col("sent")).collect()
        return self._requests[servers]

    def visits(self, place: str, interaction: str | None = None) -> pl.LazyFrame:
        """Visits that arrived at a place within the interval, without visits for embedded objects that are apart
        (`embedded_apart`). With an `interaction`, only those that its requests caused."""
        servers = self.servers(place)
        found = self.dataset.visits().filter(pl.col("server").cast(pl.String).is_in(servers), self._within("arrival"))
        if interaction:
            asked = self.dataset.requests().filter(pl.col("interaction").cast(pl.String) == interaction)
            found = found.join(asked.select("request"), on="request", how="semi")
        return found.filter(~self._is_embedded) if self._apart else found

    def assigned(self, place: str) -> pl.LazyFrame:
        """Visits to a place by their callers' logs: `server`, and the caller's `parent`, `start` and `departure`.
        Raises UsageError if no visit has a `start`, as in captures."""
        calls = self.visits(place).select("parent", "server")
        callers = self.dataset.visits().filter(pl.col("start").is_not_null())
        every, started = self.dataset.visits().select(pl.len(), started=pl.col("start").count()).collect().row(0)
        if every and not started:
            raise UsageError("when callers took requests is not recorded, so that nothing says what they assigned")
        return calls.join(callers.select("start", "departure", parent="visit"), on="parent")

    @cached_property
    def _retried(self) -> set[int]:
        """How long after a failure a repetition comes that counts with it."""
        return {load.retry_pause for load in self.experiment.workloads.values() if load.retries and load.retried_as_one}

    @cached_property
    def _embedded(self) -> set[str]:
        return {name for workload in self.experiment.workloads.values() for name in workload.embedded}

    @property
    def _is_embedded(self) -> pl.Expr:
        return pl.col("interaction").cast(pl.String).is_in(sorted(self._embedded)).fill_null(value=False)

    @property
    def _apart(self) -> bool:
        return any(workload.embedded_apart and workload.embedded for workload in self.experiment.workloads.values())

    def samples(self, place: str, metric: str) -> pl.DataFrame:
        """`time`, `place`, `value` of a metric at a server, all servers of a tier, or a node.

        A metric that was sampled at a server's node only, such as the clock rate, is taken from there. Raises
        UsageError if nothing was sampled.
        """
        servers = self.servers(place)
        nodes = [server.node for server in self.dataset.topology.servers if server.name in servers and server.node]
        for names in (servers, nodes):
            found = self._samples_at(names, metric)
            if not found.is_empty():
                return found
        raise UsageError(f"{metric} was not sampled at {place}{self._known_samples(place, metric)}")

    def _samples_at(self, names: Sequence[str], metric: str) -> pl.DataFrame:
        at = pl.col("place").cast(pl.String)
        return (
            self.dataset.samples()
            .filter(at.is_in(names), pl.col("metric").cast(pl.String) == metric, self._within("time", last=True))
            .select("time", "value", place=at)
            .collect()
        )

    def events(self, place: str | None, kind: str) -> pl.DataFrame:
        """`place`, `begin`, `end` of events that began within the interval; of all places by default."""
        at = pl.col("place").cast(pl.String)
        here = pl.lit(value=True) if place is None else at.is_in(self.servers(place))
        return (
            self.dataset.events()
            .filter(here, pl.col("kind").cast(pl.String) == kind, self._within("begin"))
            .select("begin", "end", place=at)
            .collect()
        )

    def windows(self, window: int = WINDOW) -> pl.DataFrame:
        """The exact windows of every server within the interval, `server` as text."""
        if window not in self._windows:
            begin, end = self.begin, self.end
            try:
                frame = timeline.windows(
                    self.dataset, window, begin=begin, end=end, percentiles=False, idle=None, threads=1
                )
            except ValueError as error:
                raise UsageError(str(error)) from error
            self._windows[window] = frame.with_columns(pl.col("server").cast(pl.String))
        return self._windows[window]

    def windows_of(self, place: str, window: int = WINDOW) -> pl.DataFrame:
        found = self.windows(window).filter(pl.col("server").is_in(self.servers(place)))
        if found.is_empty():
            known = self.windows(window)["server"].unique().to_list()
            raise UsageError(wrong_name("place", place, {*known, *self.experiment.tiers}, "server or tier with visits"))
        return found

    def _within(self, column: str, last: bool = False) -> pl.Expr:
        """Samples are named by their end, which may equal the interval's end and not its begin."""
        return pl.col(column).is_between(self.begin, self.end, closed="right" if last else "left")

    def _known_samples(self, place: str, metric: str) -> str:
        names = self.dataset.samples().select(pl.col("place", "metric").cast(pl.String)).unique().collect()
        metrics = sorted(names.filter(pl.col("place").is_in(self.servers(place)))["metric"].to_list())
        if metrics:
            return f"; there: {', '.join(metrics)}"
        if names.is_empty():
            return ", nor was anything: sampling.interval is 0"
        return f"; places that were: {', '.join(sorted(set(names['place'].to_list())))}"

    @cached_property
    def _requests(self) -> dict[tuple[str, ...], pl.DataFrame]:
        return {}

    @cached_property
    def _windows(self) -> dict[int, pl.DataFrame]:
        return {}


def _with_hedges(rows: pl.LazyFrame) -> pl.LazyFrame:
    """A client sends a hedge while its first request is under way, and nothing else at that time. The first answer
    counts, and the other request is abandoned."""
    ended = pl.col("end").cum_max().shift(1).over("client")
    return (
        rows.sort("client", "sent", "end", maintain_order=True)
        .with_columns(first=(pl.col("sent") >= ended).fill_null(value=True))
        .with_columns(number=pl.col("first").cum_sum().over("client"))
        .group_by("client", "number", maintain_order=True)
        .agg(
            pl.col("sent", "interaction").first(),
            pl.col("end").filter("ok").min().fill_null(pl.col("end").max()),
            pl.col("ok").any(),
            pl.col("drops").sum(),
        )
        .drop("number")
    )


def _with_repetitions(rows: pl.LazyFrame, pauses: set[int]) -> pl.LazyFrame:
    """A client repeats what failed after exactly the pause; any other request is a new one."""
    again = (
        (pl.col("sent") - pl.col("end").shift(1).over("client")).is_in(sorted(pauses))
        & ~pl.col("ok").shift(1).over("client")
        & (pl.col("interaction") == pl.col("interaction").shift(1).over("client"))
    )
    return (
        rows.sort("client", "sent", maintain_order=True)
        .with_columns(number=(~again.fill_null(value=False)).cum_sum().over("client"))
        .group_by("client", "number", maintain_order=True)
        .agg(pl.col("sent", "interaction").first(), pl.col("end", "ok").last(), pl.col("drops").sum())
        .drop("number")
    )


def _pages(rows: pl.LazyFrame, embedded: pl.Expr) -> pl.LazyFrame:
    """Pages with what they embed; an object whose page is not recorded belongs to none."""
    return (
        rows.sort("client", "sent", maintain_order=True)
        .with_columns(page=(~embedded).cum_sum().over("client"))
        .filter(pl.col("page") > 0)
        .group_by("client", "page", maintain_order=True)
        .agg(pl.col("sent", "interaction").first(), pl.col("end").max(), pl.col("ok").all(), pl.col("drops").sum())
    )
