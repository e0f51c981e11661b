"""Experiment files: their content, their defaults, and the errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace import experiment
from tailrace.errors import TailraceError
from tailrace.experiment import layout, places, truth
from tailrace.sim.lowering import lower

SMALL: dict[str, Any] = {
    "tiers": {
        "web": {"software": "apache", "calls": ["app"]},
        "app": {"software": "tomcat", "calls": ["db"]},
        "db": {"software": "mysql"},
    },
    "workloads": {"steady": {"clients": 100}},
}


def written(folder: Path, text: str, name: str = "experiment.toml") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return written(
        tmp_path,
        """
        [tiers]
        web = { software = "apache", calls = ["app"] }
        app = { software = "tomcat", calls = ["db"] }
        db = { software = "mysql" }
        [workloads.steady]
        clients = 100
        """,
    )


def test_what_is_left_out_has_the_papers_value() -> None:
    found = experiment.from_table(SMALL)
    assert [found.tiers[name].workers for name in ("web", "app", "db")] == [150, 165, 100]
    assert found.tiers["web"].calls["app"].pool == 50
    assert found.tiers["web"].calls["app"].pool_per == ("process", "candidate")
    assert (found.tiers["app"].calls["db"].pool, found.tiers["app"].calls["db"].for_visit) == (50, True)
    assert found.kernel.syn == "linux-2.6.32"
    assert found.sampling.interval == 50_000_000
    assert experiment.to_table(found)["workloads"]["steady"]["think"] == "7 s"


@pytest.mark.parametrize(
    ("tier", "workers", "light_queue"),
    [
        ({"software": "nginx"}, None, 65535),
        ({"software": "xmysql"}, 8, 2000),
        ({"software": "xtomcat"}, 0, 65535),
        ({"software": "tomcat", "kind": "async"}, None, 65535),
        ({"software": "mysql", "kind": "bounded"}, 8, 2000),
        ({"kind": "async", "light_queue": 10}, None, 10),
        ({"software": "apache", "workers": 300}, 300, 0),
        ({}, 150, 0),
    ],
)
def test_a_kind_sets_its_queues(tier: dict[str, Any], workers: int | None, light_queue: int) -> None:
    found = experiment.from_table(
        {
            **SMALL,
            "tiers": {"one": tier, **SMALL["tiers"]},
            "workloads": SMALL["workloads"] | {"steady": {"clients": 1, "entry": "web"}},
        }
    )
    assert (found.tiers["one"].workers, found.tiers["one"].light_queue) == (workers, light_queue)


def test_an_asynchronous_caller_connects_for_each_call() -> None:
    tiers = SMALL["tiers"] | {"app": {"software": "tomcat", "kind": "async", "calls": ["db"]}}
    call = experiment.from_table({**SMALL, "tiers": tiers}).tiers["app"].calls["db"]
    assert (call.kept, call.pool) == (False, 0)


def test_the_normal_form_gives_the_experiment_back() -> None:
    found = experiment.from_table(SMALL)
    assert experiment.from_table(experiment.to_table(found)) == found


def test_the_truth_gives_experiment_and_stalls_back(tmp_path: Path) -> None:
    told = truth.Truth("sim", experiment.from_table(SMALL), (truth.Stall("neighbour", "app-node", 10, 20),))
    truth.write(told, tmp_path / truth.FILE)
    assert truth.read(tmp_path) == told


def test_what_happened_is_read_though_the_experiment_is_refused_today(tmp_path: Path) -> None:
    told = truth.Truth("sim", experiment.from_table(SMALL), (truth.Stall("neighbour", "app-node", 10, 20),))
    truth.write(told, tmp_path / truth.FILE)
    refused = (
        (tmp_path / truth.FILE).read_text(encoding="utf-8").replace('software = "tomcat"', 'software = "no longer"')
    )
    (tmp_path / truth.FILE).write_text(refused, encoding="utf-8")
    assert truth.read_stalls(tmp_path) == told.stalls
    with pytest.raises(TailraceError):
        truth.read(tmp_path)


def test_extends_merges_tables_and_replaces_lists(tmp_path: Path, small: Path) -> None:
    written(
        tmp_path,
        """
        extends = ".."
        [tiers.web]
        workers = 300
        [[stalls]]
        kind = "slow"
        place = "app"
        at = "1 s"
        """,
        "more/experiment.toml",
    )
    found = experiment.read(tmp_path / "more")
    assert (found.tiers["web"].workers, found.tiers["web"].software) == (300, "apache")
    assert len(found.stalls) == 1
    third = written(tmp_path, 'extends = "../more"\nstalls = []\n', "third/experiment.toml")
    assert experiment.read(third).stalls == ()
    written(tmp_path, "duration = '7 s'\n[tiers.web]\nworkers = 77\n", "part.toml")
    both = written(tmp_path, 'extends = ["../more", "../part.toml"]\n', "both/experiment.toml")
    found = experiment.read(both)
    assert (found.tiers["web"].workers, len(found.stalls), found.duration) == (77, 1, 7_000_000_000)


def test_extends_that_is_no_path_is_refused(tmp_path: Path) -> None:
    for wrong in ("3", "[3]", "{ a = 1 }"):
        with pytest.raises(TailraceError, match="extends must be the path of an experiment, or several, got"):
            experiment.read(written(tmp_path, f"extends = {wrong}", "a.toml"))


def test_extends_in_a_circle_is_refused(tmp_path: Path) -> None:
    first = written(tmp_path, 'extends = "b.toml"', "a.toml")
    written(tmp_path, 'extends = "a.toml"', "b.toml")
    with pytest.raises(TailraceError, match=r"b\.toml: extends goes in a circle|a\.toml: extends goes in a circle"):
        experiment.read(first)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("workloads.steady.rate=3", "workloads.steady.rate is not a known key; it is one of kind 'poisson'"),
        ("workloads.steady.clents=3", "workloads.steady.clents is not a known key; did you mean 'clients'?"),
        ("workloads.steady.clients=-3", "workloads.steady.clients must be a whole number above 0, got -3"),
        ("workloads.steady.think=3", 'workloads.steady.think must be a duration with its unit, such as "50 ms", got 3'),
        ("workloads.steady.clients='many'", "workloads.steady.clients must be a whole number, got 'many'"),
        ("tiers.web.workers=0.5", "tiers.web.workers must be a whole number, got 0.5"),
        ("workloads.steady.kind='close'", 'workloads.steady.kind must be one of "closed", "poisson"'),
        ("workloads.steady.walk='browse'", 'workloads.steady.walk must be "browse-only"'),
        ("workloads.steady.entry='wep'", "must be the name of a tier (app, db, web), got 'wep'; did you mean 'web'?"),
        ("workloads.steady.mix={ViewStori=1}", "did you mean 'ViewStory'?"),
        ("workloads.steady.index_of_dispersion=0", "must be a number of 1 or more, got 0"),
        ("workloads.steady.index_of_dispersion=2", "workloads.steady.index_of_dispersion must be 1 or above"),
        ("tiers.web.software='apach'", 'tiers.web.software must be "apache", "nginx"'),
        ("tiers.web.software='apach'", "got 'apach'; did you mean 'apache'?"),
        ("workloads.steady.kind='close'", "got 'close'; did you mean 'closed'?"),
        ("tiers.web.calls=['ap']", "tiers.web.calls.ap must be the name of a tier (app, db), got 'ap'"),
        ("tiers.db.calls=['web']", "must not lead back to it"),
        ("tiers.db.node='ap'", "tiers.db.node must be the name of a node"),
        ("tiers.db.node='big'", "got 'big'; to have such a node, add [nodes.big]"),
        ("tiers.app.heap='jvm14'", "tiers.app.heap must be a table or one of jvm15, jvm16, got 'jvm14'"),
        ("tiers.app.heap={young='1 MiB'}", "tiers.app.heap.per_visit is missing"),
        (
            "tiers.app.heap={young='1 MiB', per_visit='1 kB', young_collection={base='1 ms'}, old_above=9}",
            "tiers.app.heap.old_collection is missing: state the cost of an old collection",
        ),
        (
            "tiers.app.heap={young='1 MiB', per_visit='1 kB', young_collection={base='1 ms'}, filled=[2]}",
            "tiers.app.heap.filled[0] must be a share",
        ),
        (
            "tiers.app.heap={young='1 MiB', per_visit='1 kB', young_collection={base='1 ms'}, filled=[]}",
            "tiers.app.heap.filled",
        ),
        (
            "tiers.web1={}",
            "workloads.steady.entry is missing: name one of the tiers that no other tier calls (web, web1)",
        ),
        (
            "tiers={" + ", ".join(f"t{number}={{}}" for number in range(14)) + "}",
            "no other tier calls (t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11 and 2 more)",
        ),
        ("tiers=3", "tiers must be a table, got 3"),
        ("nodes.ap.cores=2", "nodes.ap must be the name of a node that a tier is on"),
        ("nodes.app1={}", "nodes.app1 must be the name of a node that a tier is on"),
        ("nodes.app.cores=true", "nodes.app.cores must be a number of 0 or more, got True"),
        ("nodes.app.cores='2'", "nodes.app.cores must be a number of 0 or more, got '2'"),
        ("workloads.w={kind='poisson', rate=true}", "workloads.w.rate must be a number of 0 or more, got True"),
        ("workloads.steady.index_of_dispersion='2'", "must be a number of 0 or more, got '2'"),
        ("tiers.web.calls.app.kept=1", "tiers.web.calls.app.kept must be true or false, got 1"),
        ("workloads.steady.aggregate='yes'", "workloads.steady.aggregate must be true or false, got 'yes'"),
        ("nodes.app.cores=0", "nodes.app.cores must be a number above 0, got 0"),
        ("nodes.app.disk.bandwidth='60 MB'", "must be a rate such as \"60 MB/s\", got '60 MB'"),
        ("nodes.app.governor.frequencies=['1 GHz','2']", "nodes.app.governor.frequencies[1] must be a frequency"),
        ("kernel.syn='linux-2.6'", "must be the name of a kernel"),
        ("kernel.give_up='0s'", 'kernel.give_up must be a duration above 0, such as "50 ms", got 0 ns'),
        ("kernel.give_up=0", 'kernel.give_up must be a duration above 0, such as "50 ms", got 0 ns'),
        ("nodes.app.disk.bandwidth='0 MB/s'", 'must be a rate above 0, such as "60 MB/s"'),
        ("kernel.syn=[1]", "kernel.syn must be the name of a kernel or a list of moments"),
        ("interactions.ViewStori.light=true", "did you mean 'ViewStory'?"),
        (
            "interactions.ViewStory.at.db.scv=0.7",
            "must be 0, 1 divided by a whole number up to 1000, or from 1 to a million, got 0.7",
        ),
        ("interactions.ViewStory.at.bd.scv=1", "interactions.ViewStory.at.bd must be the name of a tier or role"),
        (
            "interactions.ViewStory.at.db.scv=0.0001",
            "must be 0, 1 divided by a whole number up to 1000, or from 1 to a million",
        ),
        ("workloads.steady={clients=9, think='30 s', aggregate=true}", "think_max must be 0 or seven times think"),
        ("rubbos.scv=0.7", "rubbos.scv must be 0, 1 divided by a whole number up to 1000"),
        ("workloads.steady.think_scv=0.7", "workloads.steady.think_scv must be 0, 1 divided by a whole number"),
        ("rubbos.forms={Search='joined'}", "rubbos.forms.Search must be the name of a page that makes queries"),
        ("rubbos.queries={Search=3}", "rubbos.queries.Search must be the name of a page that makes queries"),
        ("stalls=[{kind='slow',place='ap',at='3 s'}]", "stalls[0].place must be the name of a server or tier"),
        ("stalls=[{kind='slow',place='app',at='3 s',left=3}]", "stalls[0].left must be a share"),
        ("stalls=[{kind='slow',place='app',at='1 h'}]", "stalls[0].at must be before the end of the run, 180 s"),
        ("stalls=[{kind='burn',place='db',at='3 s',left=1}]", "stalls[0].left is not a known key"),
        ("foo", "foo: expected key.path=value"),
        ("tiers.wep.workers=3", "there is no tiers.wep; did you mean 'web'?; --add creates a new one"),
        ("workloads.stedy.clients=3", "there is no workloads.stedy; did you mean 'steady'?"),
        ("workloads.readers.clients=12000", "there is no workloads.readers; there is steady; --add creates a new one"),
        ("workloads.readers={clients=9}", "there is no workloads.readers; there is steady; --add creates a new one"),
        ("nodes.ap.cores=2", "there is no nodes.ap; did you mean 'app'?"),
        ("tiers.web.calls.db.pool=3", "there is no tiers.web.calls.db; there is app; --add creates a new one"),
        ("interactions.ViewStori.light=true", "there is no interactions.ViewStori; did you mean 'ViewStory'?"),
        ("workloads.steady.clients=1000000000", "workloads.steady.clients must be at most 10,000,000, got 1000000000"),
        ("tiers.web.count=1000000000", "tiers.web.count must be at most 1,000, got 1000000000"),
        ("tiers.web.processes=1000000000", "tiers.web.processes must be at most 10,000"),
        ("workloads.w={kind='poisson', rate=1e18}", "workloads.w.rate must be at most 1,000,000,000, got 1e+18"),
        ("workloads.steady={clients=9, begin='9 s', end='9 s'}", "workloads.steady.end must be after its begin"),
        ("workloads.steady={clients=9, begin='0 s', end='0 s'}", "workloads.steady.end must be after its begin"),
        (
            "nodes.app.governor.frequencies=['2 GHz','1 GHz']",
            "frequencies must be slowest first, for the last is full speed, got 2 GHz, 1 GHz",
        ),
        ("nodes.app.governor.up=0.4", "nodes.app.governor.down must be at most up, 0.4, got 0.5"),
        ("workloads.w={kind='modulated', rates=[0], stays=['1 s']}", "workloads.w.rates must have one above 0"),
        ("workloads.w={kind='poisson', rate=nan}", "workloads.w.rate must be a finite number, got nan"),
        ("seed=100000000000000000000000", "seed must be at most 9,223,372,036,854,775,807"),
        ("duration='1e30 s'", "duration '1e30 s' is too large"),
        ("stalls=[{kind='slow',place='app',at='-1 s'}]", "stalls[0].at must be 0 or more, got '-1 s'"),
        ("kernel.syn=['5 s','3 s']", "kernel.syn must be moments in order, got 5 s, 3 s"),
        ("workloads.steady.begin='200 s'", "steady.begin must be before the end of the run, 180 s, got 200 s"),
        (
            "workloads={b={kind='batch', walk='browse-only', every='180 s'}}",
            "workloads.b.first must be before the end of the run, 180 s, got 180 s",
        ),
        (
            "workloads.steady={clients=9, timeout='1 s', hedge='1 s'}",
            "steady.hedge must be less than timeout, 1 s, got 1 s",
        ),
        (
            "stalls=[{kind='slow', place='app', at='3 s', for='2 s', every='1 s'}]",
            "stalls[0].every must be at least for, 2 s, got 1 s: it would begin before it ends",
        ),
        (
            "interactions.ViewStory.at.app.calls={'SELECT stories'={with_previous=true}}",
            "interactions.ViewStory.at.app.calls.SELECT stories.with_previous must be false: it is the first",
        ),
        (
            "interactions.ViewStory.at.app.calls={'SELECT stories'={all=true, count=3}}",
            "interactions.ViewStory.at.app.calls.SELECT stories.count must be 1 where all is true",
        ),
        (
            "workloads.steady={clients=9, aggregate=true, start='at once'}",
            "workloads.steady.start must be thinking for aggregate thinkers, got at once",
        ),
        (
            "workloads.steady={clients=9, aggregate=true, think=0}",
            "workloads.steady.think must be above 0 for aggregate thinkers",
        ),
        ("tiers.app.inflation={free=0, slope=1e300}", "tiers.app.inflation.slope must be at most 1,000,000,000"),
        (
            "tiers.app.heap={young='0 B', per_visit='1 kB', young_collection={base='1 ms'}}",
            'tiers.app.heap.young must be a size above 0, such as "64 MiB", got 0 B',
        ),
        ("rubbos.scv=1e300", "rubbos.scv must be 0, 1 divided by a whole number up to 1000, or from 1 to a million"),
    ],
)
def test_mistakes_name_the_key_and_the_nearest_name(small: Path, change: str, sentence: str) -> None:
    with pytest.raises(TailraceError) as caught:
        experiment.read(small, [change], add="there is no" not in sentence)
    assert sentence in str(caught.value)


def test_data_are_repeated_only_where_a_handshake_takes_time(small: Path) -> None:
    with pytest.raises(TailraceError, match=r"latency must be above 0 where kernel\.data is given"):
        experiment.read(small, ["kernel.data=['200 ms']", "latency=0 s"])
    assert experiment.read(small, ["kernel.data=['200 ms']"]).kernel.data


def chain(tiers: int, side_by_side: int) -> dict[str, Any]:
    """Tiers that call all of the next row."""
    rows = [[f"t{row}-{place}" for place in range(side_by_side)] for row in range(tiers)]
    calls = {name: {"calls": below} for row, below in zip(rows, [*rows[1:], []], strict=True) for name in row}
    return {"tiers": calls, "workloads": {"w": {"clients": 1, "entry": rows[0][0]}}}


def test_tiers_that_can_be_reached_on_very_many_ways_are_at_their_level() -> None:
    found = experiment.from_table(chain(40, side_by_side=2))
    assert list(places.levels(found).values()) == [1 + row for row in range(40) for _ in "ab"]
    assert [server.tier for server in layout.topology(found).servers][-1] == 40


def test_too_long_a_chain_of_tiers_is_refused_by_name() -> None:
    with pytest.raises(TailraceError, match="t100-0 must be at most 100 tiers from the clients, got 101"):
        experiment.from_table(chain(1200, side_by_side=1))


def test_a_file_of_brackets_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TailraceError, match="are nested hundreds deep"):
        experiment.read(written(tmp_path, "x = " + "[" * 2000 + "]" * 2000))


def test_a_byte_order_mark_is_skipped(small: Path) -> None:
    plain = experiment.read(small)
    small.write_bytes(b"\xef\xbb\xbf" + small.read_bytes())
    assert experiment.read(small) == plain


def test_changes_are_toml_and_bare_words_are_text(small: Path) -> None:
    changes = [
        "workloads.steady.think=5s",
        "tiers.web.workers=20",
        "tiers.app.calls.db={pool=6}",
        "kernel.syn=linux-3.3",
    ]
    found = experiment.read(small, changes)
    assert experiment.to_table(found)["workloads"]["steady"]["think"] == "5 s"
    assert found.tiers["web"].workers == 20
    assert (found.tiers["app"].calls["db"].pool, found.tiers["app"].calls["db"].kept) == (6, True)
    assert found.kernel.syn == "linux-3.3"


def test_a_change_names_what_the_experiment_has_or_implies(small: Path) -> None:
    """A node of a tier's own, a page of RUBBoS, a default call of the software."""
    implied = [
        "nodes.app-node.cores=2",
        "nodes.db.cores=2",
        "interactions.ViewStory.light=true",
        "tiers.web.calls.app.pool=3",
    ]
    found = experiment.read(small, implied)
    assert (found.nodes["app-node"].cores, found.tiers["web"].calls["app"].pool) == (2, 3)
    assert list(experiment.read(small, ["workloads.readers.clients=3"], add=True).workloads) == ["steady", "readers"]


