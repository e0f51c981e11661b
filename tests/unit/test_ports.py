"""A server that listens on several ports is one server, if it does not call itself."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import builders
from tailrace import dataset
from tailrace.dataset import Connections, Dataset
from tailrace.readers import ports
from tailrace.readers.decoding import Decoding
from tailrace.topology import Call, Server, Topology, known_servers

STATE = {
    "servers": {"nginx:80": ["10.0.0.3:80", "127.0.0.1:80"], "nginx:443": ["10.0.0.3:443"], "nginx:8080": []},
    "together": {"nginx": {"nginx:80": "host:80", "nginx:443": "host:443", "nginx:8080": "host:8080"}},
}
WEB = Server(name="nginx:80", address="10.0.0.3:80", protocol="opaque", software="nginx")
TLS = Server(name="nginx:443", address="10.0.0.3:443", protocol="http", software="nginx")
APP = Server(name="java", address="10.0.0.3:8009", protocol="ajp")
CALLS = (
    Call(caller="nginx:80", callee="java", visits_mean=1.0),
    Call(caller="nginx:443", callee="java", visits_mean=0.5),
)


VISITS = (
    ("java", "nginx:80"),
    ("nginx:80", "client-1"),
    ("java", "nginx:80"),
    ("nginx:80", "client-1"),
    ("java", "nginx:80"),
    ("nginx:80", "client-2"),
    ("nginx:443", "client-3"),
)
SAMPLES = tuple(
    {"place": place, "metric": metric}
    for place in ("host:80", "host:443", "host:8080", "host")
    for metric in ("cpu_busy", "accept_queue")
)


def together(folder: Path, topology: Topology) -> tuple[Topology, dict[str, list[str]], Connections]:
    """The topology, by table and column the names that the tables hold, and the connections."""
    with dataset.create(folder / "run") as writer:
        writer.write_table("visits", builders.visits(*({"server": to, "caller": by} for to, by in VISITS)))
        writer.write_table("samples", builders.samples(*SAMPLES))
        counts = {"attempts": 2, "under_way_longest_ns": 7}
        servers = {"nginx:80": counts, "nginx:443": {"attempts": 3}, "java": {}}
        writer.connections = Connections.from_table({"servers": servers})
        found = ports.together(writer, topology, ports.of_state(STATE, (), ()))
        writer.topology, connections = found, writer.connections
    run = Dataset.open(folder / "run")
    run.validate(checksums=True)
    visits, samples = (
        rows.with_columns(pl.col(pl.Categorical).cast(pl.String)).collect() for rows in (run.visits(), run.samples())
    )
    columns = {name: visits[name].to_list() for name in ("server", "caller")}
    of = {metric: samples.filter(metric=metric)["place"].to_list() for metric in ("cpu_busy", "accept_queue")}
    return found, {**columns, **of}, connections


def test_the_ports_of_a_server_get_one_name(tmp_path: Path) -> None:
    topology, columns, connections = together(tmp_path, Topology(servers=(WEB, TLS, APP), calls=CALLS))
    nginx = topology.server("nginx")
    assert nginx is not None
    assert (nginx.address, nginx.addresses) == ("10.0.0.3:80", ("10.0.0.3:80", "10.0.0.3:443"))
    assert (nginx.protocol, nginx.software, nginx.tier) == ("http", "nginx", 1)
    assert {server.name for server in topology.servers} == {"nginx", "java"}
    [call] = topology.calls
    assert (call.caller, call.callee, call.visits_mean) == ("nginx", "java", (3 * 1.0 + 1 * 0.5) / 4)
    assert set(columns["server"]) == {"nginx", "java"}
    assert columns["caller"] == ["nginx", "client-1", "nginx", "client-1", "nginx", "client-2", "client-3"]
    # All ports are places of the server, and what its processes use counts once.
    assert dict(topology.places) == {"host:80": "nginx", "host:443": "nginx", "host:8080": "nginx"}
    assert columns["cpu_busy"] == ["host:80", "host"]
    assert columns["accept_queue"] == ["host:80", "host:443", "host:8080", "host"]
    counts = connections.servers["nginx"]
    assert (counts.attempts, counts.under_way_longest_ns) == (5, 7)


def test_ports_that_call_each_other_stay_apart(tmp_path: Path) -> None:
    through = (Call(caller="nginx:80", callee="java"), Call(caller="java", callee="nginx:443"))
    for number, calls in enumerate([(Call(caller="nginx:80", callee="nginx:443"),), through]):
        folder = tmp_path / str(number)
        folder.mkdir()
        topology, columns, _ = together(folder, Topology(servers=(WEB, TLS, APP), calls=calls))
        assert {server.name for server in topology.servers} == {"nginx:80", "nginx:443", "java"}
        assert set(columns["server"]) == {"nginx:80", "nginx:443", "java"}
        assert len(columns["cpu_busy"]) == 4


def test_a_port_with_requests_beside_idle_ones_has_the_name_of_the_server(tmp_path: Path) -> None:
    topology, columns, _ = together(tmp_path, Topology(servers=(TLS,)))
    nginx = topology.server("nginx")
    assert nginx is not None
    assert (nginx.address, nginx.addresses) == ("10.0.0.3:443", None)
    assert columns["cpu_busy"] == ["host:443", "host"]


@pytest.mark.parametrize(
    "words",
    [({"nginx:443"}, set()), ({"host:8080"}, set()), (set(), {"10.0.0.3:443"})],
    ids=["name", "place", "address"],
)
def test_a_name_of_the_user_wins(words: tuple[set[str], set[str]]) -> None:
    assert ports.of_state(STATE, set(), set())
    assert ports.of_state(STATE, *words) == []


def test_a_name_that_another_server_has_is_not_used_twice(tmp_path: Path) -> None:
    other = Server(name="nginx", address="10.0.0.3:8888")
    topology, _, _ = together(tmp_path, Topology(servers=(WEB, TLS, APP, other), calls=CALLS))
    assert {server.name for server in topology.servers} == {"nginx", "nginx:80", "java"}


def test_a_topology_names_all_addresses_of_a_server_in_captures() -> None:
    given = Topology(servers=(Server(name="web", address="10.0.0.3:80", addresses=("10.0.0.3:80", "10.0.0.3:443")),))
    known = known_servers({}, given)
    further = {"web": given.servers[0].all_addresses[1:]}
    assert Decoding(known, further=further).options()["servers"] == {"web": ["10.0.0.3:80", "10.0.0.3:443"]}
    at = given.place_to_server("10.0.0.3:443")
    assert at is not None
    assert at.name == "web"
