"""Configures and starts the servers of an experiment one after another; each is ready before its callers start.

```text
files/run/NAME/        configuration, logs and data of each server
files/run/disks/NODE/  the same, where the node has a disk of its own
files/databases/…      what the bulletin board wrote once; every database server gets a copy
```
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tailrace.experiment import Experiment, places
from tailrace.experiment.model import MemoryWait
from tailrace.testbed import clock, disk, folders, nodes, program, swap, syn
from tailrace.testbed.clock import Clock
from tailrace.testbed.epoch import Epoch
from tailrace.testbed.ledger import Ledger
from tailrace.testbed.nodes import Nodes
from tailrace.testbed.program import Program
from tailrace.testbed.refusals import refuse
from tailrace.testbed.servers import KINDS
from tailrace.testbed.servers.kind import Kind
from tailrace.testbed.servers.setting import Setting
from tailrace.testbed.settings import settings
from tailrace.testbed.site import Site


@dataclass(frozen=True)
class System:
    experiment: Experiment
    nodes: Nodes
    settings: dict[str, Setting]
    programs: dict[str, Program]
    folder: Path
    clocks: dict[str, Clock] = field(default_factory=dict)
    """Of nodes with a governor."""
    disks: dict[str, Path] = field(default_factory=dict)
    """Folders of nodes with a disk of their own."""
    epoch: Epoch = field(default_factory=Epoch)

    def servers(self, place: str) -> tuple[str, ...]:
        """The servers that a place means: all of a tier, or one."""
        tier = self.experiment.tiers.get(place)
        return places.server_names(place, tier) if tier else (place,)

    def kind(self, server: str) -> Kind:
        return KINDS[self.settings[server].tier.software or ""]


@contextmanager
def up(site: Site, ledger: Ledger, experiment: Experiment) -> Iterator[System]:
    """Running servers; they are stopped in the opposite order. The ledger removes namespaces and groups."""
    refuse(experiment)
    folder = site.files / "run"
    folders.make(folder, ledger)
    if any(isinstance(stall, MemoryWait) for stall in experiment.stalls):
        swap.up(ledger, folder / "swap")
    disks = _disks(experiment, ledger, folder / "disks")
    up = nodes.up(site, ledger, experiment, syn.sysctls(experiment))
    system = System(
        experiment, up, settings(experiment, up.addresses, folder), {}, folder, _clocks(experiment, up), disks
    )
    with ExitStack() as stack:
        stack.enter_context(clock.governed(list(system.clocks.values())))
        for name, setting in system.settings.items():
            system.programs[name] = _start(system, name, setting)
            stack.callback(system.programs[name].stop, system.kind(name).stop)
        for node, at in disks.items():
            stack.callback(disk.slow_down, at, 0)
            machine = places.nodes(experiment)[node]
            disk.slow_down(at, machine.disk.bandwidth if machine.disk else 0)
        try:
            yield system
        except BaseException:  # nobody reads what they would still write, and the user waits
            for each in system.programs.values():
                each.kill()
            raise


def _make(system: System, name: str, folder: Path) -> None:
    node = next(server.node for server in places.servers(system.experiment) if server.name == name)
    if node in system.disks:
        (system.disks[node] / name).mkdir()
        folder.symlink_to(system.disks[node] / name)
    else:
        folder.mkdir()


def _disks(experiment: Experiment, ledger: Ledger, folder: Path) -> dict[str, Path]:
    found = {name: folder / name for name, machine in places.nodes(experiment).items() if machine.disk}
    if found:
        folder.mkdir()
    for at in found.values():
        disk.up(ledger, at)
    return found


def _clocks(experiment: Experiment, up: Nodes) -> dict[str, Clock]:
    machines = places.nodes(experiment)
    return {
        name: Clock(up.group(name), partial(up.groups_of, name), machine.cores, machine.governor)
        for name, machine in machines.items()
        if machine.governor
    }


def _start(system: System, name: str, setting: Setting) -> Program:
    kind, room = system.kind(name), system.nodes.rooms[name]
    _make(system, name, setting.folder)
    for file, text in kind.files(setting).items():
        (setting.folder / file).write_text(text)
    kind.prepare(setting, room)
    started = program.start(name, kind.command(setting), room, setting.folder / "output.log")
    listens = program.listening(room, setting.at.port)
    started.wait_until(lambda: listens() and started.says(kind.says))
    return started
