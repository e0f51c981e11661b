"""Servers that listen on several ports: the recorder saw which ports the same processes hold.

The packets of each port are decoded on their own, because two ports may speak two protocols, and a proxy may call
itself through another port. Then the ports of a server get one name: `nginx:80` and `nginx:443` become `nginx`.

Ports stay apart where calls lead from one to the other, directly or through other servers: they would call themselves.
They also stay apart if the user calls one of them by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import polars as pl

from tailrace.dataset import TABLES, Connections, Writer, scan, tables
from tailrace.dataset.merging import written
from tailrace.topology import Call, Server, Topology, distances

OF_PORTS = ("accept_queue", "accept_queue_limit")
"""What is sampled of each port. All other metrics of a listener are those of its processes."""


@dataclass(frozen=True)
class Ports:
    """A server, and for each of its ports the name that the port has on its own and the place of its samples."""

    name: str
    places: Mapping[str, str]

    def sorted(self) -> Iterator[str]:
        """The names of the ports, the lowest port first."""
        return iter(sorted(self.places, key=lambda name: (int(self.places[name].rpartition(":")[2]), name)))


def of_state(state: Mapping[str, Any], used: Collection[str], given: Collection[str]) -> list[Ports]:
    """What the recorder saw, without servers of which the user has named a port. `used`: names that the user uses;
    `given`: addresses to which the user gave names."""
    named = {str(name) for name, addresses in dict(state.get("servers", {})).items() if set(addresses) & set(given)}
    found = [
        Ports(str(name), {str(port): str(place) for port, place in places.items()})
        for name, places in dict(state.get("together", {})).items()
    ]
    return [one for one in found if not {*one.places, *one.places.values()}.intersection({*used, *named})]


def together(writer: Writer, topology: Topology, servers: Collection[Ports]) -> Topology:
    """Give the ports of each server one name, in the tables and in the topology that they show."""
    visits = _visits(writer) if servers else {}
    names: dict[str, str] = {}
    repeated: set[str] = set()
    places: dict[str, str] = {}
    for ports in servers:
        seen = [name for name in ports.sorted() if topology.server(name)]
        kept = _apart_from_themselves(topology, seen)
        is_whole = kept == seen
        if not kept or (len(kept) == 1 and not is_whole):
            continue
        taken = topology.server(ports.name) is not None and ports.name not in kept
        name = ports.name if is_whole and not taken else kept[0]
        its = [ports.places[one] for one in (ports.sorted() if is_whole else kept)]
        first = ports.places[kept[0]]
        repeated |= {place for place in its if place != first}
        places |= dict.fromkeys(its, name)
        own = dict.fromkeys(kept, name)
        topology = _merged(topology, own, visits)
        visits[name] = sum(visits.pop(one, 0) for one in kept)
        names |= own
    _rename(writer, {old: new for old, new in names.items() if old != new})
    _keep_once(writer, repeated)
    return topology.model_copy(update={"places": {**topology.places, **places}})


def _visits(writer: Writer) -> dict[str, int]:
    path = writer.folder / TABLES["visits"].file
    if not path.exists():
        return {}
    counted = scan(path).group_by(pl.col("server").cast(pl.String)).len().collect(engine="streaming")
    return dict(counted.iter_rows())


def _apart_from_themselves(topology: Topology, names: Collection[str]) -> list[str]:
    """Those of which none calls another, also not through other servers."""
    kept: list[str] = []
    for name in names:
        below = topology.downstream_of(name)
        if not any(one in below or name in topology.downstream_of(one) for one in kept):
            kept.append(name)
    return kept


def _merged(topology: Topology, names: Mapping[str, str], visits: Mapping[str, int]) -> Topology:
    """The topology with the servers of `names` as one."""
    its = [server for server in topology.servers if server.name in names]
    busiest_first = sorted(its, key=lambda server: -visits.get(server.name, 0))
    spoken = [one.protocol for one in busiest_first if one.protocol]
    addresses = tuple(dict.fromkeys(address for one in its for address in one.all_addresses))
    one = its[0].model_copy(
        update={
            "name": next(iter(names.values())),
            "addresses": addresses if len(addresses) > 1 else None,
            "protocol": next((name for name in spoken if name != "opaque"), next(iter(spoken), None)),
            "software": next((server.software for server in busiest_first if server.software), None),
        }
    )
    servers = [one, *(server for server in topology.servers if server.name not in names)]
    calls = _calls(topology.calls, names, visits)
    tiers = distances([server.name for server in servers], ((call.caller, call.callee) for call in calls))
    tiered: list[Server] = [server.model_copy(update={"tier": tiers[server.name]}) for server in servers]
    ordered = tuple(sorted(tiered, key=lambda server: (server.tier or 0, server.name)))
    return topology.model_copy(update={"servers": ordered, "calls": calls})


def _calls(calls: Collection[Call], names: Mapping[str, str], visits: Mapping[str, int]) -> tuple[Call, ...]:
    """The calls of one server to another, with the mean of all its visits."""
    found: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        found.setdefault((names.get(call.caller, call.caller), names.get(call.callee, call.callee)), []).append(call)
    of_ports = sum(visits.get(name, 0) for name in names)
    made = []
    for (caller, callee), its in sorted(found.items()):
        known = [(call.visits_mean, visits.get(call.caller, 0)) for call in its if call.visits_mean is not None]
        all_visits = of_ports if caller in names.values() else visits.get(caller, 0)
        mean = sum(mean * count for mean, count in known) / all_visits if known and all_visits else None
        made.append(Call(caller=caller, callee=callee, visits_mean=mean))
    return tuple(made)


def _rename(writer: Writer, names: Mapping[str, str]) -> None:
    if not names:
        return
    for table, columns in (("visits", ("server", "caller")), ("requests", ("server",)), ("events", ("place",))):
        _change(writer, table, partial(_renamed, columns=columns, names=names))
    writer.connections = _connections(writer.connections, names)


def _renamed(frame: pl.DataFrame, columns: Collection[str], names: Mapping[str, str]) -> pl.DataFrame:
    called = [pl.col(column).cast(pl.String).replace(names).cast(pl.Categorical) for column in columns]
    return frame.with_columns(called)


def _keep_once(writer: Writer, repeated: Collection[str]) -> None:
    """What the processes of a server do was sampled at each of its ports. It stays at one of them."""
    if repeated:
        place, metric = pl.col("place").cast(pl.String), pl.col("metric").cast(pl.String)
        own = metric.is_in(OF_PORTS) | ~place.is_in(list(repeated))
        _change(writer, "samples", lambda frame: frame.filter(own))


def _change(writer: Writer, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Write a table again. It is never in memory as a whole."""
    path = writer.folder / TABLES[table].file
    if path.exists():
        tables.write_each((change(part.collect()) for part in written(path)), path)


def _connections(known: Connections, names: Mapping[str, str]) -> Connections:
    table = known.to_table()
    servers: dict[str, dict[str, int | None]] = {}
    for server, counts in table["servers"].items():
        its = servers.setdefault(names.get(server, server), {})
        for key, count in counts.items():
            both = [value for value in (its.get(key), count) if value is not None]
            its[key] = (max(both) if key == "under_way_longest_ns" else sum(both)) if both else None
    apart = []
    for row in known.apart:
        to: dict[str, int] = {}
        for server, count in row.to.items():
            to[names.get(server, server)] = to.get(names.get(server, server), 0) + count
        apart.append({**asdict(row), "to": to})
    return Connections.from_table({"servers": servers, "apart": apart})
