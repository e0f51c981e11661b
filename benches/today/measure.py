"""One run: clients, the front and what is behind it, each in its own namespace and group; the last one is frozen."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from fronts import ORIGINS, Front, Place, Tools

from tailrace import readers
from tailrace.dataset import REQUESTS, SAMPLES, VISITS, Dataset, scan
from tailrace.diagnosis import diagnose
from tailrace.study.drawn import inside
from tailrace.testbed import net, program, undoing
from tailrace.testbed.cgroup import Group, entered, mounted
from tailrace.testbed.ledger import Ledger, held
from tailrace.testbed.nodes import CLIENTS, MONITORS, WATCHERS, listed, top
from tailrace.testbed.program import Program, Room
from tailrace.testbed.recording import packets, recorded
from tailrace.testbed.site import Site
from tailrace.topology import Node, Server, Topology
from tailrace.units import MILLISECOND, SECOND

SITE = Site("tailrace-today")
FRONT, PORT = "front", 80
SHIPPED_QUEUE, SMALL_QUEUE = 4096, 128
"""net.core.somaxconn since Linux 5.4 and before; no server's accept queue is longer."""
WARM_S, CALM_S = 6, 3
"""Load before the recording, in which a JVM compiles; and between the recording's begin and the first freeze."""


@dataclass(frozen=True)
class Condition:
    rate: int
    freeze_s: float
    freezes: int
    every_s: float
    small: bool
    seed: int

    @property
    def seconds(self) -> float:
        return CALM_S + self.freezes * self.every_s


@dataclass(frozen=True)
class Running:
    addresses: dict[str, str]
    groups: dict[str, Group]
    places: dict[str, Place]
    programs: list[Program]

    def room(self, node: str) -> Room:
        return Room(SITE.namespace(node), self.groups[node])


def measure(front: Front, tools: Tools, condition: Condition, folder: Path) -> dict[str, Any]:
    """Numbers of one run; `folder` keeps the run folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with held(SITE) as ledger:
        undoing.undo(ledger)
        try:
            with running(front, tools, condition, folder, ledger) as up:
                frozen = _record(up, front, condition, folder)
        finally:
            undoing.undo(ledger)
    run = folder / "run"
    readers.read(str(folder / "recording"), topology=_topology(up), out=run, overwrite=True)
    shutil.rmtree(folder / "recording")
    return {"frozen_s": frozen, **numbers(run, front)}


@contextmanager
def running(front: Front, tools: Tools, condition: Condition, folder: Path, ledger: Ledger) -> Iterator[Running]:
    nodes = [CLIENTS, FRONT, *front.behind]
    addresses = net.addresses(nodes)
    queue = SMALL_QUEUE if condition.small else SHIPPED_QUEUE
    net.up(SITE, ledger, addresses, {"net.core.somaxconn": str(queue)})
    groups = _groups([*nodes, MONITORS], ledger)
    ports = _ports(front)
    up = Running(addresses, groups, {}, [])
    with ExitStack() as stack:
        for name, called in reversed(list(zip([FRONT, *front.behind], [*front.behind, ""], strict=True))):
            at = folder / name
            at.mkdir(mode=0o755)
            origin = f"{addresses[called]}:{ports[called]}" if called else "none:0"
            up.places[name] = place = Place(addresses[name], ports[name], origin, at, condition.small)
            started = (front.start if name == FRONT else ORIGINS[name].start)(tools, place)
            room = up.room(name)
            up.programs.append(program.start(name, started.command, room, at / "log", env=started.env))
            stack.callback(up.programs[-1].stop)
            up.programs[-1].wait_until(program.listening(room, place.port))
        yield up


def _ports(front: Front) -> dict[str, int]:
    """Of every server of a run, the front first."""
    return {FRONT: PORT, **{name: ORIGINS[name].port for name in front.behind}}


def _groups(names: list[str], ledger: Ledger) -> dict[str, Group]:
    """The front has the last CPU alone; clients, monitors and what is behind it share the others."""
    cpus = sorted(os.sched_getaffinity(0))
    shared, own = (cpus[:-1], cpus[-1:]) if len(cpus) > 1 else (cpus, cpus)
    group = top(SITE, ledger, cpus)
    return {
        name: Group(mounted(), f"{group.path}/{name}").make(
            listed(own if name == FRONT else shared), WATCHERS if name in (CLIENTS, MONITORS) else 1.0
        )
        for name in names
    }


def _record(up: Running, front: Front, condition: Condition, folder: Path) -> list[float]:
    """Warm-up, then a recording in which the last server is frozen; returns how long each freeze really was."""
    _ended(_load(up, condition, folder / "warm-up", condition.rate // 2, WARM_S))
    victim = up.groups[front.behind[-1]]
    frozen: list[float] = []
    with entered(up.groups[MONITORS]), recorded(json.dumps(_plan(up)), folder / "recording"):
        clients = _load(up, condition, folder / "load", condition.rate, round(condition.seconds))
        begun = time.monotonic()
        for number in range(condition.freezes):
            time.sleep(max(0.0, begun + CALM_S + number * condition.every_s - time.monotonic()))
            stopped = time.monotonic()
            _signal(victim, signal.SIGSTOP)
            time.sleep(condition.freeze_s)
            _signal(victim, signal.SIGCONT)
            frozen.append(round(time.monotonic() - stopped, 3))
        _ended(clients)
    return frozen


def _signal(group: Group, which: signal.Signals) -> None:
    for pid in group.pids():
        with suppress(ProcessLookupError):
            os.kill(pid, which)


def _load(up: Running, condition: Condition, out: Path, rate: int, seconds: int) -> Program:
    target = f"{FRONT}=http://{up.places[FRONT].at}/"
    words = ["--rate", str(rate), "--duration", f"{seconds}s", "--drain", "20s", "--seed", str(condition.seed)]
    command = [sys.executable, "-P", "-m", "tailrace", "load", target, "--quiet", "--i-own-this-target", *words]
    return program.start("the load", [*command, "-o", str(out)], up.room(CLIENTS), out.with_suffix(".log"))


def _ended(clients: Program) -> None:
    if clients.process.wait() != 0:
        sys.exit(f"the load ended with {clients.process.returncode}: {clients.told()}")


def _plan(up: Running) -> dict[str, Any]:
    """The recorder's options (crates/core/src/host/options.rs)."""
    return {
        "interval_ns": 50 * MILLISECOND,
        "nodes": [
            {"name": name, "netns": str(net.NAMED / SITE.namespace(name)), "cgroup": up.groups[name].path}
            for name in up.places
        ],
        "ports": sorted({place.port for place in up.places.values()}),
        "packets": packets(SITE),
    }


