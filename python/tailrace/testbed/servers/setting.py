"""What a server is told: its tier, where it listens, whom it calls and who calls it, and where its files are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from tailrace.experiment import Experiment
from tailrace.experiment.tiers import Call, Tier


@dataclass(frozen=True)
class Account:
    """Nobody outside the testbed's namespaces can reach the database."""

    name: str = "board"
    user: str = "board"
    password: str = "board"


@dataclass(frozen=True)
class Endpoint:
    name: str
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class Called:
    """A tier that is called: how, and its servers."""

    tier: Tier
    call: Call
    endpoint: str
    """What happens when a candidate's pool is empty: wait, original or modified."""
    recover_time: int
    """How long a candidate is in error, ns."""
    candidates: tuple[Endpoint, ...]


@dataclass(frozen=True)
class Setting:
    experiment: Experiment
    name: str
    """Of its tier."""
    tier: Tier
    at: Endpoint
    cores: int
    """CPUs of its node."""
    callers: tuple[Tier, ...]
    calls: tuple[Called, ...]
    folder: Path
    """Its configuration, logs and data; kept in `raw/` without the data."""

    @property
    def backlog(self) -> int:
        """Of listen(). What an event loop would take in at once waits there while the loop itself is stalled."""
        return max(self.tier.backlog, 0 if self.tier.kind == "sync" else self.tier.light_queue or 0)

    def render(self, template: str, **more: object) -> str:
        known = {"s": self, "tier": self.tier, "at": self.at, "folder": self.folder, "account": Account()}
        return _templates().get_template(template).render(known, **more)


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
