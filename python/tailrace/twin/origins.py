"""Where the twin's values of settings come from: what of the recording states them, or what they were inferred from.

A value is `seen in` an input that states it, `inferred from` what visits and samples show, or `assumed`, because
nothing shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tailrace.diagnosis.view import View
from tailrace.topology import Server, Topology

STATED = "seen in topology.toml"
ASSUMED = "assumed, because the recording does not show it"
OF_REPEATS = "inferred from when lost attempts were repeated"
OF_PLACES = "inferred from what was inside when visits waited and attempts were lost"
OF_CALLS = "inferred from calls that were held at it"
OF_CONNECTIONS = "inferred from the connections that were opened"


@dataclass
class Origins:
    stated: Topology
    """As the run folder has it, before anything is inferred."""
    view: View
    of: dict[str, str] = field(default_factory=dict)
    """Key of the experiment → where its value comes from."""

    def of_tier(self, tier: str, server: str, keys: Mapping[str, Any]) -> None:
        """Those of the settings of a tier, whose values are `keys`."""
        known = self.stated.server(server) or Server(name=server)
        self.of[f"tiers.{tier}.backlog"] = STATED if known.backlog else self._backlog(server)
        self.of[f"tiers.{tier}.kind"] = STATED if known.kind else ASSUMED
        if keys.get("workers"):
            self.of[f"tiers.{tier}.workers"] = STATED if known.workers else OF_PLACES

    def _backlog(self, server: str) -> str:
        found = self.view.topology.server(server)
        if found is None or not found.backlog:
            return ASSUMED
        for metric, how in (("accept_queue_limit", "seen in"), ("accept_queue", "inferred from")):
            if self.view.series(server, metric):
                return f"{how} samples of {metric}"
        return OF_PLACES

    def of_calls(self, key: str, pooled: bool, keys: Mapping[str, Any], kept_known: bool) -> None:
        """Those of how a tier calls another one. `pooled`: the topology has the pool; `kept_known`: the recording shows
        whether connections are kept."""
        if keys.get("pool"):
            self.of[f"{key}.pool"] = STATED if pooled else OF_CALLS
        self.of[f"{key}.kept"] = OF_CONNECTIONS if kept_known else ASSUMED
        if "policy" in keys:
            self.of[f"{key}.policy"] = STATED
