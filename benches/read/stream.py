#!/usr/bin/env python3
"""A long capture on standard input: how long it takes, and whether memory grows.

    stream.py CAPTURE.pcap.zst [--gigabytes 5] [--systems 1]

The capture is repeated, each time as a file of its own with later times, and packed by zstd, as `cat *.pcap.zst` gives
rotated files. `tailrace read -` makes a run folder of it. The resident memory of its processes is looked at ten times a
second. Connections that the capture keeps open are the same in each file, unless it comes from another of several
systems with other addresses: then they are more open connections and more servers.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

HEADER, RECORD = 24, 16
ADDRESSES = (RECORD + 14 + 12, RECORD + 14 + 16)
"""Of the sender and the receiver: the packets are IPv4 in Ethernet."""
LOOK_S = 0.1
REST_S = 100
"""Between the last packet of a file and the first of the next: longer than Tailrace waits for a silent connection."""


class Repeated:
    """A pcap (little endian), again and again."""

    def __init__(self, path: Path, systems: int) -> None:
        self._systems = systems
        self._bytes = np.frombuffer(pa.input_stream(str(path), compression="zstd").read(), np.uint8).copy()
        places, at = [], HEADER
        while at < len(self._bytes):
            places.append(at)
            at += RECORD + int(self._bytes[at + 8 : at + 12].view("<u4")[0])
        self._begins = np.array(places)
        self._at = self._begins[:, None] + np.arange(4)
        seconds = self._bytes[self._at].reshape(-1).view("<u4")
        self._length = int(seconds.max() - seconds.min()) + REST_S
        self._seconds = seconds.copy()

    def __len__(self) -> int:
        return len(self._bytes)

    def file(self, number: int) -> bytes:
        later = (self._seconds + np.uint32(number * self._length)).astype("<u4")
        self._bytes[self._at] = later.view(np.uint8).reshape(-1, 4)
        for address in ADDRESSES:
            self._bytes[self._begins + address + 1] = 64 + number % self._systems // 256
            self._bytes[self._begins + address + 2] = number % self._systems % 256
        return bytes(pa.compress(self._bytes.tobytes(), codec="zstd", asbytes=True))


def resident_mib(process: int) -> float:
    """Of a process and of those that it started."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except FileNotFoundError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20) + sum(resident_mib(int(child)) for child in children)


def looking(process: int, over: threading.Event, seen: list[float]) -> None:
    while not over.wait(LOOK_S):
        seen.append(resident_mib(process))


def streamed(capture: Repeated, files: int, out: Path) -> tuple[int, list[float]]:
    """Packed bytes, and what memory was seen."""
    words = (sys.executable, "-m", "tailrace", "read", "-", "-o", str(out), "--quiet")
    packed, seen, over = 0, list[float](), threading.Event()
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        thread = threading.Thread(target=looking, args=(process.pid, over, seen))
        thread.start()
        for number in range(files):
            packed += process.stdin.write(capture.file(number))
        process.stdin.close()
        code = process.wait()
        over.set()
        thread.join()
    if code:
        sys.exit(f"read ended with {code}")
    return packed, seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--systems", type=int, default=1, help="at most 32,768")
    options = parser.parse_args()
    capture = Repeated(options.capture, options.systems)
    files = int(options.gigabytes * 1e9) // len(capture)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        packed, seen = streamed(capture, files, Path(folder) / "run")
        took = time.monotonic() - begin
        tables = sum(path.stat().st_size for path in Path(folder, "run").glob("*.parquet"))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    tenth = max(len(seen) // 10, 1)
    memory = ", ".join(f"{max(seen[at : at + tenth]):.0f}" for at in range(0, len(seen), tenth))
    print(
        f"{files} files, {files * len(capture) / 1e9:.1f} GB ({packed / 1e9:.2f} GB packed): {took:.0f} s, "
        f"{used.ru_utime + used.ru_stime:.1f} s of CPU; most memory in each tenth of the time: {memory} MiB; "
        f"tables of {tables / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
