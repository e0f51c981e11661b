"""All packets between the nodes, as tcpdump sees them on the bridge: headers and the first bytes of what they carry."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tailrace.testbed import net, program
from tailrace.testbed.nodes import MONITORS, Nodes
from tailrace.testbed.program import Program, Room, where

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SNAPLEN = 192
"""66 bytes of Ethernet, IP and TCP; the rest names what is asked: method and path, command and table."""
BUFFER_KIB = 4096
"""A second at 20,000 packets a second; none was lost. While the kernel makes a larger one it does nothing else on that
CPU: 30 ms for 4 MiB, 100 ms for 16, 500 ms for 64, a millibottleneck in the middle of the load."""


@dataclass
class Capture:
    file: Path
    program: Program
    lost: int = 0
    """Packets that the kernel dropped before tcpdump could take them."""


@contextmanager
def capturing(nodes: Nodes, folder: Path) -> Iterator[Capture]:
    file = folder / "packets.pcap"
    room = Room(nodes.site.namespace(net.SWITCH), nodes.rooms[MONITORS].group)
    command = [where("tcpdump"), "-i", net.BRIDGE, "-s", str(SNAPLEN), "-B", str(BUFFER_KIB), "-Z", "root", "-n", "-U"]
    log = folder / "tcpdump.log"
    started = program.start("tcpdump", [*command, "-w", str(file), "tcp"], room, log)
    capture = Capture(file, started)
    try:
        started.wait_until(lambda: "listening on" in log.read_text(errors="replace"))
        yield capture
    finally:
        started.stop(signal.SIGINT)
        told = re.search(r"^(\d+) packets? dropped by kernel", log.read_text(errors="replace"), re.MULTILINE)
        capture.lost = int(told[1]) if told else 0


def compress(file: Path) -> None:
    """Into FILE.zst, which the readers read as well."""
    with file.open("rb") as plain, zstd.open(file.with_name(f"{file.name}.zst"), "wb", level=3) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    file.unlink()
