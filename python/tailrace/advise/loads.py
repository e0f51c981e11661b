"""The same experiment under more load: for a while (does it recover?), or all the time (how much headroom is left?)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from tailrace.dataset import tables
from tailrace.experiment import Experiment, from_table, to_table, traces
from tailrace.units import SECOND

SURGE = 0.2
"""Additional load during a surge."""
_MORE = "-more"
_APART = 1.0
"""Seconds by which a further copy of recorded requests comes later, so that it does not double each burst."""
GOLDEN, BUCKETS = 618_033, 1_000_003
"""Multiplying by the golden ratio of a prime spreads successive numbers evenly (Knuth, volume 3, 6.4)."""


def scaled(experiment: Experiment, factor: float, folder: Path) -> Experiment:
    """`factor` times the clients, rates, batches and recorded requests, during the whole run. Further recorded requests
    are copies in `folder`."""
    table = to_table(experiment)
    whole_run = experiment.duration / SECOND
    for name, load in list(table["workloads"].items()):
        if load["kind"] == "trace":
            whole, rest = divmod(factor - 1.0, 1.0)
            for copy, share in enumerate([1.0] * int(whole) + [round(rest, 6)], 1):
                if share and (more := _part(load, share, copy * _APART, folder, 0.0, whole_run)):
                    table["workloads"][f"{name}{_MORE}{copy}"] = more
        else:
            table["workloads"][name] = _times(load, factor)
    return from_table(table)


def surged(experiment: Experiment, folder: Path) -> Experiment:
    """`SURGE` more load in the middle third of the run, as additional workloads, so that the others draw the same
    numbers as without."""
    table = to_table(experiment)
    begin, end = experiment.duration // 3, 2 * experiment.duration // 3
    window = {"begin": f"{begin} ns", "end": f"{end} ns"}
    for name, load in list(table["workloads"].items()):
        if load["kind"] == "trace":
            more = _part(load, SURGE, _APART, folder, begin / SECOND, end / SECOND)
        elif load["kind"] == "batch":
            more = _times(load, SURGE) | window | {"first": f"{begin} ns"}
        else:
            more = _times(load, SURGE) | window
        if more:
            table["workloads"][name + _MORE] = more
    return from_table(table)


def _times(load: dict[str, Any], factor: float) -> dict[str, Any]:
    match load["kind"]:
        case "closed":
            return load | {"clients": max(1, round(load["clients"] * factor))}
        case "poisson":
            return load | {"rate": load["rate"] * factor}
        case "modulated":
            return load | {"rates": [rate * factor for rate in load["rates"]]}
        case _:
            return load | {"size": max(1, round(load["size"] * factor))}


def _part(
    load: dict[str, Any],
    share: float,
    later: float,
    folder: Path,
    begin: float,
    end: float,
) -> dict[str, Any] | None:
    """A workload of this share of the recorded clients, or of the requests where clients are unknown, of those sent
    from `begin` to `end`; None if there are none."""
    requests = traces.read(load["file"])
    rows = pl.DataFrame(
        {
            "time": pl.Series(requests.times, dtype=pl.Int64) / SECOND + later,
            **({"interaction": requests.names} if requests.names else {}),
            **_of_clients(requests),
            **requests.factors,
        }
    )
    who = pl.col("client").fill_null(pl.int_range(pl.len())) if requests.clients else pl.int_range(pl.len())
    chosen = (who.cast(pl.UInt64) * GOLDEN % BUCKETS) < round(share * BUCKETS)
    rows = rows.filter(chosen, pl.col("time").is_between(begin, end, closed="left"))
    if rows.is_empty():
        return None
    file = folder / f"{Path(load['file']).stem}-{share:g}-{later:g}-{begin:g}.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    tables.write(rows, file)
    return load | {"file": str(file)}


def _of_clients(requests: traces.Requests) -> dict[str, pl.Series]:
    if not requests.clients:
        return {}
    think = pl.Series(requests.thinks, dtype=pl.Int64) / SECOND
    return {"client": pl.Series(requests.clients, dtype=pl.Int64), "think": think}
