"""Cut some seconds out of a full recording: `crop.py FULL TARGET FROM TO` (seconds after the load began).

Every file is cut by time and nothing else: packets of the capture, samples, log lines, what the load generator saw,
and the stalls of the truth. The results are small enough to come with the project.
"""

from __future__ import annotations

import csv
import struct
import sys
import tomllib
from pathlib import Path

from tailrace.units import SECOND, parse_moment

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = 19


def main(full: Path, target: Path, seconds: tuple[float, float]) -> None:
    truth = tomllib.loads((full / "truth.toml").read_text())
    load_began = parse_moment(str(truth["load_began"]))
    begin, end = (load_began + round(second * SECOND) for second in seconds)
    target.mkdir(parents=True, exist_ok=True)
    packets(full / "packets.pcap.zst", target / "packets.pcap.zst", begin, end)
    rows(full / "samples.csv", target / "samples.csv", "time", begin, end)
    rows(full / "client.csv", target / "client.csv", "sent", begin, end)
    log(full / "gc.log", target / "gc.log", begin, end)
    stalls(full / "truth.toml", target / "truth.toml", begin, end)


def packets(source: Path, target: Path, begin: int, end: int) -> None:
    """A pcap file with µs stamps, little endian."""
    with zstd.open(source) as file:
        data = file.read()
    kept, at = [data[:24]], 24
    while at + 16 <= len(data):
        sec, usec, size, _ = struct.unpack_from("<IIII", data, at)
        if begin <= sec * SECOND + usec * 1000 < end:
            kept.append(data[at : at + 16 + size])
        at += 16 + size
    target.write_bytes(zstd.compress(b"".join(kept), level=LEVEL))


def rows(source: Path, target: Path, column: str, begin: int, end: int) -> None:
    with source.open(newline="") as file, target.open("w", newline="") as out:
        reader = csv.DictReader(file)
        writer = csv.DictWriter(out, reader.fieldnames or [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in reader if begin <= parse_moment(row[column]) < end)


def log(source: Path, target: Path, begin: int, end: int) -> None:
    lines = source.read_text().splitlines(keepends=True)
    target.write_text("".join(line for line in lines if begin <= parse_moment(line[1:29]) < end))


def stalls(source: Path, target: Path, begin: int, end: int) -> None:
    head, *tables = source.read_text().split("[[stall]]")
    kept = [table for table in tables if begin <= parse_moment(str(tomllib.loads(table)["begin"])) < end]
    target.write_text("[[stall]]".join([head, *kept]).rstrip() + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), (float(sys.argv[3]), float(sys.argv[4])))
