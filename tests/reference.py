"""The tables of docs/reference/experiment.md, written from the schema, so that the page is always correct."""

from __future__ import annotations

import re
from typing import Any

from tailrace import experiment

Json = dict[str, Any]

TABLES = {
    "": "Experiment",
    "sampling": "Sampling",
    "kernel": "Kernel",
    "nodes.NAME": "Node",
    "nodes.NAME.governor": "Governor",
    "nodes.NAME.disk": "Disk",
    "nodes.NAME.disk.writeback": "Writeback",
    "nodes.NAME.disk.flush": "Flush",
    "tiers.NAME": "Tier",
    "tiers.NAME.calls.OTHER": "Call",
    "tiers.NAME.spawn": "Spawn",
    "tiers.NAME.quota": "Quota",
    "tiers.NAME.limit": "Limit",
    "tiers.NAME.inflation": "Inflation",
    "tiers.NAME.heap": "Heap",
    "tiers.NAME.heap.young_collection": "Collection",
    "rubbos": "Rubbos",
    "interactions.NAME": "Interaction",
    "interactions.NAME.at.TIER": "Work",
    "interactions.NAME.at.TIER.calls.OTHER": "Visits",
    "workloads.NAME": "Workload",
    "workloads.NAME, kind = closed": "Closed",
    "workloads.NAME, kind = poisson": "Poisson",
    "workloads.NAME, kind = modulated": "Modulated",
    "workloads.NAME, kind = trace": "Trace",
    "workloads.NAME, kind = batch": "Batch",
    "stalls, kind = slow": "Slow",
    "stalls, kind = freeze": "Freeze",
    "stalls, kind = iowait": "Iowait",
    "stalls, kind = burn": "Burn",
    "stalls, kind = memory": "MemoryWait",
    "stalls, kind = lock": "Lock",
    "stalls, kind = restart": "Restart",
    "stalls, kind = packet-loss": "PacketLoss",
    "stalls, kind = dns": "NoAnswer",
    "losses": "Loss",
}
QUANTITIES = {"50 ms": "duration", "64 MiB": "size", "60 MB/s": "rate", "2.26 GHz": "frequency", "25%": "share"}


BY_SOFTWARE = {
    "Tier": ("kind", "workers", "light_queue"),
    "Call": ("kept", "pool", "pool_per", "for_visit", "policy"),
}
"""Keys whose default the table of software shows."""

KINDS_OF_WORKLOAD = ("Closed", "Poisson", "Modulated", "Trace", "Batch")


def tables() -> str:
    """A heading, a sentence and a table of keys for each table of the file."""
    schema = experiment.json_schema()
    found = {"Experiment": {**schema, "description": ""}, **schema["$defs"]}
    properties = [found[kind]["properties"] for kind in KINDS_OF_WORKLOAD]
    common = {key: value for key, value in properties[0].items() if all(key in other for other in properties)}
    found["Workload"] = {
        "description": "What all have.",
        "properties": {k: v for k, v in common.items() if k != "kind"},
    }
    for kind in KINDS_OF_WORKLOAD:
        own = {k: v for k, v in found[kind]["properties"].items() if k not in common or k == "kind"}
        found[kind] = {**found[kind], "properties": own}
    return "\n".join(_section(heading, found[name]) for heading, name in TABLES.items())


def software() -> str:
    """The defaults of each program, and of a tier that names none."""
    rows = ["| software | role | kind | threads | light queue | its calls |", "|---|---|---|---|---|---|"]
    schema = experiment.json_schema()["$defs"]["Tier"]["properties"]
    named = [(name, {"software": name}) for name in schema["software"]["anyOf"][0]["enum"]]
    bare = [("none", {"kind": kind}) for kind in schema["kind"]["anyOf"][0]["enum"]]
    for name, one in [*named, *bare]:
        tiers = {"one": {**one, "calls": ["two"]}, "two": {}}
        tier = experiment.from_table({"tiers": tiers, "workloads": {"w": {"clients": 1}}}).tiers["one"]
        threads = "one a core" if tier.workers is None else "any number" if tier.workers == 0 else tier.workers
        call = tier.calls["two"]
        per = f" per {' and '.join(call.pool_per)}" if call.pool_per else ""
        pooled = f", pool of {call.pool}{per}" if call.pool else ""
        held = ", one for a visit" if call.for_visit else ""
        calls = f"{'kept' if call.kept else 'a connection each'}{pooled}{held}, {call.policy}"
        role = tier.role if one.get("software") else "its name"
        rows.append(f"| {name} | {role} | {tier.kind} | {threads} | {tier.light_queue} | {calls} |")
    return "\n".join([*rows, ""])


def _section(heading: str, table: Json) -> str:
    path, _, kind = heading.partition(", kind = ")
    brackets = f"`[[{path}]]`" if path in ("stalls", "losses") else f"`[{path}]`" if path else "Top"
    lines = [f"### {brackets}" + (f', `kind = "{kind}"`' if kind else ""), ""]
    if table.get("description"):
        lines += [_prose(table["description"]), ""]
    lines += ["| key | takes | default | |", "|---|---|---|---|"]
    lines += [
        f"| `{key}` | {_takes(value)} | {_default(key, value, table)} | {_prose(value.get('description', ''))} |"
        for key, value in table["properties"].items()
        if "const" not in value
    ]
    return "\n".join([*lines, ""])


def _takes(value: Json) -> str:
    if value.get("examples"):
        return QUANTITIES[value["examples"][0]]
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_takes(one) for one in value["anyOf"] if one.get("type") != "null"))
    if "enum" in value:
        return ", ".join(f'"{word}"' for word in value["enum"])
    if "const" in value:
        return f'"{value["const"]}"'
    if "$ref" in value or "oneOf" in value:
        return "table"
    if value.get("type") == "array":
        return "tables" if {"oneOf", "$ref"} & value["items"].keys() else f"list of {_takes(value['items'])}"
    if value.get("type") == "object":
        inner = _takes(value["additionalProperties"])
        return f"{inner}s, by name" if inner == "table" else f"{inner}, by name"
    return {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}[value["type"]]


def _default(key: str, value: Json, table: Json) -> str:
    if key in table.get("required", ()):
        return "required"
    if key in BY_SOFTWARE.get(table.get("title", ""), ()):
        return "[by its software](#software)"
    default = value.get("default")
    if default is None or default in ([], {}, "") or "$ref" in value:
        return ""
    if isinstance(default, list):
        return f"{default[0]} … {default[-1]}" if len(default) > 1 else f"{default[0]}"
    return str(default).lower() if isinstance(default, bool) else str(default)


def _prose(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")
