"""What a testbed needs of this machine: root, programs, kernel features. Each is tried, not guessed from versions."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tailrace.errors import TailraceError
from tailrace.testbed import cgroup, disk, lossy, net, swap
from tailrace.testbed.ledger import held
from tailrace.testbed.program import command
from tailrace.testbed.site import Site
from tailrace.testbed.undoing import undo

SETUP = "make testbed-setup"


@dataclass(frozen=True)
class Finding:
    what: str
    good: bool
    said: str
    """What was found, or what is missing."""
    remedy: str = ""
    needed: bool = True
    """Otherwise only experiments that need it are refused."""


PROGRAMS: dict[str, tuple[str, ...]] = {
    "ip": ("iproute2",),
    "nsenter": ("util-linux",),
    "sysctl": ("procps",),
    "apache2": ("apache2",),
    "nginx": ("nginx-light",),
    "haproxy": ("haproxy",),
    "mariadbd": ("mariadb-server",),
    "mariadb-install-db": ("mariadb-server",),
    "java": ("openjdk-17-jre-headless",),
}
"""Commands and the Debian packages that they are in."""
MOD_JK = ("libapache2-mod-jk", Path("/usr/lib/apache2/modules/mod_jk.so"))
SERVERS = {"apache2", "nginx", "haproxy", "mariadbd", "mariadb-install-db", "java", "mod_jk"}
"""Findings about the content that servers deliver, rather than the machine."""


def examine(site: Site | None = None) -> list[Finding]:
    return [_root(), *_programs(), *_controllers(), *_network(site or Site()), _disk(), *_stalls()]


def missing(findings: list[Finding]) -> str:
    """One sentence; empty if nothing is missing."""
    bad = [finding for finding in findings if finding.needed and not finding.good]
    remedies = " and ".join(dict.fromkeys(finding.remedy for finding in bad if finding.remedy))
    told = ", ".join(f"{finding.what} ({finding.said})" for finding in bad)
    return f"the testbed lacks {told}; {remedies}" if bad else ""


def _root() -> Finding:
    root = os.geteuid() == 0
    return Finding("root", root, "this is root" if root else "this is not root", "" if root else "run it as root")


def _programs() -> Iterator[Finding]:
    for name, (package, *_) in PROGRAMS.items():
        found = command(name)
        yield Finding(name, found is not None, found or f"it is in Debian's {package}", "" if found else SETUP)
    package, module = MOD_JK
    there = module.exists()
    yield Finding("mod_jk", there, str(module) if there else f"it is in Debian's {package}", "" if there else SETUP)


def _controllers() -> Iterator[Finding]:
    hierarchies = cgroup.mounted()
    for controller in cgroup.NEEDED:
        there = hierarchies.has(controller)
        version = "version 1" if controller in hierarchies.v1 else "version 2"
        said = version if there else "neither in /proc/mounts nor in cgroup.controllers"
        yield Finding(f"cgroup {controller}", there, said, "" if there else "mount it, or boot a kernel that has it")


def _disk() -> Finding:
    why = disk.problem()
    return Finding("a disk for a node", not why, why or "loop devices, slowed down by blkio", needed=False)


def _stalls() -> Iterator[Finding]:
    for what, why, how in (
        ("stalls of memory", swap.problem(), "a swap file, and limits of control groups"),
        ("packet loss", lossy.problem(), "nftables"),
    ):
        yield Finding(what, not why, why or how, needed=False)


def _network(site: Site) -> Iterator[Finding]:
    """Two nodes and a switch, created and removed under a name of their own."""
    if os.geteuid() != 0 or command("ip") is None or command("nsenter") is None:
        return
    probe = Site(f"{site.name}-probe-{secrets.token_hex(2)}")
    try:
        with held(probe) as ledger:
            try:
                net.up(probe, ledger, net.addresses(["one", "two"]), {})
            finally:
                undo(ledger)
    except TailraceError as error:
        yield Finding("network namespaces", False, error.found, "allow namespaces, veth and bridge in the kernel")
    else:
        yield Finding("network namespaces", True, "veth and bridge")
    finally:
        shutil.rmtree(probe.state, ignore_errors=True)
