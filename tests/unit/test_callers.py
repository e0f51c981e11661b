"""Which server a caller is."""

from __future__ import annotations

import polars as pl
import pytest

from builders import requests, visits
from systems import MS, Memory
from tailrace.diagnosis.tables import _calling, look
from tailrace.topology import Server, Topology

FRONT, SIDE = Server(name="front", address="10.0.0.3:80"), Server(name="side", address="10.0.0.3:81")
SIX = Server(name="front", addresses=("[fd00::3]:80", "10.0.0.3:80"))


@pytest.mark.parametrize(
    ("servers", "caller", "found"),
    [
        ((FRONT,), "10.0.0.3", "front"),
        ((SIX,), "fd00::3", "front"),
        ((FRONT, SIDE), "10.0.0.3", None),
        ((FRONT,), "10.0.0.4", None),
        ((), "10.0.0.5", "10.0.0.5:80"),
    ],
    ids=["named", "by one of several addresses", "two on one host", "another host", "without a name"],
)
def test_a_host_with_one_server_is_that_server(servers: tuple[Server, ...], caller: str, found: str | None) -> None:
    stays = [*(server.name for server in servers), "10.0.0.5:80"]
    assert _calling(pl.Series([caller]), Topology(servers=servers), stays).get(caller) == found


def test_a_client_on_the_host_of_a_server_is_no_call_of_the_server_to_itself() -> None:
    tables = {"requests": requests({"server": "front"}), "visits": visits({"server": "front", "caller": "10.0.0.3"})}
    assert look(Memory(Topology(servers=(FRONT,)), tables), 50 * MS).calls == {}
