"""Calls, pools and balancers between groups of servers mean each pair of their servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace import topology as topologies
from tailrace.bounds import PAIRS
from tailrace.errors import InputError, UsageError
from tailrace.experiment import from_table, layout
from tailrace.join import names
from tailrace.sim import simulate
from tailrace.topology import Topology

GROUPED = """
[[servers]]
name = "lb"
[[servers]]
name = "app1"
group = "app"
[[servers]]
name = "app2"
group = "app"
[[servers]]
name = "db1"
group = "db"
[[servers]]
name = "db2"
group = "db"
[[calls]]
caller = "lb"
callee = "app"
[[calls]]
caller = "app"
callee = "db"
[[pools]]
name = "app to db"
caller = "app"
callee = "db"
size = 7
[[balancers]]
name = "app to db"
server = "app"
candidates = ["db"]
policy = "least_connections"
"""
MESH = {
    "duration": "1 s",
    "workloads": {"users": {"kind": "poisson", "rate": 5, "entry": "web", "mix": {"ask": 1}}},
    "interactions": {"ask": {"at": {"web": {"calls": {"ask": 1}}, "app": {"calls": {"ask": 1}}, "db": {}}}},
}


def read(text: str, tmp_path: Path) -> Topology:
    path = tmp_path / "topology.toml"
    path.write_text(text)
    return topologies.read(path)


def test_a_call_between_groups_is_one_of_each_pair(tmp_path: Path) -> None:
    known = read(GROUPED, tmp_path)
    assert known.callees_of("app1") == ("db1", "db2")
    assert known.callers_of("db2") == ("app1", "app2")
    assert known.downstream_of("lb") == ("app1", "app2", "db1", "db2")
    assert list(known.pairs()) == [
        ("lb", "app1"),
        ("lb", "app2"),
        *((a, d) for a in ("app1", "app2") for d in ("db1", "db2")),
    ]
    assert [pool.size for pool in known.pools_of("app2")] == [7]
    assert known.pools_of("db1") == ()
    [balancer] = known.balancers_of("app2")
    assert (balancer.server, balancer.candidates, balancer.policy) == ("app2", ("db1", "db2"), "least_connections")
    assert balancer.name != known.balancers_of("app1")[0].name


def test_a_topology_apart_says_the_same_of_each_server(tmp_path: Path) -> None:
    known = read(GROUPED, tmp_path)
    apart = known.apart()
    topologies.write(apart, tmp_path / "apart.toml")
    assert topologies.read(tmp_path / "apart.toml") == apart
    for server in ("lb", "app1", "app2", "db1", "db2"):
        assert apart.callees_of(server) == known.callees_of(server)
        assert apart.callers_of(server) == known.callers_of(server)
        assert apart.downstream_of(server) == known.downstream_of(server)
        assert apart.balancers_of(server) == known.balancers_of(server)
    assert [(pool.caller, pool.callee) for pool in apart.pools] == list(known.pairs())[2:]
    assert apart.apart() is apart


def test_a_server_and_its_group_are_one_candidate_each(tmp_path: Path) -> None:
    known = read(GROUPED.replace('candidates = ["db"]', 'candidates = ["db2", "db"]'), tmp_path)
    assert known.balancers_of("app1")[0].candidates == ("db2", "db1")


def test_hosts_with_groups_are_joined(tmp_path: Path) -> None:
    known = read(GROUPED, tmp_path)
    joined = names.of({"a": known, "b": Topology()}).topology(())
    assert set(joined.pairs()) == set(known.pairs())
    assert {server.tier for server in joined.servers} == {1, 2, 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GROUPED.replace('caller = "lb"', 'caller = "lab"'), "lab"),
        (GROUPED.replace('name = "lb"', 'name = "db"'), "servers[0].name is the name of a group, too"),
    ],
)
def test_names_that_mean_nothing_or_two_things_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said.replace("[", r"\[").replace("]", r"\]")):
        read(text, tmp_path)


@pytest.mark.parametrize("kind", ["calls", "pools", "balancers"])
def test_a_few_lines_cannot_mean_endless_pairs(kind: str, tmp_path: Path) -> None:
    many = 1_200
    assert many * many > PAIRS
    servers = "".join(f'[[servers]]\nname = "{g}{n}"\ngroup = "{g}"\n' for g in "ab" for n in range(many))
    ends = {"balancers": 'server = "a"\ncandidates = ["b"]'}.get(kind, 'caller = "a"\ncallee = "b"')
    more = "" if kind == "calls" else 'name = "x"\n'
    size = "size = 1\n" if kind == "pools" else ""
    with pytest.raises(InputError, match=f"{kind} mean 1,440,000 pairs of servers"):
        read(f"{servers}[[{kind}]]\n{more}{size}{ends}\n", tmp_path)


def test_the_topology_of_an_experiment_has_as_many_calls_as_its_tiers() -> None:
    """Not as its pairs of servers."""
    made = []
    for count in (1, 2, 30):
        tiers = {
            "web": {"count": count, "calls": ["app"]},
            "app": {"count": count, "calls": ["db"]},
            "db": {"count": count},
        }
        made.append(layout.topology(from_table({**MESH, "tiers": tiers})))
    assert {(len(one.calls), len(one.pools)) for one in made} == {(2, len(made[0].pools))}
    assert [len(one.balancers) for one in made] == [0, 2, 2]
    assert len(list(made[2].pairs())) == 2 * 30 * 30


def test_a_tier_with_the_name_of_a_server_is_a_group_of_another_name() -> None:
    """Tier a1 has the servers a11 and a12."""
    tiers = {"web": {"calls": ["app", "app1"]}, "app": {"count": 2}, "app1": {"count": 2}}
    known = layout.topology(from_table({**MESH, "interactions": {"ask": {"at": {"web": {}}}}, "tiers": tiers}))
    assert known.callees_of("web") == ("app1", "app2", "app11", "app12")
    assert topologies.from_table(known.model_dump(mode="json", exclude_none=True)) == known


def test_an_experiment_with_too_many_pairs_is_refused_before_it_runs(tmp_path: Path) -> None:
    tiers = {
        **{f"a{n}-": {"count": 30, "calls": [f"b{m}-" for m in range(35)]} for n in range(35)},
        **{f"b{m}-": {"count": 30} for m in range(35)},
    }
    with pytest.raises(UsageError, match=r"cannot do tiers\.a31-\.calls\.b26-: .* at most 1,000,000"):
        simulate(
            from_table(
                {
                    **MESH,
                    "interactions": {"ask": {"at": {"a0-": {}}}},
                    "workloads": {"users": {**MESH["workloads"]["users"], "entry": "a0-"}},
                    "tiers": tiers,
                }
            ),
            tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()
