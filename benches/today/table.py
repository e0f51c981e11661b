"""The table of docs/ctqo-2026.md, from the numbers in benches/results/today.json."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

HEAD = (
    *("server", "version", "requests inside at most", "of them in its accept queue, of its limit", "SYNs lost"),
    *("failed", "over 1 s", "what `diagnose` reports"),
)


def table(found: dict[str, Any]) -> str:
    """For each condition a table, with a row for each server."""
    parts = []
    for condition, rows in found.items():
        lines = [_line(HEAD), _line(["---"] * len(HEAD)), *(_row(name, row) for name, row in rows.items())]
        parts.append("\n".join([f"**{condition}**", "", *lines]))
    return "\n\n".join(parts)


def _row(name: str, row: dict[str, Any]) -> str:
    median = row["median"]
    servers: dict[str, dict[str, float]] = median["servers"]
    held = "; ".join(f"{server['held_max']:,.0f}" for server in servers.values())
    queues = "; ".join(
        f"{each['accept_queue_max']:,.0f} of {each['accept_queue_limit']:,.0f}" for each in servers.values()
    )
    lost = ", ".join(f"{server} {each['lost_syns']:,.0f}" for server, each in servers.items() if each["lost_syns"])
    cells = [
        *(name, row["version"], held, queues, lost or "none"),
        *(_share(median["failed"], median["requests"]), _share(median["vlrt"], median["requests"])),
        said(row["diagnoses"]),
    ]
    return _line(cells)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _share(part: float, whole: float) -> str:
    return f"{part:,.0f} of {whole:,.0f}" if part else "none"


def said(diagnoses: list[dict[str, Any]]) -> str:
    """The chain of most VLRT requests, in all runs together."""
    chains: dict[str, int] = {}
    for diagnosis in diagnoses:
        for row in diagnosis["rows"]:
            chains[_chain(row)] = chains.get(_chain(row), 0) + row["vlrt"]
    if not chains:
        return "no VLRT"
    best = max(chains, key=lambda chain: chains[chain])
    return f"{best} ({chains[best] / sum(chains.values()):.0%} of VLRT)"


def _chain(row: dict[str, Any]) -> str:
    dropper = f"{row['dropper']} drops" if row["dropper"] else "nothing is dropped"
    origin = f"{row['origin']}: {row['cause']}" if row["origin"] else f"cause {row['cause']}"
    return f"{dropper}, {origin}, {row['ctqo']}"
