"""Joining hosts: clocks by causality, pairs of views, names, and what cannot be joined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from doors import run_folder, told
from tailrace import dataset
from tailrace.cli import perform
from tailrace.dataset import Dataset
from tailrace.errors import UsageError
from tailrace.join import clocks, join, names, tables
from tailrace.join.pairs import nearest, paired
from tailrace.join.tables import Tables
from tailrace.topology import Balancer, Node, Pool, Server, Topology

US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
T0 = 1_795_193_380 * SECOND


def views(
    count: int = 2_000,
    offset: int = 0,
    drift: float = 0.0,
    delay: int = 100 * US,
    period: int | None = None,
    seed: int = 1,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The same visits as the caller's host and as the server's host, whose clock is `offset` ahead, saw them."""
    draw = np.random.default_rng(seed)
    if period is None:
        arrival = T0 + np.sort(draw.integers(0, 100 * SECOND, count))
        lasted = draw.exponential(3 * MS, count).astype(np.int64) + MS
    else:
        arrival = T0 + period * np.arange(count)
        lasted = np.full(count, MS)
    out, back = (draw.integers(delay // 2, 2 * delay, count) for _ in range(2))
    there = arrival + out
    shown = there + offset + np.rint(drift * (there - T0)).astype(np.int64)

    def frame(arrivals: object, departures: object) -> pl.DataFrame:
        columns = {"visit": np.arange(count, dtype=np.uint64), "arrival": arrivals, "departure": departures}
        return pl.DataFrame(columns).with_columns(
            server=pl.lit("app"), status=pl.lit("ok"), bytes_in=pl.lit(100, pl.UInt64), bytes_out=pl.lit(5, pl.UInt64)
        )

    ours = frame(arrival, there + lasted + back)
    return ours, frame(shown, shown + lasted)


@pytest.mark.parametrize("offset", [0, 3 * SECOND, -7_200 * SECOND, 123_456])
@pytest.mark.parametrize("delay", [20 * US, 400 * US])
def test_the_bounds_hold_the_true_offset(offset: int, delay: int) -> None:
    found = clocks.offset(*views(offset=offset, delay=delay))
    assert found is not None
    assert abs(found.offset_ns + offset) <= found.bound_ns <= 2 * delay
    # Seen from the other host, the offset is the opposite.
    back = clocks.offset(*reversed(views(offset=offset, delay=delay)))
    assert back is not None
    assert abs(back.offset_ns - offset) <= back.bound_ns <= 2 * delay


def test_a_clock_that_drifts_is_followed() -> None:
    drift = 20e-6
    ours, theirs = views(offset=SECOND, drift=drift, delay=50 * US)
    found = clocks.offset(ours, theirs)
    assert found is not None
    assert found.drift == pytest.approx(-drift, rel=0.1)
    moved = theirs.with_columns(found.shift(pl.col("arrival")))
    late = (moved["arrival"] - ours["arrival"]).to_numpy()
    assert np.abs(late).max() < 300 * US


def test_requests_at_a_fixed_rate_leave_the_clock_unknown() -> None:
    assert clocks.offset(*views(offset=SECOND, period=10 * MS)) is None


def test_hosts_that_share_no_visit_leave_the_clock_unknown() -> None:
    ours, _ = views()
    _, theirs = views(seed=2)
    other = theirs.with_columns(server=pl.lit("db"))
    assert clocks.offset(ours, other) is None
    assert clocks.offset(ours, theirs.with_columns(bytes_in=pl.lit(7, pl.UInt64))) is None
    assert clocks.offset(ours.clear(), theirs) is None


def test_nearly_all_views_are_paired_and_pairs_are_right() -> None:
    ours, theirs = views(count=5_000)
    lost = theirs.filter(pl.col("visit") % 10 != 0)
    both = paired(ours, lost, 2 * MS)
    assert both.height > 0.98 * lost.height
    assert (both["visit"] == both["visit_other"]).mean() > 0.98  # type: ignore[operator]
    assert both["visit"].is_unique().all()
    assert both["visit_other"].is_unique().all()


def test_pairs_need_unknown_values_to_be_unknown_on_both_sides() -> None:
    rows = {"row": [0, 1], "place": ["a", None], "begin": [0, 0]}
    both = nearest(pl.DataFrame(rows), pl.DataFrame(rows), ("place",), "begin", 5, key="row")
    assert sorted(both.select("row", "row_other").rows()) == [(0, 0), (1, 1)]


def host(rows: list[dict[str, object]], requests: list[int]) -> Tables:
    """The tables of a host with these visits; what is left out is unknown."""
    plain = {"sent": T0, "arrival": T0, "departure": T0 + 1, "drops": 0, "data_drops": 0, "status": "ok"}
    schema = {
        name: pl.String() if kind == pl.Categorical else kind
        for table in ("visits", "requests", "samples", "events")
        for name, kind in dataset.TABLES[table].schema.items()
    }

    def frame(table: str, of: list[dict[str, object]]) -> pl.DataFrame:
        return pl.DataFrame(of, schema={name: schema[name] for name in dataset.TABLES[table].schema})

    asked = [{**plain, "request": number, "server": "web", "end": T0 + 1} for number in requests]
    return Tables(
        frame("visits", [{**plain, **row} for row in rows]),
        frame("requests", [{key: one[key] for key in one if key in schema} for one in asked]),
        frame("samples", []),
        frame("events", []),
    )


def test_a_caller_is_taken_from_the_host_that_saw_it() -> None:
    """The host of db saw that a server on another host called, and not which visit. Its calls belong to the request."""
    app = host(
        [
            {"visit": 1, "request": 5, "server": "app", "departure": T0 + 100 * MS},
            {"visit": 2, "parent": 1, "request": 5, "server": "db", "arrival": T0 + 10 * MS, "departure": T0 + 50 * MS},
        ],
        [5],
    )
    db = host(
        [
            {"visit": 1, "server": "db", "arrival": T0 + 10 * MS, "departure": T0 + 50 * MS},
            {"visit": 2, "parent": 1, "server": "disk", "arrival": T0 + 20 * MS, "departure": T0 + 40 * MS},
        ],
        [],
    )
    for first, second in ((app, db), (db, app)):
        joined, both = tables.join(first, second, MS)
        assert both == 1
        [root] = joined.requests["request"]
        assert joined.visits["request"].to_list() == [root] * 3
        names_of = dict(joined.visits.select("visit", "server").iter_rows())
        called = {row["server"]: names_of.get(row["parent"]) for row in joined.visits.iter_rows(named=True)}
        assert called == {"app": None, "db": "app", "disk": "db"}


WEB = Server(name="nginx", address="10.0.0.3:80", node="host")
CALLED = Server(name="10.0.0.4:80", address="10.0.0.4:80")
LOCAL = Server(name="redis", address="127.0.0.1:6379", node="host")
NODE = Node(name="host", cores=2, host="host")


def test_a_server_has_the_name_that_its_own_host_uses() -> None:
    a = Topology(nodes=(NODE,), servers=(WEB, CALLED, LOCAL), places={"host:80": "nginx"})
    there = Server(name="nginx", address="10.0.0.4:80", node="host")
    b = Topology(nodes=(NODE,), servers=(there, LOCAL))
    naming = names.of({"a": a, "b": b})
    assert naming.hosts["a"].servers == {"nginx": "nginx", "10.0.0.4:80": "b/nginx", "redis": "redis"}
    assert naming.hosts["b"].servers == {"nginx": "b/nginx", "redis": "b/redis"}
    joined = naming.topology(["a/process dd", "b", "b:80"])
    assert {server.name: server.node for server in joined.servers} == {
        "nginx": "a",
        "b/nginx": "b",
        "redis": "a",
        "b/redis": "b",
    }
    assert joined.places == {"a:80": "nginx"}
    # A process of one host is a neighbour there, and not on the other host.
    assert [(node.name, node.host) for node in joined.nodes if node.cores is None] == [("a/process dd", "a")]
    assert naming.hosts["b"].place("host") == "b"
    assert naming.hosts["b"].place("host:6379") == "b:6379"
    assert naming.hosts["b"].caller("client-3") == "b/client-3"


def test_pools_and_balancers_of_each_host_are_kept() -> None:
    there = Server(name="nginx", address="10.0.0.4:80", node="host")
    pool = Pool(name="to-app", caller="nginx", callee="10.0.0.4:80", size=4)
    balancer = Balancer(name="spread", server="nginx", candidates=("10.0.0.4:80", "redis"))
    a = Topology(nodes=(NODE,), servers=(WEB, CALLED, LOCAL), pools=(pool,), balancers=(balancer,))
    naming = names.of({"a": a, "b": Topology(nodes=(NODE,), servers=(there,))})
    joined = naming.topology(["a/to-app"])
    assert joined.pools == (Pool(name="a/to-app", caller="nginx", callee="b/nginx", size=4),)
    assert joined.balancers == (Balancer(name="a/spread", server="nginx", candidates=("b/nginx", "redis")),)


def test_what_cannot_be_joined_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_folder()
    with pytest.raises(UsageError, match="two or more"):
        join({"a": Dataset.open(run)}, tmp_path / "out")
    with dataset.create(tmp_path / "empty") as writer:
        writer.topology = Topology(servers=(WEB,))
    assert told("join", f"a={run}", f"b={tmp_path / 'empty'}", "-o", tmp_path / "out", "-q") == 2
    for words in ((f"a={run}", f"a={run}"), (run, tmp_path / "missing"), (f"host={run}", f"b={run}")):
        assert told("join", *words, "-o", tmp_path / "out", "-q") == 2
    assert told("join", f"a={run}", f"b={run}", "-o", run, "--overwrite", "-q") == 2
    assert not (tmp_path / "out").exists()
    assert "visits" in (run / "manifest.json").read_text()


def test_names_of_a_host_that_is_left_out_are_not_learned(tmp_path: Path) -> None:
    """It has a server of its own at the address that another host calls, and shares no visit."""
    run = Dataset.open(run_folder())
    called = next(one for one in run.topology.servers if one.address)
    bare = called.model_copy(update={"name": called.address, "node": None})
    renamed = Topology.model_validate_json(run.topology.model_dump_json().replace(f'"{called.name}"', f'"{bare.name}"'))
    servers = tuple(bare if one.name == bare.name else one for one in renamed.servers)
    with dataset.create(tmp_path / "ours") as writer:
        for name in ("visits", "requests"):
            rows = getattr(run, name)().with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()
            named = [one for one in ("server", "caller") if one in rows.columns]
            writer.write_table(name, rows.with_columns(pl.col(named).replace(called.name, bare.name)))
        writer.topology = renamed.model_copy(update={"servers": servers})
    with dataset.create(tmp_path / "stranger") as writer:
        writer.topology = Topology(
            nodes=(NODE,), servers=(Server(name="stranger", address=called.address, node="host"),)
        )
    runs = {"a": tmp_path / "ours", "b": tmp_path / "ours", "c": tmp_path / "stranger"}
    joined = join({host: Dataset.open(path) for host, path in runs.items()}, tmp_path / "out", leave_out=True)
    assert list(joined.left_out) == ["c"]
    known = {server.name for server in joined.run.topology.servers}
    assert "stranger" not in known
    assert set(joined.run.visits().collect()["server"].cast(pl.String).unique()) <= known


def test_a_run_that_is_joined_with_itself_stays_as_it_is(tmp_path: Path) -> None:
    run = run_folder()
    assert perform(["join", f"a={run}", f"b={run}", "-o", str(tmp_path / "out"), "-q", "--json"]) == 0
    before, after = Dataset.open(run), Dataset.open(tmp_path / "out")
    for table in ("visits", "requests"):
        assert after.manifest.rows[table] == before.manifest.rows[table]
