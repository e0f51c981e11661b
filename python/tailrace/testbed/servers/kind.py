"""What one sort of server is to the testbed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tailrace.testbed.program import Room
from tailrace.testbed.servers.setting import Setting

Refusal = tuple[str, str]
"""Key below `tiers.NAME`, and why the server cannot do it."""


def _refuses_nothing(setting: Setting) -> Iterator[Refusal]:
    return iter(())


def _is_prepared(setting: Setting, room: Room) -> None:
    """There is nothing to do before it is started."""


@dataclass(frozen=True)
class Kind:
    port: Callable[[Setting], int]
    """Where it listens when nobody else on its node does."""
    files: Callable[[Setting], Mapping[str, str]]
    """Its configuration, by file name."""
    command: Callable[[Setting], list[str]]
    prepare: Callable[[Setting, Room], None] = _is_prepared
    refuses: Callable[[Setting], Iterator[Refusal]] = _refuses_nothing
    says: str = ""
    """A line of its output that begins so tells that it is ready; empty: it is when it listens."""
    stop: signal.Signals = signal.SIGTERM
    logs: tuple[str, ...] = ()
    """Files that readers understand, such as a JVM's log of collections."""
