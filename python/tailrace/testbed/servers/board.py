"""The bulletin board on an embedded Tomcat: blocking servlets with JDBC, or asynchronous ones with a non-blocking
driver."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import tailrace
from tailrace.errors import TailraceError
from tailrace.experiment import rubbos
from tailrace.experiment.catalogue import interactions
from tailrace.experiment.interactions import Interaction
from tailrace.experiment.tiers import Heap
from tailrace.testbed.program import where
from tailrace.testbed.servers.kind import Kind, Refusal
from tailrace.testbed.servers.setting import Setting

LOOPS = 8
"""Threads of the asynchronous server if the tier has any number: they never wait, and a machine has few cores."""
CONNECTIONS = 20_000
"""More connections than callers ever open."""
PAGES = tuple(rubbos.states())
YOUNG_BYTES = 256 << 20
WAITING_BYTES = 100_000
"""Approximate memory that a request of the asynchronous server keeps while it waits: the live set grew by 150 MB with
1000 to 2000 of them in flight. A heap of 742 MB was full after one slow moment, and repeated full collections never
freed it."""
COLLECTION_NS_PER_BYTE = 2.6
"""Time per byte of chains of small objects, including those that pages made since the last collection. The serial
collector took 1.3 to 1.6 s for 574 MB, and 1.1 to 1.3 s for 424 MB. It took twice as long beside compilers that filled
the machine's caches."""
LIVE_MIN = 1 << 20
EDEN_PARTS = 10
"""Eight tenths of a young generation are filled, and two are for survivors (SurvivorRatio)."""
PAGE_BYTES = 57_000
"""What a page of the browse-only walk allocates by itself: 210 MB in 3.6 s at 1000 pages/s."""
JVM_BYTES = 32 << 20
"""Live memory of Tomcat, its threads and its connections: 23 MB."""
GC_LOG = "gc.log"


def jar() -> Path:
    """The board as `make testbed-setup` builds it; TAILRACE_BOARD overrides the path."""
    return Path(os.environ.get("TAILRACE_BOARD") or Path(tailrace.__file__).parents[2] / "board/target/board.jar")


def built() -> Path:
    """The same, which exists. Raises TailraceError."""
    if not jar().is_file():
        raise TailraceError("the bulletin board is not built", where=str(jar()), advice="run `make testbed-setup`")
    return jar()


def java(heap: list[str], *arguments: str) -> list[str]:
    return [where("java"), *heap, "-jar", str(built()), *arguments]


def connector(setting: Setting) -> str:
    return "ajp" if any(caller.software == "apache" for caller in setting.callers) else "http"


def _files(setting: Setting) -> Mapping[str, str]:
    tier, [called] = setting.tier, setting.calls
    blocking, speaks = tier.kind == "sync", connector(setting)
    order = "fifo" if called.call.priority is None else "priority"
    pool = {
        "size": called.call.pool or (tier.workers if blocking else 0),
        "per": "interaction" if "interaction" in (called.call.pool_per or ()) else "server",
        "order": order,
        "priority": called.call.priority,
    }
    pages = {name: page for name, page in interactions(setting.experiment).items() if name in PAGES}
    return {
        "board.properties": setting.render(
            "board.properties.j2",
            edge="blocking" if blocking else "async",
            connector=speaks,
            threads=tier.workers or LOOPS,
            # a blocking HTTP connector accepts as many connections as it has threads, and the rest wait in the backlog;
            # mod_jk keeps its connections, so any more would never be served
            connections=tier.workers if blocking and speaks == "http" else CONNECTIONS,
            kept=speaks == "ajp"
            or any(setting.name in c.calls and c.calls[setting.name].kept for c in setting.callers),
            database=called.candidates[0],
            pool=pool,
            pages={name: page.light for name, page in pages.items()},
            work={"default": 0, **{name: _work(setting, page) for name, page in pages.items()}},
            live=_live_bytes(setting),
        )
    }


def _work(setting: Setting, page: Interaction) -> int:
    """CPU time in ns that a page takes in addition to the real page's own."""
    tier = setting.tier
    at = page.at.get(setting.name) or page.at.get(tier.role or setting.name)
    return round(at.compute * tier.demand_factor) if at else 0


def _live_bytes(setting: Setting) -> int:
    """Sizes of a live set whose collection takes the longest time that the experiment's heap has, and of a young
    generation."""
    heap = setting.tier.heap
    if heap is None:
        return 0
    longest = max(c.base for c in (heap.young_collection, heap.old_collection) if c)
    return max(LIVE_MIN, round(longest / COLLECTION_NS_PER_BYTE) - heap.young)


def _eden_bytes(heap: Heap) -> int:
    """Includes room for what pages allocate by themselves, so that it fills as often as the experiment's."""
    return heap.young + heap.young * PAGE_BYTES // heap.per_visit if heap.per_visit else heap.young


def _jvm(setting: Setting) -> list[str]:
    """The serial collector: the papers study long stops, and the JVM chooses it for one core anyway."""
    young, old = _generations(setting)
    log = f"-Xlog:gc*,safepoint:file={setting.folder}/{GC_LOG}:time,timenanos,level,tags"
    waiting = 0 if setting.tier.kind == "sync" else CONNECTIONS * WAITING_BYTES
    whole = f"{(young + old + waiting) >> 20}m"
    sizes = [f"-Xms{whole}", f"-Xmx{whole}", f"-Xmn{young >> 20}m"]
    return ["-XX:+UseSerialGC", "-XX:+AlwaysPreTouch", *sizes, log, f"-Djava.io.tmpdir={setting.folder}"]


def _generations(setting: Setting) -> tuple[int, int]:
    """Bytes of the young and the old generation. The old one has room for what `old_every` young collections promote.
    If the heap has only young collections, it has so little room that each becomes a full one."""
    heap = setting.tier.heap
    if heap is None:
        return YOUNG_BYTES, 2 * YOUNG_BYTES
    room = heap.young * heap.old_every or heap.young // 4
    return _eden_bytes(heap) * EDEN_PARTS // (EDEN_PARTS - 2), _live_bytes(setting) + JVM_BYTES + room


def _refuses(setting: Setting) -> Iterator[Refusal]:
    tier = setting.tier
    if len(setting.calls) != 1:
        yield "calls", "the bulletin board calls one tier"
    if tier.heap and tier.heap.old_above:
        yield "heap.old_above", "the JVM decides when an old collection follows"
    if tier.heap and any(tier.heap.filled):
        yield "heap.filled", "a JVM begins with an empty heap"
    if tier.kind == "bounded":
        yield "kind", "the bulletin board is sync or async"
    if {connector(setting)} == {"ajp"} and any(caller.software != "apache" for caller in setting.callers):
        yield "software", "one Tomcat cannot be called by AJP and by HTTP"
    for called in setting.calls:
        if called.tier.software not in ("mysql", "xmysql", "haproxy", "cjdbc"):
            yield "calls", "the bulletin board calls a database, or HAProxy before it"
        if len(called.candidates) > 1:
            yield "calls", "the bulletin board calls one database; put a tier of haproxy before several"
        if called.call.priority is not None and tier.kind != "sync":
            yield "calls.priority", "only blocking servlets wait for a connection"


KIND = Kind(
    port=lambda setting: 8009 if connector(setting) == "ajp" else 8080,
    files=_files,
    command=lambda setting: java(_jvm(setting), "serve", f"{setting.folder}/board.properties"),
    refuses=_refuses,
    says="ready",
    logs=(GC_LOG,),
)
