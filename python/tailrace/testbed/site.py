"""Where a testbed lives on this machine: every name and path of it begins with the site's, so that two do not meet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Site:
    name: str = "tailrace"

    @property
    def state(self) -> Path:
        """What is up, and what is to be undone. Gone after a reboot, as namespaces and groups are."""
        return Path("/run") / f"{self.name}-testbed"

    @property
    def files(self) -> Path:
        """Rendered configurations, logs and databases: on a disk, which a database is meant to feel."""
        return Path("/var/tmp") / f"{self.name}-testbed"

    @property
    def group(self) -> str:
        """The control group that holds all others."""
        return self.name

    def namespace(self, node: str) -> str:
        return f"{self.name}.{node}"
