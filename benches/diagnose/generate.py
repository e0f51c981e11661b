"""Makes a run folder of N requests through three synchronous tiers, with stalls, drops and 50 ms samples.

It is not a simulator: response times are drawn. During each stall of the app server, a share of the requests loses its
SYN at the web server and comes back a second later. `diagnose` works as hard on it as on a real run.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tailrace import dataset
from tailrace.topology import Call, Node, Server, Topology

SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND
STALL_S = 0.4
TIERS = ("web", "app", "db")
CATEGORY = pl.Categorical


@dataclass(frozen=True)
class Plan:
    requests: int
    seconds: int
    every: int
    """A stall begins every so many seconds, from the 20th second on."""
    seed: int

    def stalled(self, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each of these times since the begin, whether it lies in a stall, and for how long the stall
        lasted until then."""
        since = (offset - 20 * SECOND) % (self.every * SECOND)
        within = (offset >= 20 * SECOND) & (offset < (self.seconds - 10) * SECOND)
        return within & (since < STALL_S * SECOND), since


def arrivals(plan: Plan, random: np.random.Generator) -> np.ndarray:
    return np.sort(random.uniform(0, plan.seconds * SECOND, plan.requests)).astype(np.int64) + BEGIN


def stall_wait(plan: Plan, sent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the time until the stall is over, and which requests lose their SYN (those of a stall's last third)."""
    inside, since = plan.stalled(sent - BEGIN)
    dropped = inside & (since > STALL_S * 0.66 * SECOND)
    return np.where(inside & ~dropped, int(STALL_S * SECOND) - since, 0), dropped


def tables(plan: Plan) -> tuple[pl.DataFrame, pl.DataFrame]:
    random, requests = np.random.default_rng(plan.seed), plan.requests
    sent = arrivals(plan, random)
    wait, dropped = stall_wait(plan, sent)
    reached = sent + dropped * SECOND
    own = {
        tier: random.exponential(mean, requests).astype(np.int64) + 1000
        for tier, mean in zip(TIERS, (4e5, 9e5, 5e5), strict=True)
    }
    begin = {"web": reached, "app": reached + own["web"] // 2}
    begin["db"] = begin["app"] + own["app"] // 2 + wait
    end = {"db": begin["db"] + own["db"]}
    end["app"] = end["db"] + own["app"] // 2
    end["web"] = end["app"] + own["web"] // 2
    ids = {tier: np.arange(requests, dtype=np.uint64) * 3 + index + 1 for index, tier in enumerate(TIERS)}
    request = np.arange(1, requests + 1, dtype=np.uint64)
    frames = []
    for tier, parent in zip(TIERS, (None, "web", "app"), strict=True):
        lost = dropped if tier == "web" else np.zeros(requests, dtype=bool)
        frames.append(
            pl.DataFrame(
                {
                    "visit": ids[tier],
                    "parent": ids[parent] if parent else pl.Series([None] * requests, dtype=pl.UInt64),
                    "request": request,
                    "server": pl.Series([tier]).new_from_index(0, requests).cast(CATEGORY),
                    "interaction": pl.Series(["GET /s"]).new_from_index(0, requests).cast(CATEGORY),
                    "caller": pl.Series([parent or "client"]).new_from_index(0, requests).cast(CATEGORY),
                    "sent": sent if tier == "web" else begin[tier],
                    "arrival": begin[tier],
                    "start": pl.Series([None] * requests, dtype=pl.Int64),
                    "first_byte": end[tier] - 500,
                    "departure": end[tier],
                    "drops": lost.astype(np.uint8),
                    "data_drops": np.zeros(requests, dtype=np.uint8),
                    "status": pl.Series(["ok"]).new_from_index(0, requests).cast(CATEGORY),
                    "bytes_in": np.full(requests, 200, dtype=np.uint64),
                    "bytes_out": np.full(requests, 2000, dtype=np.uint64),
                    "downstream_ns": {
                        "web": end["app"] - begin["app"],
                        "app": end["db"] - begin["db"],
                        "db": end["db"] * 0,
                    }[tier],
                }
            )
        )
    visits = pl.concat(frames).sort("departure", "visit")
    front = frames[0]
    requests_table = front.select(
        pl.col("request"),
        pl.col("request").cast(pl.UInt32).alias("client"),
        "server",
        "interaction",
        "sent",
        pl.lit(None, dtype=pl.Int64).alias("connected"),
        pl.col("departure").alias("end"),
        "status",
        "drops",
        "data_drops",
        pl.col("bytes_out").alias("bytes"),
    ).sort("end")
    return requests_table, visits


def samples(plan: Plan) -> pl.DataFrame:
    random = np.random.default_rng(plan.seed)
    step = 50_000_000
    time = np.arange(1, plan.seconds * 20, dtype=np.int64) * step
    stalled = plan.stalled(time - step)[0]
    rows = []
    for place in (*TIERS, "neighbour", "client"):
        for metric in ("cpu_busy", "cpu_iowait", "cpu_steal", "listen_drops", "accept_queue", "run_queue"):
            value = random.uniform(0, 0.05, len(time))
            if metric == "cpu_busy":
                normal = {"app": 0.6, "neighbour": 0.0}.get(place, 0.2)
                value = value + np.where(stalled, {"app": 0.15, "neighbour": 0.8}.get(place, normal), normal)
            rows.append(
                pl.DataFrame({"time": time + BEGIN, "value": value}).with_columns(
                    pl.lit(step, dtype=pl.Int64).alias("interval_ns"),
                    pl.lit(place).cast(CATEGORY).alias("place"),
                    pl.lit(metric).cast(CATEGORY).alias("metric"),
                )
            )
    return pl.concat(rows).select("time", "interval_ns", "place", "metric", "value").sort("time", maintain_order=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--every", type=int, default=15, help="seconds from the begin of one stall to the next")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    plan = Plan(arguments.requests, arguments.seconds, arguments.every, arguments.seed)
    requests, visits = tables(plan)
    with dataset.create(arguments.out, overwrite=True) as writer:
        writer.maker = "benches/diagnose/generate.py"
        writer.topology = Topology(
            nodes=tuple(Node(name=tier) for tier in TIERS),
            servers=tuple(Server(name=tier, node=tier, tier=index + 1) for index, tier in enumerate(TIERS)),
            calls=(Call(caller="web", callee="app"), Call(caller="app", callee="db")),
        )
        writer.write_table("requests", requests)
        writer.write_table("visits", visits)
        writer.write_table("samples", samples(plan))


if __name__ == "__main__":
    main()
