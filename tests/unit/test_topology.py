"""topology.toml: known keys, no guesses, and errors that name the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace import topology
from tailrace.errors import InputError
from tailrace.topology import Balancer, Call, Clock, Node, Pool, Server, Topology

WHOLE = Topology(
    nodes=(Node(name="n1", address="10.0.0.3", cores=2), Node(name="n2", address="fe80::1")),
    servers=(
        Server(name="web", address="10.0.0.3:80", node="n1", tier=1, kind="sync", workers=150, queue_max=278),
        Server(name="app", address="[fe80::1]:8009", node="n2", protocol="ajp"),
        Server(name="db", address="10.0.0.3:3306", node="n1"),
    ),
    calls=(Call(caller="web", callee="app", visits_mean=1.0), Call(caller="app", callee="db")),
    pools=(Pool(name="jdbc", caller="app", callee="db", size=50),),
    balancers=(Balancer(name="lb", server="web", candidates=("app",), policy="requests"),),
    clocks=(Clock(capture="web.pcap", offset_ns=0), Clock(capture="app.pcap", offset_ns=-1200, bound_ns=30_000)),
    places={"tomcat.slice": "app", "host7": "n1"},
    cpus={"tomcat.slice": (0, 3)},
)


def test_written_and_read_back_is_the_same(tmp_path: Path) -> None:
    topology.write(WHOLE, tmp_path / "topology.toml")
    assert topology.read(tmp_path / "topology.toml") == WHOLE
    assert "backlog" not in (tmp_path / "topology.toml").read_text(), "the unknown is left out"


def test_the_call_graph_is_walked_nearest_first() -> None:
    assert WHOLE.callees_of("web") == ("app",)
    assert WHOLE.callers_of("db") == ("app",)
    assert WHOLE.downstream_of("web") == ("app", "db")
    loop = Topology(
        servers=(Server(name="a"), Server(name="b")), calls=(Call(caller="a", callee="b"), Call(caller="b", callee="a"))
    )
    assert loop.downstream_of("a") == ("b",)


@pytest.mark.parametrize(
    ("place", "server", "node"),
    [
        ("web", "web", "n1"),
        ("tomcat.slice", "app", "n2"),
        ("10.0.0.3:3306", "db", "n1"),
        ("host7", None, "n1"),  # two servers there: which one is not guessed
        ("n2", "app", "n2"),
        ("fe80::1", "app", "n2"),
        ("core1", None, None),
    ],
)
def test_places_mean_servers_and_nodes_by_mapping_name_or_address(
    place: str, server: str | None, node: str | None
) -> None:
    found, where = WHOLE.place_to_server(place), WHOLE.place_to_node(place)
    assert (found.name if found else None) == server
    assert (where.name if where else None) == node


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (
            {"servers": [{"name": "a"}, {"name": "b", "workers": -1}]},
            "topology.toml: servers[1].workers must be a whole number above 0, got -1",
        ),
        ({"servers": [{"name": "a", "workers": 1.5}]}, "servers[0].workers must be a whole number, got 1.5"),
        ({"servers": [{"name": "a", "workers": True}]}, "servers[0].workers must be a whole number, got True"),
        ({"servers": [{"workers": 1}]}, "servers[0].name is missing"),
        ({"servers": [{"name": ""}]}, "servers[0].name must be text that is not empty, got ''"),
        ({"servers": [{"name": "a", "colour": "red"}]}, "servers[0].colour is not a known key"),
        ({"servers": [{"name": "a", "kind": "odd"}]}, 'servers[0].kind must be "sync" or "async", got \'odd\''),
        ({"servers": [{"name": "a", "address": "web:80"}]}, "servers[0].address must be ip:port"),
        ({"servers": [{"name": "a", "address": "1.2.3.4:99999"}]}, "servers[0].address must be ip:port"),
        ({"servers": "web"}, "servers must be a list of tables, got 'web'"),
        ({"nodes": [{"name": "a", "address": "host"}]}, "nodes[0].address must be an IP address, got 'host'"),
        ({"servers": [{"name": "a"}, {"name": "a"}]}, "servers must have different names, got 'a' twice"),
        (
            {"servers": [{"name": "a", "node": "x"}]},
            "servers[0].node must be the name of a node (there is none), got 'x'",
        ),
        (
            {"servers": [{"name": "a"}], "calls": [{"caller": "a", "callee": "b"}]},
            "calls[0].callee must be the name of a server (a), got 'b'",
        ),
        ({"places": {"x": "y"}}, "places.x must be the name of a server or node (there is none), got 'y'"),
        ({"clocks": [{"capture": "a", "offset_ns": "1"}]}, "clocks[0].offset_ns must be a whole number of nanoseconds"),
        ({"clocks": [{"capture": "a", "offset_ns": 1, "bound_ns": -1}]}, "bound_ns must be a whole number of nanosec"),
        ({"sevrers": []}, "sevrers is not a known key"),
    ],
)
def test_errors_name_the_key_and_what_it_must_be(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        topology.from_table(table)
    assert sentence in str(caught.value)


def test_a_missing_or_invalid_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        topology.read(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("servers = [")
    with pytest.raises(InputError, match="not TOML"):
        topology.read(bad)
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        topology.read(bad)


def test_the_json_schema_lists_the_tables() -> None:
    assert {"nodes", "servers", "calls", "places"} <= set(topology.json_schema()["properties"])