def test_what_pages_embed_is_apart_for_all_workloads_or_none(small: Path) -> None:
    embedding = ["workloads.steady.embedded=['logo']", "workloads.other={clients=3, embedded=['logo']}"]
    assert not experiment.read(small, embedding, add=True).workloads["steady"].embedded_apart
    with pytest.raises(TailraceError, match=r"workloads\.other\.embedded_apart must be true, too"):
        experiment.read(small, [*embedding, "workloads.steady.embedded_apart=true"], add=True)


def test_one_key_of_a_shorthand_can_be_changed(small: Path) -> None:
    short = ["tiers.app.calls=['db', 'cache']", "tiers.app.heap=jvm15", "tiers.cache={}"]
    found = experiment.read(small, [*short, "tiers.app.calls.db.pool=6", "tiers.app.heap.threads=2"], add=True)
    assert list(found.tiers["app"].calls) == ["db", "cache"]
    assert found.tiers["app"].calls["db"].pool == 6
    heap = found.tiers["app"].heap
    assert heap is not None
    assert (heap.threads, heap.young_collection.base) == (2, 170_000_000)


def test_servers_and_nodes_have_different_names() -> None:
    tiers = SMALL["tiers"] | {
        "app": {"software": "tomcat", "count": 2, "calls": ["db"]},
        "other": {"software": "mysql", "node": "app"},
    }
    found = experiment.from_table(
        {"tiers": tiers, "nodes": {"app": {"cores": 3}}, "workloads": {"a": {"clients": 1, "entry": "web"}}}
    )
    servers = {server.name: server.node for server in places.servers(found)}
    assert servers == {
        "web": "web-node",
        "app1": "app1-node",
        "app2": "app2-node",
        "db": "db-node",
        "other": "app1-node",
    }
    assert {name: node.cores for name, node in places.nodes(found).items()} == {
        "web-node": 1,
        "app1-node": 3,
        "app2-node": 3,
        "db-node": 1,
    }
    shown = layout.topology(found)
    assert [(s.name, s.tier, s.queue_max) for s in shown.servers[:2]] == [("web", 1, 279), ("app1", 2, 294)]
    assert {one.server: one.candidates for one in shown.balancers_of("web")} == {"web": ("app1", "app2")}
    pools = [(pool.caller, pool.callee, pool.size) for pool in shown.apart().pools]
    assert pools[:2] == [("web", "app1", 50), ("web", "app2", 50)]


