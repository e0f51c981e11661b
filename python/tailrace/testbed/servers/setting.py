"""The values for a server's configuration: its tier, its address, its callees and callers, and its files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from tailrace.experiment import Experiment
from tailrace.experiment.tiers import Call, Tier


@dataclass(frozen=True)
class Account:
    """The database is reachable only inside the testbed's namespaces."""

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
    """A called tier: how it is called, and its servers."""

    tier: Tier
    call: Call
    endpoint: str
    """What happens when a candidate's pool is empty: wait, original or modified."""
    recover_time: int
    """How long a candidate stays in the error state, ns."""
    candidates: tuple[Endpoint, ...]


@dataclass(frozen=True)
class Setting:
    experiment: Experiment
    name: str
    """The servers of its tier."""
    tier: Tier
    at: Endpoint
    cores: int
    """CPUs of its node."""
    callers: tuple[Tier, ...]
    calls: tuple[Called, ...]
    folder: Path
    """The folder of its configuration, logs and data; `raw/` keeps it without the data."""

    @property
    def backlog(self) -> int:
        """The argument of listen(). While an event loop is stalled, requests that it would otherwise take at once wait
        there."""
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
