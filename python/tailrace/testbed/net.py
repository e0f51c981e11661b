"""A namespace with one address for each node, all on one bridge that has its own namespace."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tailrace.testbed.commands import run
from tailrace.testbed.ledger import Ledger, refuse_taken
from tailrace.testbed.site import Site

SWITCH, BRIDGE = "switch", "br0"
_SUBNET = "10.77.0"
_FIRST, _LAST = 2, 254
NAMED = Path("/run/netns")
_run = partial(run, advice="see `tailrace testbed doctor`")
SYSCTLS: dict[str, str] = {
    "net.ipv4.ip_local_port_range": "10000 65535",  # a connection for each request leaves many ports in TIME_WAIT
    "net.ipv4.tcp_tw_reuse": "1",
    "net.core.somaxconn": "65535",  # the servers' own backlogs decide
    "net.ipv4.tcp_max_syn_backlog": "8192",
    # otherwise a batch of repeated SYNs fills the SYN queue, which is not an overflow of the accept queue
    "net.ipv4.tcp_syncookies": "1",
}
"""Settings of nodes that differ from Linux' defaults."""


def addresses(nodes: Sequence[str]) -> dict[str, str]:
    return {node: f"{_SUBNET}.{_FIRST + number}" for number, node in enumerate(nodes)}


def up(site: Site, ledger: Ledger, hosts: Mapping[str, str], sysctls: Mapping[str, str]) -> None:
    """One namespace for each node of `hosts` (name → address), and the switch between them."""
    for node in (SWITCH, *hosts):
        _make(site.namespace(node), ledger)
    switch = site.namespace(SWITCH)
    _ip(switch, f"link add {BRIDGE} type bridge", f"link set {BRIDGE} up", "link set lo up")
    for number, (node, address) in enumerate(hosts.items()):
        name = site.namespace(node)
        _ip(
            switch,
            f"link add v{number} type veth peer name eth0 netns {name}",
            f"link set v{number} master {BRIDGE} up",
        )
        _ip(name, f"addr add {address}/24 dev eth0", "link set eth0 up", "link set lo up")
        _run(*inside(name), "sysctl", "-q", "-w", *(f"{key}={value}" for key, value in {**SYSCTLS, **sysctls}.items()))


def _make(name: str, ledger: Ledger) -> None:
    refuse_taken(f"a network namespace {name}", known_by(name) is not None, f"ip netns del {name}")
    ledger.note("namespace", name)
    _run("ip", "netns", "add", name)
    ledger.made("namespace", name, known_by(name) or "")


def known_by(name: str) -> str | None:
    """Identifies a namespace among later ones with its name; None if it does not exist. The kernel reuses the number of
    a removed namespace, but not its time of creation."""
    try:
        found = (NAMED / name).stat()
    except FileNotFoundError:
        return None
    return f"{found.st_dev}:{found.st_ino}:{found.st_ctime_ns}"


def remove(name: str, known: str | None) -> bool:
    """The groups end its processes; the last one takes the namespace's links with it."""
    there = known_by(name)
    if there is None:
        return False
    ours = there == known if known is not None else _is_empty(name)
    if ours:
        _run("ip", "netns", "del", name)
    return ours


def _is_empty(name: str) -> bool:
    """Whether it contains only its loopback interface, as right after its creation; or it is only a file with its name,
    because `ip` was killed before it created the namespace."""
    file = (NAMED / name).lstat()
    if file.st_dev == NAMED.stat().st_dev:
        return stat.S_ISREG(file.st_mode) and file.st_size == 0
    links = _run("ip", "-netns", name, "-oneline", "link")
    return len(links.splitlines()) == 1 and not _run("ip", "netns", "pids", name).strip()


def named(site: Site) -> list[str]:
    """Namespaces whose names match those of the site, whichever program made them."""
    found = NAMED.glob(f"{site.name}.*") if NAMED.is_dir() else iter(())
    return sorted(path.name for path in found)


def inside(name: str) -> list[str]:
    """Begins a command in the namespace. `ip netns exec` would mount /sys again and hide the control groups."""
    return ["nsenter", f"--net={NAMED / name}", "--"]


def _ip(name: str, *commands: str) -> None:
    _run("ip", "-netns", name, "-batch", "-", text="\n".join(commands))
