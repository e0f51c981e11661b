"""This host → a recording: a folder of closed segments, which `tailrace.readers` reads.

```text
record()     OUT.recording/   recording.json, 00000001.samples.parquet, 00000002.stays.parquet, …
                              (locked while its recorder lives)
```

The engine (crates/core/src/host) samples, decodes and writes. This module tells it what to record, stops it, and
reports what is missing. A folder whose recorder was killed is read like one that was closed:
`tailrace read OUT.recording -o OUT`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tailrace import endings, locks, whole
from tailrace.errors import OutputError, TailraceError, UsageError, cannot_write
from tailrace.units import MILLISECOND

DECODER = (sys.executable, "-P", "-c", "from tailrace import _core; _core.decode_packets()")
"""The process that decodes packets, without any rights. -P: nothing is loaded from the current folder."""

STATE = "recording.json"
"""The state file of a recording: crates/core/src/host/state.rs."""
_WRITTEN = re.compile(
    r"(recording\.json|\d{8,}\.(samples|events|stays)\.parquet|\d{8,}\.packets\.pcap)(\.[0-9a-f]{16}\.tmp)?"
    r"|\.lock|diagnosis\.txt|errors\.txt|explained"
)
"""Files of a recording: crates/core/src/host/segments.rs, and what `watch` adds (watch/incidents.py)."""


@dataclass(frozen=True)
class Node:
    """What is sampled under one name. Paths: a network namespace (`/run/netns/web`, `/proc/4711/ns/net`), and a control
    group (a directory, or a name below the mounted hierarchies)."""

    name: str
    netns: str | None = None
    cgroup: str | None = None
    found: bool = False
    """Tailrace found it: if it is gone when the recording begins, it is left out."""


@dataclass(frozen=True)
class Process:
    name: str
    pid: int


@dataclass(frozen=True)
class Interface:
    """A network interface, in the recorder's network namespace or in the one at this path."""

    name: str
    netns: str | None = None


@dataclass(frozen=True)
class Packets:
    """Which packets are read, and whether they become visits or, with `raw`, a capture."""

    interfaces: Sequence[Interface]
    """Interfaces of one namespace; if empty, every interface of the recorder's namespace."""
    ports: Sequence[int] = ()
    promiscuous: bool = False
    """Whether to read packets for other hosts, too: those that pass a bridge or come to a mirror port."""
    snap: int = 256
    """Bytes of each packet from its IP header on. They must hold the headers and the line that names a request."""
    ring_bytes: int = 16 << 20
    raw: bool = False
    decoder: Sequence[str] = DECODER
    decode: Mapping[str, Any] = field(default_factory=dict)
    """Options of the decoder; crates/core/src/capture/decode.rs describes them."""


@dataclass(frozen=True)
class Plan:
    """What to record; crates/core/src/host/options.rs describes the fields."""

    interval_ns: int = 50 * MILLISECOND
    duration_ns: int | None = None
    keep_ns: int | None = None
    nodes: Sequence[Node] = ()
    containers: Mapping[str, str] = field(default_factory=dict)
    """Identifier of a container → the name of servers in it."""
    processes: Sequence[Process] = ()
    every_process: bool = False
    """Sample the CPU time of all processes, and name servers after those that listen."""
    ports: Sequence[int] = ()
    leave_out: Sequence[str] = ()
    """`ip:port` of the recorder's own listening sockets, which are not recorded."""
    keep_dac_override: bool = False
    """The run's folder is inside another user's folder, where root without special rights could not write."""
    packets: Packets | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class Stop:
    """Whether a signal has asked the recording to end."""

    asked: bool = field(default=False)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def recording_of(out: Path) -> Path:
    """The folder of the recording until it becomes the run folder `out`."""
    return out.with_name(f"{out.name}.recording")


def _always() -> bool:
    return True


def record(
    folder: Path, plan: Plan, say: Callable[[str, str], None], go_on: Callable[[], bool] = _always
) -> dict[str, Any]:
    """Record into `folder`, which must not exist. The recording ends by a signal (`endings`), after the plan's
    duration, or when `go_on`, which is called five times a second, returns false. Returns its state.

    `say(kind, sentence)` is called with `recording` when everything runs, and with `warning` when something goes wrong.
    If something cannot be recorded at all (no such namespace, no permission), it raises `UsageError` and leaves no
    files.

    Once everything is open, this thread gives up its capabilities for good, and the recording threads keep only those
    that they need. Import heavy modules afterwards: threads that such a module starts keep all capabilities.
    """
    from tailrace._core import record as engine

    with _made(folder), _until_signal() as stop:

        def heard(kind: str, sentence: str) -> bool:
            if kind:
                say(kind, sentence)
            return not stop.asked and go_on()

        try:
            state: dict[str, Any] = json.loads(engine(plan.to_json(), str(folder), heard))
        except ValueError as error:
            raise UsageError(str(error)) from error
        except OSError as error:
            refused = cannot_write(folder, error)
            raise (kept(folder, refused) if _rows(folder) else refused) from error
    return state


def kept(folder: Path, refused: OutputError) -> OutputError:
    """Advice for a recording that could not be finished or read where it is."""
    advice = (
        f"the recording is kept: free some space, then make a run folder of it with `tailrace read {folder} -o NAME`"
    )
    return OutputError(folder, refused.found, advice)


def _rows(folder: Path) -> bool:
    return any(folder.glob("*.parquet"))


def discard(folder: Path) -> None:
    """Remove a recording that has become a run folder; files that Tailrace did not write stay."""
    from tailrace.dataset import remove_known

    remove_known(folder, lambda path: bool(_WRITTEN.fullmatch(str(path))))


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder, locked while its recorder lives, and removed if nothing could be recorded."""
    try:
        folder.mkdir(whole.folder_mode())
    except FileExistsError:
        raise _in_the_way(folder) from None
    except OSError as error:
        raise cannot_write(folder, error) from error
    lock = locks.hold(folder)
    try:
        yield
    except TailraceError:
        if not _rows(folder):
            discard(folder)
        raise
    finally:
        os.close(lock)


def _in_the_way(folder: Path) -> UsageError:
    if locks.is_held(folder):
        return UsageError("another recorder is writing there", where=str(folder), advice="choose another name")
    advice = f"read it with `tailrace read {folder} -o NAME`, then remove it"
    return UsageError("it holds an unfinished recording", where=str(folder), advice=advice)


@contextmanager
def _until_signal() -> Iterator[Stop]:
    """SIGINT, SIGTERM and SIGHUP end the recording in order. Only Python's main thread receives signals."""
    stop = Stop()
    in_main = threading.current_thread() is threading.main_thread()
    before = endings.handle(stop) if in_main else {}
    try:
        yield stop
    finally:
        endings.restore(before)
