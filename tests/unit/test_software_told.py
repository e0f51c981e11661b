"""What a server runs, as a recording tells it: by the process that listened, the form of a log, protocol and name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace import experiment, topology
from tailrace.advise.software import chosen
from tailrace.cli import perform
from tailrace.dataset import Dataset
from tailrace.experiment import Experiment
from tailrace.readers.recording import _on_nodes, _with_software


def chain(**tiers: dict[str, Any]) -> Experiment:
    table: dict[str, Any] = {
        "tiers": {"front": {"calls": {"shop": {}}}, "shop": {"calls": {"store": {}}}, "store": {}},
        "interactions": {
            "page": {"at": {"front": {"compute": "1 ms", "calls": {"part": 1}}}},
            "part": {"at": {"shop": {"compute": "1 ms", "calls": {"query": 1}}}},
            "query": {"at": {"store": {"compute": "1 ms"}}},
        },
        "workloads": {"w": {"clients": 1, "interaction": "page"}},
    }
    for name, keys in tiers.items():
        table["tiers"][name] |= keys
    return experiment.from_table(table)


@pytest.mark.parametrize(
    ("process", "lines"),
    [
        ("nginx", ("nginx",)),
        ("apache2", ("apache",)),
        ("httpd", ("apache",)),
        ("haproxy", ("haproxy",)),
        ("mariadbd", ("mysql",)),
        ("mysqld", ("mysql",)),
        ("postgres", ("postgresql",)),
        ("php-fpm8.2", ("php-fpm",)),
        ("gunicorn", ("gunicorn",)),
        ("java", ("jvm",)),
        ("own-program", ()),
    ],
)
def test_the_process_that_listens_tells_the_software_whatever_the_server_is_called(
    process: str, lines: tuple[str, ...]
) -> None:
    assert chosen(chain(), {}, {}, {"shop": process})["shop"] == lines


def test_a_protocol_tells_it_too_and_only_apache_calls_by_ajp() -> None:
    found = chosen(chain(), {}, {"front": "http", "shop": "ajp", "store": "mysql"})
    assert found == {"front": ("apache", "mod_jk"), "shop": ("tomcat", "jvm"), "store": ("mysql",)}
    with_process = chosen(chain(), {}, {"shop": "ajp"}, {"front": "apache2", "shop": "java"})
    assert with_process["front"] == ("apache", "mod_jk")


def test_what_the_user_says_goes_before_what_was_recorded() -> None:
    found = chosen(chain(), {"shop": "tomcat,hikaricp"}, {"shop": "http"}, {"shop": "nginx"})
    assert found["shop"] == ["tomcat", "hikaricp"]


def test_a_recording_names_the_processes_of_servers_that_the_user_named() -> None:
    known = topology.from_table(
        {"servers": [{"name": "web", "address": "10.0.0.1:80"}, {"name": "app", "address": "10.0.0.2:8080"}]}
    )
    state = {"servers": {"nginx": ["10.0.0.1:80"], "shop/java:8080": ["10.0.0.2:8080"], "sshd": ["10.0.0.1:22"]}}
    found = _with_software(known, state)
    assert {server.name: server.software for server in found.servers} == {"web": "nginx", "app": "java"}
    assert _with_software(known, {}) == known


LOGS = Path(__file__).parents[1] / "golden/readers/accesslog"


@pytest.mark.parametrize(
    ("log", "software"),
    [
        ("haproxy.log", "haproxy"),
        ("haproxy-tcp.log", "haproxy"),
        ("envoy.log", "envoy"),
        ("uwsgi.log", "uwsgi"),
        ("php-fpm.log", "php-fpm"),
        ("nginx-timed.log", None),
    ],
)
def test_a_log_that_only_one_program_writes_names_it(log: str, software: str | None, tmp_path: Path) -> None:
    """nginx and Apache write the same lines."""
    assert perform(["read", f"web={LOGS / log}", "-o", str(tmp_path / "run"), "--quiet"]) == 0
    server = Dataset.open(tmp_path / "run").topology.server("web")
    assert server is not None
    assert server.software == software


def test_a_twin_keeps_the_software_of_its_tiers_for_the_advice(tmp_path: Path) -> None:
    folder = str(tmp_path / "twin")
    run = str(Path(__file__).parents[1] / "golden/real/sync")
    assert perform(["twin", run, "-o", folder, "--quiet", "--software", "app=gunicorn"]) == 0
    repeated = experiment.read(folder)
    assert {name: tier.runs for name, tier in repeated.tiers.items()} == {
        "web": ("apache", "mod_jk"),
        "app": ("gunicorn",),
        "db": ("mysql",),
    }
    assert chosen(repeated, {}, {})["app"] == ("gunicorn",)
    assert perform(["twin", run, "-o", folder, "--quiet", "--software", "app=unknown", "--overwrite"]) == 2
    assert perform(["twin", run, "-o", folder, "--quiet", "--software", "app", "--overwrite"]) == 2


def test_a_pool_of_database_connections_is_no_database() -> None:
    protocols = {"shop": "postgres", "store": "postgres"}
    found = chosen(chain(), {}, protocols)
    assert (found["shop"], found["store"]) == ((), ("postgresql",))


def test_a_program_that_listens_for_another_says_nothing() -> None:
    assert chosen(chain(), {}, {"store": "mysql"}, {"store": "docker-proxy"})["store"] == ("mysql",)
    assert chosen(chain(), {}, {"store": "mysql"}, {"store": "8.0.11-TiDB-v7.5.0"})["store"] == ()


def server(name: str, address: str) -> topology.Server:
    return topology.Server(name=name, address=address)


def test_a_server_at_a_loopback_address_is_on_the_node_that_listens_there() -> None:
    """Each network namespace has these addresses."""
    shared = ["127.0.0.1", "::1"]
    nodes = [
        {"name": "host", "cores": 2, "addresses": [*shared, "10.0.0.1"]},
        {"name": "box", "cores": 2, "addresses": [*shared, "10.0.0.2"]},
    ]
    servers = (
        server("web", "127.0.0.1:80"),
        server("app", "10.0.0.2:8080"),
        server("cache", "[::1]:6379"),
        server("other", "127.0.0.1:99"),
    )
    found = _on_nodes(topology.Topology(servers=servers), nodes, ["host:80", "box:8080", "box:6379"])
    assert {one.name: one.node for one in found.servers} == {
        "web": "host",
        "app": "box",
        "cache": "box",
        "other": "host",
    }
    assert found.places == {"host:80": "web", "box:8080": "app", "box:6379": "cache"}
