"""These values show what the ledger finds for an episode. They are plain values; this module computes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

DONE, IDLE, UNACCOUNTED = "done", "idle", "unaccounted"


@dataclass(frozen=True)
class Charged:
    """A line of the ledger is charged with this: a cause, and the server whose capacity it took."""

    cause: str
    server: str | None
    """It is None for bursts and retries, which belong to the clients."""
    place: str | None
    """This place took the capacity, where it is neither the server nor the clients."""
    share: float
    """This is the share of the episode's VLRT requests (the Shapley value over the lines)."""
    vlrt_without: int
    """This is the number of VLRT requests that the replay has without this line alone."""


@dataclass(frozen=True)
class Lost:
    cause: str
    lost_ns: int


@dataclass(frozen=True)
class Columns:
    """This is the account of a server step by step, for pictures."""

    begin: int
    step_ns: int
    shares: Mapping[str, NDArray[np.float64]]
    """These are shares of the capacity that add up to 1 in each step: `DONE`, each cause, `UNACCOUNTED`, `IDLE`."""
    queue_recorded: NDArray[np.float64]
    queue_replayed: NDArray[np.float64]


@dataclass(frozen=True)
class Sheet:
    """This shows what happened to the capacity of a server from `begin` to `end`, in nanoseconds of CPU time.
    `capacity_ns` is the sum of the others."""

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
    """This is an episode in the ledger, and in its replay with and without each line."""

    reproduced: bool
    """This shows whether the replay is a model of the episode. If it is none, `lines` is empty."""
    not_reproduced: tuple[str, ...]
    """The queue of these servers was different in the replay, the most different first."""
    vlrt_recorded: int
    vlrt_replayed: int
    error: float
    """This is the error of the replay: |replayed - recorded| / recorded."""
    sentence: str
    lines: tuple[Charged, ...]
    """The largest share comes first. `unknown` is the part that nothing recorded accounts for."""
    servers: tuple[Sheet, ...]
    """The origin comes first, then the servers of the lines; docs/reference/diagnosis-json.md has the rule."""
