"""The benchmark as data: walk, queries and demands."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace import experiment
from tailrace.experiment import arrivals, burstiness, catalogue, rubbos
from tailrace.experiment.interactions import Rubbos
from tailrace.experiment.workloads import Closed

SYSTEM = {"tiers": {"web": {"software": "apache"}}, "workloads": {"w": {"clients": 1}}}


def test_there_are_24_interactions_and_three_are_static() -> None:
    states = rubbos.states()
    assert len(states) == 24
    assert [state for state, static in states.items() if static] == ["Register", "Browse", "AuthorLogin"]


@pytest.mark.parametrize(
    ("walk", "author", "state", "total"),
    [
        ("browse-only", False, "ViewComment", 1.01),
        ("browse-only", False, "Browse", 0.995),
        ("browse-only-no-search", False, "Browse", 0.99),
        ("read-write", False, "SubmitStory", 1.138),
        ("read-write", False, "StoriesOfTheDay", 1.0),
        ("read-write", True, "SubmitStory", 1.069),
        ("read-write-no-search", False, "Register", 0.9985),
    ],
)
def test_rows_add_up_to_what_is_printed_in_the_tables(walk: str, author: bool, state: str, total: float) -> None:
    table = rubbos.walk(walk)[author]
    assert table is not None
    row = table.states.index(state)
    assert sum(table.rows[row]) + table.back[row] + table.end[row] == pytest.approx(total)


@pytest.mark.parametrize(
    ("page", "plain", "joined"),
    [
        ("StoriesOfTheDay", 11, 1),
        ("ViewStory", 12.014, 3.014),
        ("StoreModerateLog", 7, 7),
        ("AcceptStory", 3, 3),
        ("Search", 0, 0),
    ],
)
def test_queries_of_a_page(page: str, plain: float, joined: float) -> None:
    for form, count in (("plain", plain), ("joined", joined)):
        asked = rubbos.queries(Rubbos.model_validate({"form": form}))
        assert sum(asked.get(page, {}).values()) == pytest.approx(count)


def test_a_page_can_have_its_own_form() -> None:
    joined = rubbos.queries(Rubbos(form="joined"))
    plain = rubbos.queries(Rubbos(form="plain"))
    asked = rubbos.queries(Rubbos(form="plain", forms={"StoriesOfTheDay": "joined"}))
    assert asked == plain | {"StoriesOfTheDay": joined["StoriesOfTheDay"]}


@pytest.mark.parametrize("settings", [{}, {"form": "plain"}, {"queries": {"ViewStory": 12}}, {"comments": 40}])
def test_the_mean_page_has_the_mean_demand_whatever_its_queries(settings: dict[str, object]) -> None:
    found = experiment.from_table({**SYSTEM, "rubbos": settings})
    every = catalogue.interactions(found)
    mean = dict.fromkeys(("web", "app", "db"), 0.0)
    total = 0.0
    for row in rubbos._rows("shares.csv"):
        page, share = every[row["state"]], float(row["browse_only"])
        total += share
        mean["web"] += share * page.at["web"].compute
        if "app" in page.at:
            mean["app"] += share * page.at["app"].compute
            mean["db"] += share * sum(
                visits.count * every[query].at["db"].compute for query, visits in page.at["app"].calls.items()
            )
    wanted = {"web": 270_000, "app": 750_000, "db": 600_000}
    assert {tier: demand / total for tier, demand in mean.items()} == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("walk", rubbos.WALKS)
def test_open_arrivals_request_the_pages_of_a_walk_through_the_same_content(walk: str) -> None:
    walks = [{"kind": "poisson", "rate": 1, "walk": walk}, {"kind": "closed", "clients": 1, "walk": walk}]
    content = {"uncommented": 0.5, "unfound": 0.1}
    numbers = list(rubbos.states())
    opened, closed = (experiment.from_table({**SYSTEM, "rubbos": content, "workloads": {"w": load}}) for load in walks)
    lowered = [arrivals.choice(each.workloads["w"], each.rubbos, numbers.index) for each in (opened, closed)]
    assert lowered[0] == lowered[1]
    assert lowered[0]["walk"]["dead_ends"]


def test_pages_may_lack_links() -> None:
    def lowered(settings: dict[str, object]) -> Any:
        found = experiment.from_table({**SYSTEM, "rubbos": settings})
        return arrivals.choice(found.workloads["w"], found.rubbos, numbers.index)["walk"]

    numbers = list(rubbos.states())
    assert "dead_ends" not in lowered({})
    walk = lowered({"uncommented": 0.5, "unfound": 0.1})
    # Among the eleven states that a walk can reach.
    named = [numbers[state] for state in walk["classes"]]
    found = {named[end["state"]]: (end["share"], [named[to] for to in end["to"]]) for end in walk["dead_ends"]}
    assert found.pop("ViewStory") == (0.5, ["ViewComment"])
    assert found == dict.fromkeys(("SearchInStories", "SearchInComments", "SearchInUsers"), (0.1, []))


def test_a_file_changes_a_page_key_by_key() -> None:
    changed = {"ViewStory": {"light": True, "at": {"app": {"scv": 0}}}}
    page = catalogue.interactions(experiment.from_table({**SYSTEM, "interactions": changed}))["ViewStory"]
    assert (page.light, page.at["app"].scv) == (True, 0)
    assert page.at["app"].compute > 0
    assert "SELECT stories" in page.at["app"].calls


PUBLISHED = [  # rates of row 2 of D1 in the published generator's matrices: I, clients, knob, to slow, stay fast
    (4000, 5000, 1, 0.0652, 173.3193),
    (400, 5000, 1, 0.6580, 172.7264),
    (50, 5000, 1, 5.3896, 167.9949),
    (200, 1000, 4, 5.2651, 688.2727),
    (100, 1000, 4, 10.3894, 683.1485),
]


@pytest.mark.parametrize(("index", "clients", "knob", "to_slow", "stays_fast"), PUBLISHED)
def test_bursts_are_those_of_the_published_generator(
    index: float, clients: int, knob: float, to_slow: float, stays_fast: float
) -> None:
    load = Closed(clients=clients, index_of_dispersion=index, burst_knob=knob)
    modes = burstiness.fit(load)
    rate = 1e9 / modes.fast
    assert rate * modes.to_slow == pytest.approx(to_slow, rel=0.02)
    assert rate * (1 - modes.to_slow) == pytest.approx(stays_fast, rel=0.002)
    assert modes.mean == pytest.approx(load.think)
    assert modes.index_of_dispersion == pytest.approx(index)
