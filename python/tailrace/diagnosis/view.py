"""What the steps look at: the tables of a Dataset, read once, as sorted columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import polars as pl

from tailrace.dataset import Connections
from tailrace.diagnosis.demand import LEAST_BESIDE, SEEN, Demand, costs_of, demand
from tailrace.diagnosis.queues import NOBODY, Stays, Times
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.spans import Spans, spans
from tailrace.topology import Topology


class Tables(Protocol):
    """What of a `tailrace.dataset.Dataset` the diagnosis reads."""

    @property
    def topology(self) -> Topology: ...
    @property
    def connections(self) -> Connections: ...
    def requests(self) -> pl.LazyFrame: ...
    def visits(self) -> pl.LazyFrame: ...
    def samples(self) -> pl.LazyFrame: ...
    def events(self) -> pl.LazyFrame: ...


def _together(used: tuple[Series, ...]) -> Series:
    """The sum of them, at the times of the first."""
    first = used[0]
    middle = (first.begin + first.end) // 2
    return replace(first, value=np.sum([series.at(middle) for series in used], axis=0))


@dataclass(frozen=True)
class View:
    begin: int
    end: int
    window_ns: int
    requests: pl.DataFrame
    """Finished requests in the order of `sent`, with `response_ns`; `twice`: whether its client sent it because an
    earlier one had no answer yet (hedged); and `given_up`: whether its client stopped waiting for any answer."""
    lossy: pl.DataFrame
    """Visits that lost a connection attempt or a segment on their way, in the order of `sent`."""
    stays: dict[str, Stays]
    """Server → who is inside."""
    calls: dict[str, dict[str, Stays]]
    """Caller → callee → the calls of the one to the other, from the first attempt on: who waits for a lost packet to be
    sent again waits for the callee."""
    samples: dict[tuple[str, str], Series]
    """(place, metric) → values."""
    events: dict[str, tuple[tuple[str, Spans], ...]]
    """Kind → (place, when)."""
    topology: Topology
    visits: pl.LazyFrame
    connections: Connections
    """What became of connections that are no visit."""

    @cached_property
    def servers(self) -> tuple[str, ...]:
        """The nearest to the clients first."""
        return tuple(sorted(self.stays, key=lambda name: (self.depth[name], name)))

    @cached_property
    def depth(self) -> dict[str, int]:
        """Longest way from a server that no server calls (1), as `Topology.tier`; a cycle counts once."""
        depth = dict.fromkeys(self.stays, 1)
        for _ in self.stays:
            for caller, callees in self.calls.items():
                for callee in callees:
                    if callee != caller and depth[caller] < len(self.stays):
                        depth[callee] = max(depth[callee], depth[caller] + 1)
        return depth

    @cached_property
    def saw_connections(self) -> bool:
        """Whether the recording could have seen a lost connection attempt: it saw others, or when connections opened,
        or kernels counted."""
        if len(self.lossy) or bool((self.requests["drops"] > 0).any()):
            return True
        if any(metric == "listen_drops" for _, metric in self.samples):
            return True
        return bool(self.requests["connected"].is_not_null().any())

    @cached_property
    def sent(self) -> Times:
        return self.requests["sent"].to_numpy()

    @cached_property
    def sent_for_good(self) -> Times:
        """Those whose client did not give up: of what is sent twice, or again after a timeout, one at most."""
        return self.requests.filter(pl.col("status").cast(pl.String).ne_missing("abandoned"))["sent"].to_numpy()

    def longest_stays(self, requests: pl.DataFrame) -> list[str | None]:
        """For each request the server in which it spent the most time, less its calls to servers behind; None where no
        visit is linked to it."""
        longest = self._own_times(requests).sort("own").group_by("request", maintain_order=True).last()
        joined = requests.select("request").join(longest, on="request", how="left", maintain_order="left")
        return joined["server"].to_list()

    def _own_times(self, requests: pl.DataFrame) -> pl.DataFrame:
        """Of each visit of these requests its server, and what it took there (`own`) less the calls that it made."""
        rows = (
            self.visits.filter(pl.col("request").is_in(requests["request"].implode()))
            .select("request", "visit", "parent", pl.col("server").cast(pl.String), "sent", "arrival", "departure")
            .collect()
        )
        calls = rows.group_by("parent").agg(called=(pl.col("departure") - pl.col("sent")).sum())
        own = pl.col("departure") - pl.col("arrival") - pl.col("called").fill_null(0)
        return rows.join(calls, left_on="visit", right_on="parent", how="left").select("request", "server", own=own)

    def lost_between(self, begin: int, end: int) -> pl.DataFrame:
        """Visits whose first, lost packet was sent from `begin` to `end`."""
        sent = self.lossy["sent"].to_numpy()
        first = int(np.searchsorted(sent, begin))
        return self.lossy[first : int(np.searchsorted(sent, end, "right"))]

    def asked(self, server: str) -> Stays:
        """Requests of the clients that may come to the server, those whose packets are lost and not yet sent again
        included."""
        if server not in self._asked:
            own = self.asking(server)
            self._asked[server] = Stays.of(own["sent"].to_numpy(), own["end"].to_numpy())
        return self._asked[server]

    def asking(self, server: str) -> pl.DataFrame:
        """These requests, in the order of `sent`: of systems that are recorded side by side, its own, and of
        interactions that are seen to come to it; all, where nobody is known to call it."""
        if server not in self._asking:
            others = [s for s in self.stays if s != server and server not in self.downstream_of(s)]
            elsewhere = set().union(*self._interactions.values()) - self._interactions.get(server, set())
            own = self.requests.filter(
                ~pl.col("server").cast(pl.String).is_in(others),
                ~pl.col("interaction").cast(pl.String).fill_null("").is_in(list(elsewhere)),
            )
            self._asking[server] = self.requests if own.is_empty() else own
        return self._asking[server]

    def demand(self, server: str, by: str, calm: Spans) -> Demand:
        """What the requests that may come to a server ask of another, or of itself; `calm` is the same throughout a
        diagnosis."""
        if (server, by) not in self._demands:
            if not self._costs:
                self._costs.update(costs_of(self.requests, self._own_times, calm, self.window_ns))
            self._demands[server, by] = demand(self.asking(server), self._costs.get(by, {}), calm)
        return self._demands[server, by]

    def wanted(self, server: str) -> Times:
        """When these requests were sent, but of those that were sent twice the first alone: their clients do not want
        more."""
        if server not in self._wanted:
            asking = self.asking(server)
            self._wanted[server] = asking["sent"].filter(~asking["twice"]).to_numpy()
        return self._wanted[server]

    @cached_property
    def _wanted(self) -> dict[str, Times]:
        return {}

    def served(self, server: str) -> pl.DataFrame:
        """Visits to the server: when a worker took them (`start`; where nobody knows, when they arrived), for how long
        (`served_ns`), and for how long usually those of their interaction (`usual_ns`, the median), of which there are
        `LEAST_BESIDE` at least."""
        if server not in self._served:
            start = pl.col("start").fill_null(pl.col("arrival"))
            rows = (
                self.visits.filter(pl.col("server").cast(pl.String) == server, pl.col("interaction").is_not_null())
                .select("interaction", start=start, served_ns=pl.col("departure") - start)
                .filter(pl.len().over("interaction") >= LEAST_BESIDE)
            )
            usual = pl.col("served_ns").median().over("interaction")
            self._served[server] = rows.select("start", "served_ns", usual_ns=usual).collect()
        return self._served[server]

    @cached_property
    def _served(self) -> dict[str, pl.DataFrame]:
        return {}

    @cached_property
    def _asked(self) -> dict[str, Stays]:
        return {}

    @cached_property
    def _demands(self) -> dict[tuple[str, str], Demand]:
        return {}

    @cached_property
    def _costs(self) -> dict[str, dict[str, float]]:
        return {}

    @cached_property
    def _asking(self) -> dict[str, pl.DataFrame]:
        return {}

    @cached_property
    def _interactions(self) -> dict[str, set[str]]:
        """Server → interactions of which any of the first `SEEN` requests came to it."""
        known = self.requests.filter(pl.col("interaction").is_not_null())
        if known["interaction"].n_unique() < 2:
            return {}
        first = known.group_by("interaction").head(SEEN).select("request", pl.col("interaction").cast(pl.String))
        rows = (
            self.visits.select("request", pl.col("server").cast(pl.String))
            .join(first.lazy(), on="request")
            .select("server", "interaction")
            .unique()
            .collect()
        )
        parts = rows.partition_by("server", as_dict=True)
        return {str(name): set(part["interaction"]) for (name,), part in parts.items()}

    @cached_property
    def direct(self) -> dict[str, Stays]:
        """Server → the requests that clients sent to it."""
        groups = self.requests.partition_by("server", as_dict=True)
        return {
            str(name): Stays.of(rows["sent"].to_numpy(), rows["end"].to_numpy()) for (name,), rows in groups.items()
        }

    def callers_of(self, server: str) -> tuple[str, ...]:
        return tuple(caller for caller, callees in self.calls.items() if server in callees and caller != server)

    def callees_of(self, server: str) -> tuple[str, ...]:
        return tuple(callee for callee in self.calls.get(server, {}) if callee != server)

    def downstream_of(self, server: str) -> set[str]:
        reached = list(self.callees_of(server))
        for name in reached:  # grows while it is walked: breadth first
            reached.extend(callee for callee in self.callees_of(name) if callee not in reached and callee != server)
        return set(reached)

    def chain_of(self, server: str) -> set[str]:
        """The server with everything behind it and everything that leads to it."""
        return {server} | self.downstream_of(server) | {s for s in self.stays if server in self.downstream_of(s)}

    def own_queue(self, server: str, times: Times) -> Times:
        """Requests inside the server that do not wait for a server behind it."""
        own = self.stays[server].queue(times)
        for callee, stays in self.calls.get(server, {}).items():
            if callee != server:
                own = own - stays.queue(times)
        return np.maximum(own, 0)

    def events_of(self, *kinds: str) -> tuple[tuple[str, Spans], ...]:
        return tuple(item for kind in kinds for item in self.events.get(kind, ()))

    @cached_property
    def sampled_places(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place for place, _ in self.samples))

    def places_of(self, server: str) -> tuple[str, ...]:
        """Places of samples and events that mean this server or the node it runs on."""
        if server not in self._places:
            self._places[server] = tuple(place for place in self.sampled_places if self.means(place, server))
        return self._places[server]

    @cached_property
    def _places(self) -> dict[str, tuple[str, ...]]:
        return {}

    def means(self, place: str, server: str) -> bool:
        found = self.topology.place_to_server(place)
        if place == server or (found is not None and found.name == server):
            return True
        known = self.topology.server(server)
        node = self.topology.place_to_node(place)
        # A place that is another server's name means that server, though they share the node.
        return found is None and node is not None and known is not None and known.node == node.name

    def is_known(self, place: str) -> bool:
        """Whether a place means a server or node of the topology, or a server that was seen."""
        return place in self.stays or bool(self.topology.place_to_server(place) or self.topology.place_to_node(place))

    def series(self, server: str, metric: str) -> tuple[Series, ...]:
        """Of the server itself; of its node where only that was sampled: a node's CPU is used by others, too."""
        found = [(p, self.samples[p, metric]) for p in self.places_of(server) if (p, metric) in self.samples]
        own = tuple(series for place, series in found if self.is_own(place, server))
        return own or tuple(series for _, series in found)

    def beside(self, server: str) -> tuple[Series, ...]:
        """The CPU use of all servers of its node, its own among them."""
        node = self.topology.node_of(server)
        return tuple(
            series
            for other in (self.topology.servers_on(node.name) if node is not None else ())
            for series in self.series(other.name, "cpu_busy")
            if self.is_own(series.place, other.name)
        )

    def shared_cpu(self, server: str) -> tuple[Series, ...]:
        """What the servers of its node use of the CPU together, as one series; none where it is alone there."""
        used, node = self.beside(server), self.topology.node_of(server)
        return (replace(_together(used), place=node.name if node else used[0].place),) if len(used) > 1 else ()

    @cached_property
    def cpu_of_way(self) -> dict[str, tuple[Series, ...]]:
        """Server → the CPU use of itself and of those on its node that work for the same requests, as one series: where
        they share a CPU they fill it together, though none may fill it alone."""
        found = {}
        for server in self.servers:
            way = self.chain_of(server)
            used = tuple(s for s in self.beside(server) if any(self.is_own(s.place, name) for name in way))
            found[server] = (_together(used),) if len(used) > 1 else self.series(server, "cpu_busy")
        return found

    def is_own(self, place: str, server: str) -> bool:
        """Whether a place is the server itself, and not the node that it shares."""
        return self.means(place, server) and (place == server or self.topology.node(place) is None)

    def elsewhere(self, metric: str) -> tuple[Series, ...]:
        """Series of places that mean nothing in the topology: cores, disks, the host as a whole, other tenants."""
        return tuple(s for (place, name), s in self.samples.items() if name == metric and not self.is_known(place))

    def throttled(self, server: str, begin: int, end: int) -> float:
        """Share of that time in which a server's quota held it back; 0 where that was not sampled."""
        return max((series.mean(begin, end) or 0.0 for series in self.series(server, "cpu_throttled")), default=0.0)

    def of_host(self, server: str, metric: str) -> Series | None:
        """Of the host that the server's node is on."""
        node = self.topology.node_of(server)
        return self.samples.get((node.host, metric)) if node is not None and node.host else None

    def around(self, server: str, metric: str) -> tuple[Series, ...]:
        """Of the host that the server's node is on; where that was not sampled, of all `elsewhere` but other hosts."""
        host = self.of_host(server, metric)
        hosts = {node.host for node in self.topology.nodes}
        return (host,) if host is not None else tuple(s for s in self.elsewhere(metric) if s.place not in hosts)


