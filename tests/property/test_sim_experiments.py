"""Experiment files, against laws beyond a single mean: how long which class waits, and how often.

As elsewhere, by the 99.9 % interval of eight replications; `within` says how narrow it must be.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from plans import assert_is
from simulated import Measure, arriving, measured, response, stay


def test_processor_sharing_slows_large_and_small_ones_down_alike(tmp_path: Path) -> None:
    """x / (1 - u) for a job that needs x (Kleinrock II, 4.4)."""
    needs = {"small": 2, "middle": 5, "large": 20}
    mix = {"small": 8, "middle": 4, "large": 2}
    rate = 0.7 / (sum(needs[name] * mix[name] for name in needs) / sum(mix.values())) * 1000
    parts = {
        "tiers": {"s": {"workers": 0}},
        "interactions": {name: {"at": {"s": {"compute": f"{x} ms", "scv": 0}}} for name, x in needs.items()},
        "workloads": {"w": arriving(rate, mix=mix)},
    }
    found = measured(tmp_path, 1500, [response(name) for name in needs], parts)
    for values, x in zip(found, needs.values(), strict=True):
        assert_is(values, x / 1000 / (1 - 0.7), within=0.08)


def test_calls_at_once_of_one_visit_are_a_batch(tmp_path: Path) -> None:
    """M^X/M/1 with batches of two or three: u (1 + E[X²] / E[X]) / 2 (1 - u) are there (Kleinrock I, 4.5)."""
    parts = {
        "tiers": {"front": {"kind": "async", "calls": ["s"]}, "s": {"workers": 1, "backlog": 60_000}},
        "interactions": {
            "q": {"at": {"front": {"calls": {"g": {"count": 2.5, "parallel": True}}}}},
            "g": {"at": {"s": {"compute": "10 ms"}}},
        },
        "workloads": {"w": arriving(28, interaction="q")},
    }
    load = 28 * 2.5 * 0.01
    [found] = measured(tmp_path, 2000, [stay("s")], parts)
    assert_is(found, load * (1 + 6.5 / 2.5) / 2 / (1 - load) / (28 * 2.5), within=0.06)


def test_a_visit_waits_for_the_slower_of_two_calls(tmp_path: Path) -> None:
    """Fork and join of two M/M/1: (12 - u) / 8 times the response of one of them (Nelson and Tantawi 1988)."""
    servers = {name: {"workers": 1, "backlog": 60_000} for name in ("one", "other")}
    parts = {
        "tiers": {"front": {"kind": "async", "calls": list(servers)}, **servers},
        "interactions": {
            "q": {"at": {"front": {"calls": {"at one": {}, "at other": {"with_previous": True}}}}},
            **{f"at {name}": {"at": {name: {"compute": "10 ms"}}} for name in servers},
        },
        "workloads": {"w": arriving(60, interaction="q")},
    }
    [found] = measured(tmp_path, 2000, [response("q")], parts)
    assert_is(found, (12 - 0.6) / 8 * 0.01 / (1 - 0.6), within=0.05)


def coupled(rate: float, served: float, weights: tuple[float, float]) -> tuple[float, float]:
    """Mean responses of two lines that share a core by weight while both wait: the stationary law of their chain."""
    size = 100
    first, second = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    shares = np.where(first > 0, weights[0], 0.0), np.where(second > 0, weights[1], 0.0)
    both = np.maximum(shares[0] + shares[1], 1e-9)
    down, left = served * shares[0] / both, served * shares[1] / both
    chance = np.zeros((size, size))
    chance[0, 0] = 1.0
    pace = 2 * rate + served
    for _ in range(8_000):
        after = chance * (pace - 2 * rate - down - left)
        after[1:] += chance[:-1] * rate
        after[-1] += chance[-1] * rate
        after[:, 1:] += chance[:, :-1] * rate
        after[:, -1] += chance[:, -1] * rate
        after[:-1] += (chance * down)[1:]
        after[:, :-1] += (chance * left)[:, 1:]
        chance = after / pace
    return float((chance * first).sum() / rate), float((chance * second).sum() / rate)


def test_each_of_two_servers_of_a_core_waits_by_its_weight(tmp_path: Path) -> None:
    parts = {
        "nodes": {"n": {}},
        "tiers": {
            name: {"node": "n", "weight": weight, "workers": 1, "backlog": 60_000}
            for name, weight in (("heavy", 3), ("light", 1))
        },
        "interactions": {name: {"at": {name: {"compute": "10 ms"}}} for name in ("heavy", "light")},
        "workloads": {name: arriving(35, entry=name, interaction=name) for name in ("heavy", "light")},
    }
    found = measured(tmp_path, 800, [response("heavy"), response("light")], parts)
    for values, exact, within in zip(found, coupled(35, 100, (3, 1)), (0.05, 0.09), strict=True):
        assert_is(values, exact, within)


def test_waits_for_one_worker_vary_as_takacs_says(tmp_path: Path) -> None:
    """E[W²] = 2 W² + λ E[S³] / 3 (1 - u) (Kleinrock I, 5.7), and 1 - u do not wait."""
    sizes, shares, rate = (0.002, 0.03), (0.8, 0.2), 65
    moments = [sum(p * x**k for x, p in zip(sizes, shares, strict=True)) for k in (1, 2, 3)]
    load = rate * moments[0]
    mean = rate * moments[1] / 2 / (1 - load)
    waited = (pl.col("start") - pl.col("arrival")) / 1e9
    parts = {
        "tiers": {"s": {"workers": 1, "backlog": 60_000}},
        "interactions": {
            "a": {"at": {"s": {"compute": "2 ms", "scv": 0}}},
            "b": {"at": {"s": {"compute": "30 ms", "scv": 0}}},
        },
        "workloads": {"w": arriving(rate, mix={"a": 8, "b": 2})},
    }
    square, idle = measured(
        tmp_path,
        2000,
        [
            lambda one: float(one.visits.select((waited**2).mean()).item()),
            lambda one: float(one.visits.select((waited == 0).mean()).item()),
        ],
        parts,
    )
    assert_is(square, 2 * mean**2 + rate * moments[2] / 3 / (1 - load), within=0.12)
    assert_is(idle, 1 - load, within=0.02)


def test_repeated_syns_are_lost_as_often_each_time(tmp_path: Path) -> None:
    """A few clients that repeat, at a server that many others fill: M/M/1/4, and a geometric number of losses."""
    load, places = 1.5, 4
    lost = (1 - load) * load**places / (1 - load ** (places + 1))
    parts = {
        "kernel": {"syn": []},
        "tiers": {"s": {"workers": 1, "backlog": places - 2}},
        "interactions": {name: {"at": {"s": {"compute": "10 ms"}}} for name in ("many", "few")},
        "workloads": {
            "many": arriving(147, interaction="many"),
            "few": arriving(3 * (1 - lost), interaction="few", kernel="linux-3.3"),
        },
    }
    few = pl.col("drops").filter(pl.col("interaction") == "few")
    measures: list[Measure] = [
        lambda one, k=k: float(one.requests.select((few >= k).mean()).item())  # type: ignore[misc]
        for k in (1, 2, 3)
    ]
    found = measured(tmp_path, 1000, measures, parts)
    for k, (values, within) in enumerate(zip(found, (0.06, 0.12, 0.25), strict=True), 1):
        assert_is(values, lost**k, within)


def two_classes(clients: tuple[int, int], think: tuple[float, float], needs: list[list[float]]) -> list[float]:
    """Response times by exact mean-value analysis of two classes (Reiser and Lavenberg, 1980)."""
    queues: dict[tuple[int, int], list[float]] = {}
    responses = [0.0, 0.0]
    for here in itertools.product(range(clients[0] + 1), range(clients[1] + 1)):
        queues[here] = [0.0] * len(needs[0])
        for one in (0, 1):
            if here[one] == 0:
                continue
            before = queues[here[0] - (one == 0), here[1] - (one == 1)]
            stays = [need * (1 + queue) for need, queue in zip(needs[one], before, strict=True)]
            responses[one] = math.fsum(stays)
            rate = here[one] / (think[one] + responses[one])
            queues[here] = [queue + rate * each for queue, each in zip(queues[here], stays, strict=True)]
    return responses


@pytest.mark.parametrize("think_scv", [0, 4])
def test_two_sorts_of_clients_are_a_product_form_network_however_they_think(think_scv: int, tmp_path: Path) -> None:
    needs = [[0.03, 0.02], [0.02, 0.06]]
    parts = {
        "tiers": {"web": {"workers": 0, "calls": {"db": {"pool": 0}}}, "db": {"workers": 0}},
        "interactions": {
            "qa": {"at": {"web": {"compute": "30 ms", "calls": {"a": 1}}}},
            "qb": {"at": {"web": {"compute": "20 ms", "calls": {"b": 1}}}},
            "a": {"at": {"db": {"compute": "20 ms"}}},
            "b": {"at": {"db": {"compute": "60 ms", "scv": 4}}},
        },
        "workloads": {
            "one": {"clients": 12, "think": "1 s", "think_max": "0 s", "interaction": "qa"},
            "two": {
                "clients": 6,
                "think": "0.5 s",
                "think_max": "0 s",
                "think_scv": think_scv,
                "interaction": "qb",
            },
        },
    }
    found = measured(tmp_path, 4000, [response("qa"), response("qb")], parts)
    for values, exact in zip(found, two_classes((12, 6), (1.0, 0.5), needs), strict=True):
        assert_is(values, exact, within=0.05)
