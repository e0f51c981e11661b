"""The machines that servers run on: `[nodes.NAME]`. The defaults are the papers' machines."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tailrace.experiment.quantities import Above0, Duration, Frequency, Positive, Rate, Share, Size
from tailrace.toml import Flag, Table

_GHZ = 1e9
_P_STATES = tuple(round(1.12 * _GHZ + (2.26 - 1.12) * _GHZ * step / 8) for step in range(9))


class Governor(Table):
    """A clock rate that follows the load (DVFS). An empty table is the papers' governor."""

    period: Positive = Field(500_000_000)
    """How often it reads the utilisation: 500 ms, Dell's BIOS (`lightning` 3.2)."""
    frequencies: tuple[Frequency, ...] = Field(tuple(float(hz) for hz in _P_STATES), min_length=1)
    """P-states, slowest first; the last is full speed. Nine from 1.12 to 2.26 GHz, the Xeon E5607 (`lightning` 3.2);
    the paper does not give the steps, so they are even."""
    up: Share = 0.8
    """It takes one step up at this CPU utilisation in the last period. The papers do not give it; Linux' ondemand uses
    0.8."""
    down: Share = 0.5
    """It takes one step down below this utilisation. The papers do not give it."""
    up_at_once: Flag = False
    """It goes straight to full speed instead of one step up, as Linux' ondemand does."""
    first: Positive | None = None
    """Its first reading after the begin of the run. Default: after a period. Real governors have their own."""
    start: Frequency | None = None
    """The clock rate at the begin of the run. Default: the slowest."""


class Writeback(Table):
    """The page cache and its flusher (`vm.dirty_*` of Linux). An empty table is Linux' defaults."""

    period: Positive = 5_000_000_000
    """How often the flusher wakes: `dirty_writeback_centisecs` = 500."""
    first: Duration | None = None
    """The first wake-up after the ramp; others are whole periods before and after. Default: as `phases` says."""
    phases: Literal["even", "drawn"] = "even"
    """even: flushers of different nodes divide the period evenly, and files of a server divide the time between two
    flushes. drawn: each seed draws the wake-up times and the ages of the files."""
    expire: Positive = 30_000_000_000
    """It writes files that have been dirty this long: `dirty_expire_centisecs` = 3000."""
    background: Share = 0.1
    """It writes everything as soon as this share of the memory is dirty: `dirty_background_ratio` = 10."""
    limit: Share = 0.2
    """From this share of the memory on, a visit that writes to a log waits for the disk: `dirty_ratio` = 20."""
    blocks: Share = 1.0
    """Share of the node's CPU time that waits for the disk during a write: pdflush caused 100 % iowait (`balancers`
    III-B)."""


class Flush(Table):
    """A logger that periodically writes what it has gathered. An empty table is the papers' collectl."""

    period: Positive = 30_000_000_000
    """30 s (`rpc-vs-async` IV-B)."""
    first: Duration = 10_000_000_000
    """First flush after the ramp: 10 s (`rpc-vs-async` fig. 5)."""
    rate: Rate = 800_000
    """What it gathers by itself, in addition to what visits log if there is no `writeback`. The papers do not give it;
    800 kB/s make a flush of 0.4 s, the length that `rpc-vs-async` III calls sufficient."""
    blocks: Share = 1.0
    """Share of the node's CPU time that waits for the disk during a flush: 100 % I/O wait (`rpc-vs-async` IV-B)."""


class Disk(Table):
    """The disk that logs are written to."""

    bandwidth: Rate = 60_000_000
    """The bandwidth of a 7,200 rpm SATA disk; all papers have one, and none gives its bandwidth."""
    writeback: Writeback | None = None
    """Dirty pages: log bytes of the tiers on this node, written by a flusher. Without it only a `flush` writes them."""
    flush: Flush | None = None
    """A logger that flushes periodically."""


class Node(Table):
    """A machine with its own CPUs, clock rate and disk."""

    cores: Above0 = 1.0
    """`rpc-vs-async` fig. 13: virtual machines of one core."""
    memory: Size = 2 * 2**30
    """2 GB (`rpc-vs-async` fig. 13)."""
    steal: Literal["hidden", "shown", "busy"] = "hidden"
    """What its guests see of the time that other guests got: nothing, `cpu_steal`, or their own busy time, as the
    guests of `rpc-vs-async` fig. 3 do, which do not know of others."""
    governor: Governor | None = None
    """Without it the clock rate stays at full speed."""
    disk: Disk | None = None
    """Without it no visit waits for a disk."""
