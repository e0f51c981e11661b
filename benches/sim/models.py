"""The three models of the benchmark as plans of the engine, and what is known of them exactly.

`single`: 1000 clients that think 1 s, one core shared by all jobs, 0.5 ms of work. `tiers`: 150, 50 and 50 threads
held through calls, 0.1 + 0.1, 0.2 + 0.2 and 0.5 ms of work on a core each. `stalls`: the same with 7000 clients that
think 7 s, backlogs of 128 with lost SYNs and their repeats, 0.4 s of standstill of the last tier every 15 s, and
samples every 50 ms. All times are exponential.
"""

from __future__ import annotations

import json

SECOND = 1_000_000_000
STALL_EVERY_S = 15
STALL_NS = 400_000_000
REPEATS = [seconds * SECOND for seconds in (1, 2, 3, 4, 5, 7, 11)]
UNLIMITED = 1_000_000_000

# Machine repairman, and mean value analysis (the pools do not bind): requests a second, mean response in ms.
EXACT = {"single": (999.00, 0.9970), "tiers": (998.09, 1.911)}


def compute(mean_ns: float) -> dict[str, object]:
    return {"compute": {"exponential": mean_ns}}


def plan(model: str, seconds: int) -> dict[str, object]:
    """The plan of `model` for `seconds` of simulated time."""
    if model == "single":
        servers, programs = [server("s", 0, 0, UNLIMITED, [0], None)], [[compute(5e5)]]
    else:
        backlog = 128 if model == "stalls" else UNLIMITED
        call: dict[str, object] = {"call": {"connector": 0, "class": 0}}
        servers = [
            server("web", 0, 150, backlog, [0], 1),
            server("app", 1, 50, backlog, [1], 2),
            server("db", 2, 50, backlog, [2], None),
        ]
        programs = [[compute(1e5), call, compute(1e5)], [compute(2e5), call, compute(2e5)], [compute(5e5)]]
    clients, think = (7000, 7e9) if model == "stalls" else (1000, 1e9)
    begins = range(STALL_EVERY_S, seconds, STALL_EVERY_S) if model == "stalls" else range(0)
    return {
        "seed": 1,
        "epoch": 0,
        "duration": seconds * SECOND,
        "sample": 50_000_000 if model == "stalls" else 0,
        "nodes": [{"name": f"node-{s['name']}", "cores": 1.0} for s in servers],
        "groups": [{"name": s["name"], "node": i, "cores": 1.0} for i, s in enumerate(servers)],
        "servers": servers,
        "classes": [{"name": "page"}],
        "programs": programs,
        "workloads": [
            {
                "name": "clients",
                "entries": [0],
                "choice": {"mix": [[0, 1.0]]},
                "syn": {"repeats": REPEATS, "give_up": 30 * SECOND},
                "arrivals": {"closed": {"clients": clients, "think": {"exponential": think}, "spread": int(think)}},
            }
        ],
        "stalls": [
            {
                "begin": begin * SECOND,
                "end": begin * SECOND + STALL_NS,
                "kind": "freeze",
                "effect": {"freeze": {"group": 2}},
            }
            for begin in begins
        ],
    }


def server(
    name: str, group: int, workers: int, backlog: int, programs: list[int], calls: int | None
) -> dict[str, object]:
    connector = {"candidates": [calls], "syn": {"repeats": REPEATS, "give_up": 30 * SECOND}}
    return {
        "name": name,
        "group": group,
        "holds": True,
        "workers": workers,
        "backlog": backlog,
        "programs": programs,
        "connectors": [] if calls is None else [connector],
    }


if __name__ == "__main__":
    import sys

    print(json.dumps(plan(sys.argv[1], int(sys.argv[2]))))
