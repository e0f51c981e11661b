"""The parts of a run folder beside its tables: the topology and the manifest."""

from __future__ import annotations

from typing import Any

from tailrace import topology as topology_file
from tailrace.anonymise import vocabulary
from tailrace.anonymise.tokens import Tokens
from tailrace.dataset import Connections, Dataset, Writer
from tailrace.topology import Topology

_NOTE = "anonymised: names are keyed hashes, times are shifted, details of events and notes are left out"


def learn(run: Dataset, tokens: Tokens) -> None:
    """The kinds of names, before any table has them: a place with the name of a server is that server."""
    known = run.topology
    for server in known.servers:
        tokens.name("server", server.name)
    for node in known.nodes:
        tokens.name("node", node.name)


def rewrite(run: Dataset, tokens: Tokens, writer: Writer) -> None:
    writer.topology = _topology(run.topology, tokens)
    manifest = run.manifest
    known = manifest.maker in vocabulary.MAKERS
    writer.maker = manifest.maker if known else tokens.token("maker", manifest.maker)
    for text, count in manifest.lost.items():
        writer.lose(tokens.loss(text) or vocabulary.OTHER_LOSSES, count)
    writer.notes.insert(0, _NOTE)
    writer.connections = _connections(manifest.connections, tokens)


def _topology(known: Topology, tokens: Tokens) -> Topology:
    table: dict[str, Any] = known.model_dump(mode="json", exclude_none=True)
    for kind, items in table.items():
        if isinstance(items, list):
            for item in items:
                item.update({key: _value(kind, key, value, tokens) for key, value in item.items()})
    table["places"] = {_name(place, tokens): _name(name, tokens) for place, name in known.places.items()}
    table["cpus"] = {_name(place, tokens): numbers for place, numbers in known.cpus.items()}
    return topology_file.from_table(table)


def _name(text: str, tokens: Tokens) -> str:
    return tokens.name("place", text)


def _value(kind: str, key: str, value: Any, tokens: Tokens) -> Any:
    """The replacement of a value in the topology; numbers stay."""
    match kind, key:
        case ("balancers", "candidates"):
            return [tokens.name("server", name) for name in value]
        case ("pools", "interactions"):
            return [tokens.interaction(name) for name in value]
        case ("servers", "kind"):
            return value
        case ("servers", "software"):
            return vocabulary.software(value) or tokens.token("software", value)
        case ("servers", "protocol"):
            return value if value in vocabulary.PROTOCOLS else tokens.token("protocol", value)
        case ("balancers", "policy"):
            return value if value in vocabulary.POLICIES else tokens.token("policy", value)
        case ("clocks", "capture"):
            return tokens.token("file", value)
        case ("pools" | "balancers", "name"):
            return tokens.token(kind.removesuffix("s"), value)
        case ("nodes", "host"):
            return tokens.name("node", value)
        case (_, "address"):
            return tokens.address(value)
        case ("servers", "addresses"):
            return [tokens.address(address) for address in value]
    return tokens.name("server", value) if isinstance(value, str) else value


def _connections(known: Connections, tokens: Tokens) -> Connections:
    table = known.to_table()
    table["servers"] = {tokens.name("server", name): counts for name, counts in table["servers"].items()}
    for row in table["apart"]:
        row["to"] = {tokens.name("server", name): count for name, count in row["to"].items()}
        row["begin"] += tokens.shift_ns
        row["end"] += tokens.shift_ns
        if row["state"] not in ("unanswered", "refused", "half-open"):
            row["state"] = tokens.token("state", row["state"])
    return Connections.from_table(table)
