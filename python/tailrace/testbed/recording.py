"""The recording of a run: all packets that pass the bridge, and samples of every node and server.

The engine's recorder (crates/core/src/host) runs in this process, on its own threads, and records as on any host. A
node with a governor has samples of its own: `clock`.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tailrace.errors import TailraceError, cannot_write
from tailrace.testbed import net
from tailrace.testbed.site import Site
from tailrace.testbed.system import System

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SNAP = 192
"""52 bytes of IP and TCP headers; the rest holds the name of the request: method and path, command and table."""
RING_BYTES = 4 << 20
"""This holds most of a second at 20,000 packets a second; none was lost. While the kernel creates a larger ring, that
CPU does nothing else: 30 ms for 4 MiB, 100 ms for 16, 500 ms for 64, a millibottleneck in the middle of the load."""


def recording(system: System, folder: Path) -> AbstractContextManager[None]:
    return recorded(json.dumps(plan(system)), folder)


@contextmanager
def recorded(options: str, folder: Path) -> Iterator[None]:
    """Records into segments in `folder`, from when everything is open until the block ends. `options`: the recorder's,
    as JSON (crates/core/src/host/options.rs).

    Rows that could not be written, for example to a full disk, raise an OutputError, because the run would lack them.
    """
    from tailrace._core import record

    begun, over = threading.Event(), threading.Event()

    def go_on(kind: str, sentence: str) -> bool:
        if kind == "recording":
            begun.set()
        return not over.is_set()

    folder.mkdir()
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(record, options, str(folder), go_on)
        done.add_done_callback(lambda _: begun.set())
        try:
            begun.wait()
            if done.done():
                _end(done, folder)
            yield
        finally:
            over.set()
    _end(done, folder)


def _end(done: Future[str], folder: Path) -> None:
    try:
        lost = json.loads(done.result())["lost"]
    except ValueError as error:
        raise TailraceError(f"the recorder: {error}", advice="see `tailrace testbed doctor`") from error
    except OSError as error:
        raise cannot_write(folder, error) from error
    for what in lost:
        if "os error" in what:
            raise cannot_write(folder, OSError(what))


def plan(system: System) -> dict[str, Any]:
    """The recorder's options (crates/core/src/host/options.rs)."""
    nodes = system.nodes
    governed = {place for clock in system.clocks.values() for place in clock.places()}
    return {
        "interval_ns": system.experiment.sampling.interval,
        "epoch_ns": system.epoch.offset,
        "nodes": [
            {
                "name": name,
                "netns": str(net.NAMED / nodes.site.namespace(name)) if name in nodes.cpus else None,
                "cgroup": None if name in governed else group.path,
            }
            for name, (group, _) in nodes.groups().items()
        ],
        "ports": sorted({setting.at.port for setting in system.settings.values()}),
        "packets": packets(nodes.site),
    }


def packets(site: Site) -> dict[str, Any]:
    """All packets that pass the bridge."""
    return {
        "interfaces": [{"name": net.BRIDGE, "netns": str(net.NAMED / site.namespace(net.SWITCH))}],
        "promiscuous": True,
        "snap": SNAP,
        "ring_bytes": RING_BYTES,
        "raw": True,
    }


def compress(file: Path) -> None:
    """Compress to FILE.zst, which the readers also read."""
    with file.open("rb") as plain, zstd.open(file.with_name(f"{file.name}.zst"), "wb", level=3) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    file.unlink()
