"""What containers are called, from what Kubernetes and the runtimes keep in files.

| read | written by | says |
|---|---|---|
| the names of links in `/var/log/containers` | the kubelet, with any runtime | namespace, pod, container |
| `/var/lib/docker/containers/ID/config.v2.json` | Docker | the container's name and labels |
| `containers.json` of `/var/lib/containers/storage` | Podman, CRI-O | the container's names |
| `config.json` in the bundle of a running container | containerd, CRI-O | annotations |
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tailrace import untrusted
from tailrace.bounds import TEXT_BYTES
from tailrace.errors import InputError

LINKS_MAX = 50_000
BUNDLE_BYTES = 1 << 20
NAME_MAX = 253
"""The longest name of a pod (kubernetes.io/docs/concepts/overview/working-with-objects/names)."""
_LINK = re.compile(r"([a-z0-9.-]+)_([a-z0-9-]+)_([a-z0-9-]+)-([0-9a-f]{64})\.log")
_KUBELET = re.compile(r"k8s_([^_]+)_([^_]+)_([^_]+)_[^_]+_\d+")
"""How the kubelet named containers of Docker, and names those of CRI-O: container, pod, namespace, UID, attempt."""
_SANDBOX = "POD"
_DOCKER = "var/lib/docker/containers"
_STORAGE = ("run/containers/storage", "var/lib/containers/storage")
_DRIVERS = ("overlay", "vfs", "btrfs")
_CONTAINERD = "run/containerd/io.containerd.runtime.v2.task"
_LABELS = (
    ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name"),
    ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.container-name"),
)
"""Labels of Docker and annotations of CRI-O, then annotations of containerd."""


@dataclass(frozen=True)
class Named:
    pod: str | None
    """Namespace and pod: `shop/web-0`."""
    container: str | None

    @property
    def text(self) -> str:
        return "/".join(part for part in (self.pod, self.container) if part)

    @property
    def whole(self) -> str:
        """The pod, or the container if it is in none."""
        return self.pod or self.text


def of(root: Path, wanted: Collection[str]) -> dict[str, Named]:
    """Identifier → its names; the first source that knows one counts."""
    if not wanted:
        return {}
    found = {**_stored(root), **_linked(root)}
    for one in wanted:
        if one not in found and (named := next(_described(root, one), None)):
            found[one] = named
    return {one: found[one] for one in wanted if one in found}


def _linked(root: Path) -> dict[str, Named]:
    try:
        with os.scandir(root / "var/log/containers") as entries:
            links = [_LINK.fullmatch(entry.name) for entry in islice(entries, LINKS_MAX)]
    except OSError:
        return {}
    return {link[4]: Named(f"{link[2]}/{link[1]}", link[3]) for link in links if link}


def _stored(root: Path) -> dict[str, Named]:
    found = {}
    for storage in _storages(root):
        for name in ("containers.json", "volatile-containers.json"):
            listed = _json(storage / name)
            for each in listed if isinstance(listed, list) else []:
                names = each.get("names") if isinstance(each, dict) else None
                if isinstance(names, list) and names and (named := _of_name(names[0])):
                    found[str(each.get("id"))] = named
    return found


def _storages(root: Path) -> Iterator[Path]:
    """Where Podman and CRI-O keep what they know of containers."""
    for storage in _STORAGE:
        for driver in _DRIVERS:
            yield root / storage / f"{driver}-containers"


def _described(root: Path, one: str) -> Iterator[Named]:
    """What the files of one container say."""
    kept = _json(root / _DOCKER / one / "config.v2.json")
    if isinstance(kept, dict):
        settings = kept.get("Config")
        labels = settings.get("Labels") if isinstance(settings, dict) else None
        named = _of_labels(labels) or _of_name(kept.get("Name"))
        if named:
            yield named
    for bundle in _bundles(root, one):
        described = _json(bundle / "config.json", BUNDLE_BYTES)
        named = _of_labels(described.get("annotations")) if isinstance(described, dict) else None
        if named:
            yield named


def _bundles(root: Path, one: str) -> Iterator[Path]:
    yield from sorted((root / _CONTAINERD).glob(f"*/{one}"))
    for storage in _storages(root):
        yield storage / one / "userdata"


def _of_labels(labels: object) -> Named | None:
    if not isinstance(labels, Mapping):
        return None
    for keys in _LABELS:
        namespace, pod, container = (_name(labels.get(key)) for key in keys)
        if namespace and pod:
            return Named(f"{namespace}/{pod}", None if container == _SANDBOX else container)
    return None


def _of_name(text: object) -> Named | None:
    name = _name(text)
    kubelet = _KUBELET.fullmatch(name) if name else None
    if kubelet:
        return Named(f"{kubelet[3]}/{kubelet[2]}", None if kubelet[1] == _SANDBOX else kubelet[1])
    return Named(None, name) if name else None


def _name(text: object) -> str | None:
    """A name of a container is chosen by the user who starts it."""
    if not isinstance(text, str):
        return None
    name = text.lstrip("/")
    return name if name and len(name) <= NAME_MAX and name.isprintable() and not re.search(r"[\s/]", name) else None


def _json(path: Path, most: int = TEXT_BYTES) -> Any:
    """None if there is no such file, or it cannot be read."""
    try:
        return untrusted.parse_json(untrusted.read_inside(path, most), path)
    except InputError:
        return None
