"""The names and paths of a testbed on this machine: all begin with the site's name, so that two sites do not
collide."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Site:
    name: str = "tailrace"

    @property
    def state(self) -> Path:
        """The record of what runs and what must be undone. It disappears at a reboot, like namespaces and groups."""
        return Path("/run") / f"{self.name}-testbed"

    @property
    def files(self) -> Path:
        """Rendered configurations, logs and databases: on a disk, because a database must wait for it."""
        return Path("/var/tmp") / f"{self.name}-testbed"

    @property
    def group(self) -> str:
        """The control group that contains all others."""
        return self.name

    def namespace(self, node: str) -> str:
        return f"{self.name}.{node}"