def _topology(up: Running) -> Topology:
    return Topology(
        nodes=tuple(Node(name=f"{name}-node", address=place.host, cores=1) for name, place in up.places.items()),
        servers=tuple(Server(name=name, address=place.at, node=f"{name}-node") for name, place in up.places.items()),
        places={name: name for name in up.places},
    )


def numbers(run: Path, front: Front) -> dict[str, Any]:
    """What the recording shows, and what the diagnosis says of it."""
    response = pl.col("end") - pl.col("sent")
    answered = pl.col("status").cast(pl.String) == "ok"
    counts = (
        scan(run / REQUESTS.file)
        .select(
            requests=pl.len(),
            failed=(~answered).sum(),
            vlrt=(response >= SECOND).sum(),
            median_ms=response.median() / MILLISECOND,
        )
        .collect()
        .to_dicts()[0]
    )
    servers = {name: _server(run, name, port) for name, port in _ports(front).items()}
    return {**counts, "servers": servers, "diagnosis": _diagnosis(run)}


def _server(run: Path, name: str, port: int) -> dict[str, int]:
    visits = scan(run / VISITS.file).filter(pl.col("server").cast(pl.String) == name)
    stays = visits.select(label="server", begin="arrival", end="departure")
    most_inside = inside(stays).select(pl.col("value").max()).collect().item()
    queues = scan(run / SAMPLES.file).filter(pl.col("place").cast(pl.String) == f"{name}:{port}")

    def most(metric: str) -> int:
        chosen = queues.filter(pl.col("metric").cast(pl.String) == metric)
        return int(chosen.select(pl.col("value").max()).collect().item() or 0)

    lost = visits.select(pl.col("drops").cast(pl.Int64).sum()).collect().item()
    return {
        "held_max": int(most_inside or 0),
        "accept_queue_max": most("accept_queue"),
        "accept_queue_limit": most("accept_queue_limit"),
        "lost_syns": int(lost or 0),
    }


def _diagnosis(run: Path) -> dict[str, Any]:
    found = diagnose(Dataset.open(run), threshold_ns=SECOND)
    rows = [
        {"dropper": row.dropper, "origin": row.origin, "cause": row.cause, "ctqo": row.ctqo, "vlrt": row.vlrt}
        for row in found.summary
    ]
    return {"vlrt": found.vlrt, "rows": rows}
