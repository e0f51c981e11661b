"""The containers and pods of this host, from files alone: neither a container runtime nor an API server is asked.

```text
groups   control groups → identifiers of containers, their processes, the group of their pod
names    identifiers → the names of namespace, pod and container
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tailrace.containers import groups, names
from tailrace.containers.groups import Group

PODS_MAX = 100
"""Each is read some ten times in each round of samples."""
SHORT = 12
"""Digits of an identifier that has no name, as the runtimes show them."""


@dataclass(frozen=True)
class Pod:
    """Containers that share a network namespace: a pod, or a container on its own."""

    name: str
    netns: str | None
    """None: that of the host."""
    cgroup: str


@dataclass(frozen=True)
class Found:
    pods: tuple[Pod, ...]
    names: Mapping[str, str]
    """Identifier of a container → what to call a server in it."""
    left_out: int
    """Pods beyond the most that are sampled."""


def find(root: Path = Path("/")) -> Found:
    """What runs now. What cannot be read has no name, or is left out."""
    found = groups.of(root)
    known = names.of(root, found)
    pods = list(_pods(root, found, known))
    named = {one: known[one].text if one in known else one[:SHORT] for one in found}
    return Found(tuple(pods[:PODS_MAX]), named, max(0, len(pods) - PODS_MAX))


def _pods(root: Path, found: Mapping[str, Group], known: Mapping[str, names.Named]) -> Iterator[Pod]:
    """A pod may have a container without a name, which holds its network namespace."""
    shared: dict[object, list[str]] = {}
    for one, group in found.items():
        if group.pids:
            shared.setdefault(group.pod or one, []).append(one)
    own = _netns(root, "self")
    for together in shared.values():
        first = next((one for one in together if one in known), together[0])
        name = known[first].whole if first in known else first[:SHORT]
        entered = next(((pid, at) for one in together for pid in found[one].pids if (at := _netns(root, pid))), None)
        elsewhere = entered is not None and entered[1] != own
        netns = f"/proc/{entered[0]}/ns/net" if entered and elsewhere else None
        yield Pod(name, netns, found[first].pod or found[first].path)


def _netns(root: Path, process: int | str) -> tuple[int, int] | None:
    try:
        found = (root / "proc" / str(process) / "ns" / "net").stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