def look(tables: Tables, window_ns: int) -> View:
    requests = _requests(tables)
    stays, calls, lossy = _visits(tables)
    samples = _samples(tables)
    events = _events(tables)
    begin, end = _range(requests, stays, samples)
    return View(
        begin,
        end,
        window_ns,
        requests,
        lossy,
        stays,
        calls,
        samples,
        events,
        tables.topology,
        tables.visits(),
        tables.connections,
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
    """Marks the second of two that are one request: its client gave up one, when the other was answered, or both."""
    of_one = ("client", "interaction")
    unanswered = pl.col("sent") < pl.col("end").shift(1).over(of_one)
    one_of_two = pl.col("given_up") | pl.col("given_up").shift(1).over(of_one)
    twice = (pl.col("client").is_not_null() & unanswered & one_of_two).fill_null(False)
    answered = (pl.col("twice") & ~pl.col("given_up")).shift(-1).over(of_one).fill_null(False)
    return requests.with_columns(twice=twice).with_columns(given_up=pl.col("given_up") & ~pl.col("twice") & ~answered)


def _visits(tables: Tables) -> tuple[dict[str, Stays], dict[str, dict[str, Stays]], pl.DataFrame]:
    lazy = tables.visits()
    lossy = (
        lazy.filter((pl.col("drops") > 0) | (pl.col("data_drops") > 0))
        .select("request", "server", "caller", "sent", "arrival", "departure", "drops", "data_drops")
        .with_columns(pl.col("server", "caller").cast(pl.String))
        .collect()
        .sort("sent")
    )
    groups = (
        _inside_from(lazy)
        .select("server", "caller", "sent", "arrival", "departure")
        .collect()
        .partition_by("server", "caller", as_dict=True)
    )
    stays: dict[str, Stays] = {}
    for (server, _), rows in groups.items():
        _add(stays, str(server), rows["arrival"], rows["departure"])
    calls: dict[str, dict[str, Stays]] = {}
    for (server, caller), rows in groups.items():
        name = _server_of(None if caller is None else str(caller), tables.topology, stays)
        if name is not None:
            _add(calls.setdefault(name, {}), str(server), rows["sent"], rows["departure"])
    return stays, calls, lossy


def _inside_from(visits: pl.LazyFrame) -> pl.LazyFrame:
    """Visits whose first data was lost, as it is while the accept queue is full, arrive when they make their first
    call: the client sends again and again, for seconds after the server works as usual, on a connection of which the
    server does not know. When it took the data is not recorded; it was before that call, and before it answered."""
    repeated = visits.filter(pl.col("data_drops") > 0).select("visit")
    first = visits.join(repeated, left_on="parent", right_on="visit", how="semi").group_by("parent")
    first_call = first.agg(first_call=pl.col("sent").min())
    known = visits.join(first_call, left_on="visit", right_on="parent", how="left")
    inside = pl.max_horizontal("arrival", pl.min_horizontal("first_call", "departure"))
    called = pl.col("first_call").is_not_null()
    return known.with_columns(arrival=pl.when(called).then(inside).otherwise(pl.col("arrival")))


def _server_of(caller: str | None, topology: Topology, stays: dict[str, Stays]) -> str | None:
    """The server that calls, where the caller is named as one or by the host it alone runs on."""
    if caller is None or caller in stays:
        return caller
    server = topology.place_to_server(caller)
    if server is not None and server.name in stays:
        return server.name
    alone = [name for name in stays if name.rpartition(":")[0].strip("[]") == caller]
    return alone[0] if len(alone) == 1 else None


def _add(known: dict[str, Stays], server: str, begins: pl.Series, ends: pl.Series) -> None:
    more = known.get(server, NOBODY)
    begin, end = begins.to_numpy(), ends.to_numpy()
    known[server] = Stays.of(np.concatenate((more.arrivals, begin)), np.concatenate((more.departures, end)))


def _samples(tables: Tables) -> dict[tuple[str, str], Series]:
    frame = tables.samples().filter(pl.col("value").is_not_nan()).collect()
    groups = frame.partition_by("place", "metric", as_dict=True, maintain_order=True)
    found = {}
    for (place, metric), rows in groups.items():
        end = rows["time"].to_numpy()
        begin = end - rows["interval_ns"].to_numpy()
        found[str(place), str(metric)] = Series(str(place), str(metric), begin, end, rows["value"].to_numpy())
    return found


def _events(tables: Tables) -> dict[str, tuple[tuple[str, Spans], ...]]:
    frame = tables.events().select("place", "kind", "begin", "end").collect()
    groups = frame.partition_by("kind", "place", as_dict=True, maintain_order=True)
    found: dict[str, tuple[tuple[str, Spans], ...]] = {}
    for (kind, place), rows in groups.items():
        found[str(kind)] = (*found.get(str(kind), ()), (str(place), spans(rows.select("begin", "end").to_numpy())))
    return found


def _range(requests: pl.DataFrame, stays: dict[str, Stays], samples: dict[tuple[str, str], Series]) -> tuple[int, int]:
    """From the first to the last thing seen of requests; of samples where there are no requests."""
    firsts = [int(s.arrivals[0]) for s in stays.values() if len(s.arrivals)]
    lasts = [int(s.departures[-1]) for s in stays.values() if len(s.departures)]
    if len(requests):
        firsts.append(int(requests["sent"][0]))
        lasts.append(int(requests["end"].to_numpy().max()))
    if not firsts:
        firsts = [int(s.begin[0]) for s in samples.values() if len(s.begin)]
        lasts = [int(s.end[-1]) for s in samples.values() if len(s.end)]
    return (min(firsts), max(lasts)) if firsts else (0, 0)
