"""The testbed's interface to one kind of server."""

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
    """Nothing needs to be done before the start."""


@dataclass(frozen=True)
class Kind:
    port: Callable[[Setting], int]
    """The port on which it listens if it is free on its node."""
    files: Callable[[Setting], Mapping[str, str]]
    """Its configuration, by file name."""
    command: Callable[[Setting], list[str]]
    prepare: Callable[[Setting, Room], None] = _is_prepared
    refuses: Callable[[Setting], Iterator[Refusal]] = _refuses_nothing
    says: str = ""
    """The beginning of an output line that means it is ready; if empty, it is ready when it listens."""
    stop: signal.Signals = signal.SIGTERM
    logs: tuple[str, ...] = ()
    """Files that the readers can read, such as a JVM's log of collections."""
