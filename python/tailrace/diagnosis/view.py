"""A view holds what the steps read: the tables of a Dataset, read once, as sorted columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.dataset import Connections
from tailrace.diagnosis.callers import Callers
from tailrace.diagnosis.clock import REAL, Clock
from tailrace.diagnosis.constants import MOMENTS, REPEATED_NS
from tailrace.diagnosis.queues import Crowds, Stays, Times, together
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.spans import Spans, spans
from tailrace.topology import Node, Topology

Machine = tuple[str, str]
"""It holds `node` or `host`, and the name."""


def _machines(node: Node) -> tuple[Machine, ...]:
    return (("node", node.name), *((("host", node.host),) if node.host is not None else ()))


def _together(used: tuple[Series, ...]) -> Series:
    """Return the sum of the series, at the times of the first at which all of them were sampled."""
    first = used[0]
    middle = (first.begin + first.end) // 2
    whole = np.sum([series.at(middle) for series in used], axis=0)
    known = ~np.isnan(whole)
    return replace(first, begin=first.begin[known], end=first.end[known], value=whole[known])


@dataclass(frozen=True)
class View:
    begin: int
    end: int
    window_ns: int
    requests: pl.DataFrame
    """These are the finished requests in the order of `sent`, with `response_ns`. `twice` shows whether the client sent
    the request because an earlier one had no answer yet (hedging). `given_up` shows whether the client stopped waiting
    for any answer."""
    lossy: pl.DataFrame
    """These visits lost a connection attempt or a segment on their way. They are in the order of `sent`."""
    stays: dict[str, Stays]
    """This maps each server to the stays inside it."""
    calls: dict[str, dict[str, Stays]]
    """This maps each caller and callee to the calls between them. A call begins with its first attempt: a caller that
    waits for a retransmission waits for the callee."""
    samples: dict[tuple[str, str], Series]
    """This maps (place, metric) to the sampled values."""
    events: dict[str, tuple[tuple[str, Spans], ...]]
    """This maps each kind of event to pairs of a place and its intervals."""
    topology: Topology
    visits: pl.LazyFrame
    callers: dict[str, str]
    """This maps each recorded name of a caller, such as its address, to the server that it is."""
    connections: Connections
    """This shows what happened to the connections that are not visits."""
    inferred_losses: bool = False
    """The inputs show lost attempts indirectly, and no input saw packets."""
    clock: Clock = REAL
    """All times here are on this clock. It runs very slowly while nothing happens."""
    idle: Spans = field(default_factory=lambda: spans([]))
    """These are the idle times that remain on the clock. They do not count as usual times."""

    def moment(self, time: int) -> int:
        """Return a moment in real time, relative to the begin of the recording."""
        return self.clock.real(time) - self.begin

    @cached_property
    def servers(self) -> tuple[str, ...]:
        """Return the servers, the nearest to the clients first."""
        return tuple(sorted(self.stays, key=lambda name: (self.depth[name], name)))

    @property
    def depth(self) -> dict[str, int]:
        return self._callers.depth

    @cached_property
    def _callers(self) -> Callers:
        return Callers(self.stays, self.calls)

    def kept(self, server: str) -> float:
        """Return the share of the server's visits that a sampler kept."""
        known = self.topology.server(server)
        return known.kept if known is not None and known.kept is not None else 1.0

    @cached_property
    def saw_connections(self) -> bool:
        """Return whether the recording could show a lost connection attempt. It could if it shows other losses, or when
        connections opened, or if kernels counted drops. Losses that inputs show indirectly do not count: they are times
        to connect at a schedule, and other inputs of this kind have longer times that prove nothing."""
        if not self.inferred_losses and (len(self.lossy) or bool((self.requests["drops"] > 0).any())):
            return True
        if any(metric == "listen_drops" for _, metric in self.samples):
            return True
        return bool(self.requests["connected"].is_not_null().any())

    @cached_property
    def sent(self) -> Times:
        return self.requests["sent"].to_numpy()

    def longest_stays(self, requests: pl.DataFrame) -> list[str | None]:
        """Return for each request the server in which it spent the most time, less its calls to servers behind. The
        entry is None where no visit is linked to the request."""
        longest = self._own_times(requests).sort("own").group_by("request", maintain_order=True).last()
        joined = requests.select("request").join(longest, on="request", how="left", maintain_order="left")
        return joined["server"].to_list()

    def _own_times(self, requests: pl.DataFrame) -> pl.DataFrame:
        """Return for each visit of these requests its server, and the time it took there less the calls that it made
        (`own`)."""
        rows = (
            self.visits.filter(pl.col("request").is_in(requests["request"].implode()))
            .select("request", "visit", "parent", pl.col("server").cast(pl.String), "sent", "arrival", "departure")
            .collect()
        )
        calls = rows.group_by("parent").agg(called=(pl.col("departure") - pl.col("sent")).sum())
        own = pl.col("departure") - pl.col("arrival") - pl.col("called").fill_null(0)
        return rows.join(calls, left_on="visit", right_on="parent", how="left").select("request", "server", own=own)

    def lost_between(self, begin: int, end: int) -> pl.DataFrame:
        """Return the visits whose first packet was lost and was sent from `begin` to `end`."""
        sent = self.lossy["sent"].to_numpy()
        first = int(np.searchsorted(sent, begin))
        return self.lossy[first : int(np.searchsorted(sent, end, "right"))]

    def asked(self, server: str) -> Stays:
        """Return the client requests that may come to the server. They include requests whose packets are lost and not
        yet sent again."""
        if server not in self._asked:
            own = self.asking(server)
            self._asked[server] = Stays.of(own["sent"].to_numpy(), own["end"].to_numpy())
        return self._asked[server]

    def asking(self, server: str) -> pl.DataFrame:
        """Return these requests in the order of `sent`. Where systems are recorded side by side, only the requests of
        the server's own system count. Interactions that were seen to come only to other servers do not count. If no
        request is left, all requests count."""
        if server not in self._asking:
            others = list(self.stays.keys() - self._callers.above(server) - {server})
            elsewhere = set().union(*self._interactions.values()) - self._interactions.get(server, set())
            own = self.requests.filter(
                ~pl.col("server").cast(pl.String).is_in(others),
                ~pl.col("interaction").cast(pl.String).fill_null("").is_in(list(elsewhere)),
            )
            self._asking[server] = self.requests if own.is_empty() else own
        return self._asking[server]

    @cached_property
    def _asked(self) -> dict[str, Stays]:
        return {}

    @cached_property
    def _asking(self) -> dict[str, pl.DataFrame]:
        return {}

    @cached_property
    def _interactions(self) -> dict[str, set[str]]:
        """Return for each server the interactions that come to it: any of their first `MOMENTS` requests came to it."""
        known = self.requests.filter(pl.col("interaction").is_not_null())
        if known["interaction"].n_unique() < 2:
            return {}
        first = known.group_by("interaction").head(MOMENTS).select("request", pl.col("interaction").cast(pl.String))
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
        """Return for each server the requests that clients sent to it."""
        groups = self.requests.partition_by("server", as_dict=True)
        return {
            str(name): Stays.of(rows["sent"].to_numpy(), rows["end"].to_numpy()) for (name,), rows in groups.items()
        }

    def callers_of(self, server: str) -> tuple[str, ...]:
        return self._callers.of(server)

    def callees_of(self, server: str) -> tuple[str, ...]:
        return self._callers.called_by(server)

    def downstream_of(self, server: str) -> frozenset[str]:
        return self._callers.below(server)

    def chain_of(self, server: str) -> frozenset[str]:
        """Return the server, everything behind it and everything that leads to it."""
        return self.downstream_of(server) | self._callers.above(server) | {server}

    def own_queue(self, server: str, times: Times) -> Times:
        """Return the number of requests inside the server that do not wait for a server behind it."""
        own: Times = self.stays[server].queue(times) - self.called(server).queue(times)
        return np.maximum(own, 0)

    def called(self, server: str) -> Stays:
        """Return all calls of the server to others."""
        if server not in self._called:
            calls = [stays for callee, stays in self.calls.get(server, {}).items() if callee != server]
            self._called[server] = calls[0] if len(calls) == 1 else together(calls)
        return self._called[server]

    @cached_property
    def _called(self) -> dict[str, Stays]:
        return {}

    @cached_property
    def crowds(self) -> Crowds:
        return Crowds.of(self.stays)

    def events_of(self, *kinds: str) -> tuple[tuple[str, Spans], ...]:
        return tuple(item for kind in kinds for item in self.events.get(kind, ()))

    @cached_property
    def sampled_places(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place for place, _ in self.samples))

    def places_of(self, server: str) -> tuple[str, ...]:
        """Return the places of samples and events that mean this server or the node on which it runs."""
        return tuple(self._places.get(server, ()))

    @cached_property
    def _places(self) -> dict[str, list[str]]:
        """Return the places that mean each server, by the rule of `means`."""
        found: dict[str, list[str]] = {}
        for place in self.sampled_places:
            server, node = self.topology.place_to_server(place), self.topology.place_to_node(place)
            alike = self.topology.servers_on(node.name) if server is None and node is not None else ()
            for name in dict.fromkeys((place, *((server.name,) if server else ()), *(one.name for one in alike))):
                found.setdefault(name, []).append(place)
        return found

    def means(self, place: str, server: str) -> bool:
        found = self.topology.place_to_server(place)
        if place == server or (found is not None and found.name == server):
            return True
        known = self.topology.server(server)
        node = self.topology.place_to_node(place)
        # A place with the name of another server means that server, even if they share the node.
        return found is None and node is not None and known is not None and known.node == node.name

    def is_known(self, place: str) -> bool:
        """Return whether a place means a server or node of the topology, or a server that was seen."""
        return place in self.stays or bool(self.topology.place_to_server(place) or self.topology.place_to_node(place))

    def series(self, server: str, metric: str) -> tuple[Series, ...]:
        """Return the series of the server itself, or of its node where only the node was sampled. Other servers use the
        CPU of a node, too."""
        found = [(p, self.samples[p, metric]) for p in self.places_of(server) if (p, metric) in self.samples]
        own = tuple(series for place, series in found if self.is_own(place, server))
        return own or tuple(series for _, series in found)

    def refusals_of(self, server: str) -> tuple[Series, ...]:
        """Return the counts of connections that the server's kernel refused because a queue was full: the accept queue,
        or that of connections whose handshake has not ended. Where these are not counted apart, return the counts of
        all connections that it dropped. There, Linux also counts a connection that it cannot answer because it has no
        route."""
        overflows, half_open = (self.series(server, name) for name in ("listen_overflows", "syn_queue_drops"))
        return overflows + half_open if overflows else self.series(server, "listen_drops")

    @cached_property
    def failed_calls(self) -> pl.DataFrame:
        """Return the server, the status and the departure of the calls that failed."""
        called = [server for server in self.stays if self.callers_of(server)]
        server, status = pl.col("server", "status").cast(pl.String), pl.col("status").cast(pl.String)
        of_servers = pl.col("parent").is_not_null() | pl.col("request").is_null()  # Others are requests of clients.
        failed = self.visits.filter(pl.col("server").cast(pl.String).is_in(called), of_servers, status != "ok")
        return failed.select(server, "departure").collect().sort("departure")

    def is_asked_for_names(self, server: str) -> bool:
        """Return whether a server answers queries for names (DNS). They come over UDP, which repeats nothing."""
        known = self.topology.server(server)
        return known is not None and known.protocol == "dns"

    def may_refuse(self, server: str, first: Times, last: Times) -> NDArray[np.bool_]:
        """Return for packets that were sent from `first` to `last` whether the server's kernel may have refused one: it
        counted a refusal around this time, or nothing was counted then. It counts some time after a packet was sent,
        and the clock of the samples may be off by as much as one of them lasts."""
        known, counted = np.zeros(len(first), dtype=bool), np.zeros(len(first))
        for series in self.refusals_of(server):
            before = np.concatenate(([0.0], np.cumsum(series.value)))
            begin = np.searchsorted(series.end, first - series.interval_ns, "right")
            end = np.searchsorted(series.begin, last + series.interval_ns + REPEATED_NS)
            known |= end > begin
            counted += before[np.maximum(begin, end)] - before[begin]
        return np.asarray(~known | (counted > 0))

    @cached_property
    def refusals(self) -> dict[str, tuple[Series, ...]]:
        """Return these counts for each server that has any."""
        return {server: found for server in self.stays if (found := self.refusals_of(server))}

    def beside(self, server: str) -> tuple[Series, ...]:
        """Return the CPU use of all servers of its node, including its own."""
        node = self.topology.node_of(server)
        return tuple(
            series
            for other in (self.topology.servers_on(node.name) if node is not None else ())
            for series in self.series(other.name, "cpu_busy")
            if self.is_own(series.place, other.name)
        )

    def shared_cpu(self, server: str) -> tuple[Series, ...]:
        """Return the CPU use of all servers of its node together, as one series. The result is empty where the server
        is alone."""
        used, node = self.beside(server), self.topology.node_of(server)
        return (replace(_together(used), place=node.name if node else used[0].place),) if len(used) > 1 else ()

    @cached_property
    def cpu_of_way(self) -> dict[str, tuple[Series, ...]]:
        """Return for each server the CPU use of itself and of the servers on its node that work for the same requests,
        as one series. Where they share a CPU they can fill it together, even if none of them fills it alone."""
        found = {}
        for server in self.servers:
            way = self.chain_of(server)
            used = tuple(s for s in self.beside(server) if any(self.is_own(s.place, name) for name in way))
            found[server] = (_together(used),) if len(used) > 1 else self.series(server, "cpu_busy")
        return found

    def is_own(self, place: str, server: str) -> bool:
        """Return whether a place is the server itself, and not the node that it shares."""
        return self.means(place, server) and (place == server or self.topology.node(place) is None)

    def elsewhere(self, metric: str) -> tuple[Series, ...]:
        """Return the series of places that mean nothing in the topology: cores, disks, the host as a whole, other
        tenants."""
        return self._elsewhere.get(metric, ())

    def everywhere(self, metric: str) -> tuple[Series, ...]:
        """Return the series of all places."""
        return self._by_metric.get(metric, ())

    @cached_property
    def _by_metric(self) -> dict[str, tuple[Series, ...]]:
        found: dict[str, list[Series]] = {}
        for (_, metric), series in self.samples.items():
            found.setdefault(metric, []).append(series)
        return {metric: tuple(its) for metric, its in found.items()}

    @cached_property
    def _elsewhere(self) -> dict[str, tuple[Series, ...]]:
        return {
            metric: tuple(series for series in its if not self.is_known(series.place))
            for metric, its in self._by_metric.items()
        }

    def near(self, server: str, metric: str) -> Iterator[Series]:
        """Return the series of places that may be on the server's machine: on its node, on another node of its host,
        or on an unknown one."""
        here = self.topology.node_of(server)
        if here is None:
            yield from self.everywhere(metric)
            return
        rows = {row: one for key in (None, *_machines(here)) for row, one in self._by_machine.get((metric, key), ())}
        yield from (rows[row] for row in sorted(rows))

    @cached_property
    def _by_machine(self) -> dict[tuple[str, Machine | None], list[tuple[int, Series]]]:
        """Return the series of each metric, with their order, by the node and by the host of their places. The key
        None has those of unknown machines."""
        found: dict[tuple[str, Machine | None], list[tuple[int, Series]]] = {}
        for row, ((place, metric), series) in enumerate(self.samples.items()):
            node = self.node_of_place(place)
            for key in (None,) if node is None else _machines(node):
                found.setdefault((metric, key), []).append((row, series))
        return found

    def node_of_place(self, place: str) -> Node | None:
        server = self.topology.place_to_server(place)
        return self.topology.node_of(server.name) if server is not None else self.topology.place_to_node(place)

    def of_host(self, server: str, metric: str) -> Series | None:
        """Return the series of the host that the server's node is on."""
        node = self.topology.node_of(server)
        return self.samples.get((node.host, metric)) if node is not None and node.host else None

    def around(self, server: str, metric: str) -> tuple[Series, ...]:
        """Return the series of the host that the server's node is on. Where that host was not sampled, return all
        `elsewhere` except those of other hosts."""
        host = self.of_host(server, metric)
        hosts = {node.host for node in self.topology.nodes}
        return (host,) if host is not None else tuple(s for s in self.elsewhere(metric) if s.place not in hosts)
