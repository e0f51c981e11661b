"""A namespace with one address for each node, all on one bridge that has a namespace of its own.

```text
tailrace.clients   tailrace.web-node   tailrace.app-node  …      eth0 10.77.0.2, .3, .4 …
       └───────────────────┴───── v0 v1 v2 ─────┴──────── br0 in tailrace.switch: all packets pass here
```
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tailrace.errors import TailraceError
from tailrace.testbed.ledger import Ledger
from tailrace.testbed.site import Site

SWITCH, BRIDGE = "switch", "br0"
_SUBNET = "10.77.0"
_FIRST, _LAST = 2, 254
NODES_MAX = _LAST - _FIRST + 1
NAMED = Path("/run/netns")
SYSCTLS: dict[str, str] = {
    "net.ipv4.ip_local_port_range": "10000 65535",  # a connection for each request: many ports in TIME_WAIT
    "net.ipv4.tcp_tw_reuse": "1",
    "net.core.somaxconn": "65535",  # servers' own backlogs decide
    "net.ipv4.tcp_max_syn_backlog": "8192",
    "net.ipv4.tcp_syncookies": "1",  # a batch of repeated SYNs fills the SYN queue otherwise, which is no overflow
}
"""What nodes have otherwise than Linux' defaults."""


def addresses(nodes: Sequence[str]) -> dict[str, str]:
    return {node: f"{_SUBNET}.{_FIRST + number}" for number, node in enumerate(nodes)}


def up(site: Site, ledger: Ledger, hosts: Mapping[str, str], sysctls: Mapping[str, str]) -> None:
    """One namespace for each node of `hosts` (name → address), and the switch between them."""
    for node in (SWITCH, *hosts):
        name = site.namespace(node)
        ledger.note("namespace", name)
        remove(name)
        _run("ip", "netns", "add", name)
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


def remove(name: str) -> None:
    """Its processes are ended by their groups; the last one takes the namespace's links with it."""
    if (NAMED / name).exists():
        _run("ip", "netns", "del", name)


def named(site: Site) -> list[str]:
    """Namespaces of the site that there are, noted or not."""
    found = NAMED.glob(f"{site.name}.*") if NAMED.is_dir() else iter(())
    return sorted(path.name for path in found)


def inside(name: str) -> list[str]:
    """Begins a command in the namespace. `ip netns exec` would mount /sys anew and hide the control groups."""
    return ["nsenter", f"--net={NAMED / name}", "--"]


def _ip(name: str, *commands: str) -> None:
    _run("ip", "-netns", name, "-batch", "-", text="\n".join(commands))


def _run(*command: str, text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TailraceError(
            f"`{' '.join(command)}` failed: {done.stderr.strip()}", advice="see `tailrace testbed doctor`"
        )