def test_a_server_uses_its_own_cores_of_its_node_and_a_tier_each_node_once() -> None:
    tiers = {
        "app": {"node": ["one", "two", "one"], "count": 3, "cores": 1.5},
        "all": {"node": "one"},
        "more": {"cores": 4, "kind": "async"},
    }
    found = experiment.from_table(
        {"tiers": tiers, "nodes": {"one": {"cores": 2}, "two": {"cores": 1}, "more": {"cores": 3}}}
        | {"workloads": {"a": {"clients": 1, "entry": "all", "interaction": "ping"}}}
        | {"interactions": {"ping": {"at": {"all": {"compute": "2 ms"}}}}}
    )
    own = {"app1": 1.5, "app2": 1, "app3": 1.5, "all": 2, "more": 3}
    assert places.cores(found) == {"one": 2, "two": 1, "more-node": 3, **own}
    assert {tier: places.cores_of_tier(found, tier) for tier in tiers} == {"app": 3, "all": 2, "more": 3}
    plan = lower(found)
    assert {group["name"]: group["cores"] for group in plan["groups"]} == own
    assert [server["workers"] for server in plan["servers"] if server["name"] == "more"] == [3]


def test_flushers_wake_in_turn() -> None:
    disk = {"writeback": {"period": "6 s"}}
    nodes = {"web": {"disk": disk}, "app": {"disk": disk}, "db": {"disk": {"writeback": {"phases": "drawn"}}}}
    changed = SMALL["tiers"] | {"app": SMALL["tiers"]["app"] | {"count": 2}}
    found = experiment.from_table(SMALL | {"tiers": changed, "nodes": nodes})
    second = 1_000_000_000
    assert places.turns(found) == {"web-node": 0, "app1-node": 2 * second, "app2-node": 4 * second}
    woken = {node["name"]: node["disk"]["writeback"]["first"] for node in lower(found)["nodes"]}
    assert woken == {**places.turns(found), "db-node": None}


