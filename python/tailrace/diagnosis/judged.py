"""What the ledger says of an episode: plain values; nothing here computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

DONE, IDLE, UNACCOUNTED = "done", "idle", "unaccounted"


@dataclass(frozen=True)
class Charged:
    """What a line of the ledger is charged with: a cause, and the server whose capacity it took."""

    cause: str
    server: str | None
    """None of bursts and retries, which are the clients'."""
    place: str | None
    """Who took it, where that is neither the server nor the clients."""
    share: float
    """Of the episode's VLRT requests (Shapley's value over the lines)."""
    vlrt_without: int
    """How many VLRT requests the replay has without this line alone."""


@dataclass(frozen=True)
class Lost:
    cause: str
    lost_ns: int


@dataclass(frozen=True)
class Columns:
    """The account of a server step by step, for pictures."""

    begin: int
    step_ns: int
    shares: Mapping[str, NDArray[np.float64]]
    """Shares of the capacity that add up to 1 in each step: `DONE`, each cause, `UNACCOUNTED`, `IDLE`."""
    queue_recorded: NDArray[np.float64]
    queue_replayed: NDArray[np.float64]


@dataclass(frozen=True)
class Sheet:
    """What became of the capacity of a server from `begin` to `end`, in nanoseconds of CPU time: `capacity_ns` is the
    sum of the others."""

    server: str
    begin: int
    end: int
    capacity_ns: int
    done_ns: int
    idle_ns: int
    lost: tuple[Lost, ...]
    unaccounted_ns: int
    columns: Columns | None = field(default=None, compare=False, metadata={"json": False})


@dataclass(frozen=True)
class Judged:
    """An episode as the ledger has it, and as its replay has it with and without each line."""

    reproduced: bool
    """Whether the replay is a model of the episode: `lines` is empty where it is none."""
    not_reproduced: tuple[str, ...]
    """Servers whose queue was another in the replay, the most different first."""
    vlrt_recorded: int
    vlrt_replayed: int
    error: float
    """How far the replay is off: |replayed - recorded| / recorded."""
    sentence: str
    lines: tuple[Charged, ...]
    """The largest share first; `unknown` is what nothing recorded accounts for."""
    servers: tuple[Sheet, ...]
    """The origin first, then the servers of the lines; docs/reference/diagnosis-json.md has the rule."""