def test_pages_of_one_servlet_share_a_pool() -> None:
    call = {"pool": 2, "pool_per": ["interaction"]}
    tiers = SMALL["tiers"] | {"app": {**SMALL["tiers"]["app"], "calls": {"db": call}}}
    shown = layout.topology(experiment.from_table({**SMALL, "tiers": tiers}))
    pools = [pool.name for pool in shown.pools if pool.callee == "db"]
    searches = [name for name in pools if ", Search" in name]
    assert len(searches) == 1
    assert searches[0].endswith(", Search")
    assert sum(name.endswith(", ViewStory") for name in pools) == 1


def test_a_node_with_the_name_of_a_server_is_refused() -> None:
    tiers = SMALL["tiers"] | {
        "db": {"software": "mysql", "node": "app"},
        "app": {**SMALL["tiers"]["app"], "node": "db2"},
    }
    table = {**SMALL, "tiers": tiers, "nodes": {"app": {}, "db2": {}}}
    with pytest.raises(TailraceError, match=r"nodes\.app must have another name"):
        experiment.from_table(table)


def test_the_json_schema_says_defaults_as_a_file_would() -> None:
    schema = experiment.json_schema()
    assert schema["properties"]["duration"]["default"] == "180 s"
    assert schema["$defs"]["Governor"]["properties"]["frequencies"]["default"][0] == "1.12 GHz"
    assert {"enum": ["jvm15", "jvm16"]} in schema["$defs"]["Tier"]["properties"]["heap"]["anyOf"]
    assert {"type": "array", "items": {"type": "string"}} in schema["$defs"]["Tier"]["properties"]["calls"]["anyOf"]
    assert schema["additionalProperties"] is False
