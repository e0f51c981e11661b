#!/usr/bin/env python3
"""Gigabytes of spans: how much memory `tailrace read` takes, and how many megabytes it reads per CPU second.

    many.py [--gigabytes 2] [--one-trace] [--out benches/results/read-many.json]

Batches of OTLP JSON are repeated with other traces and later times, each time as a zstd frame of its own, as
`cat *.jsonl.zst` gives rotated files. With `--one-trace`, all spans claim to be of the same trace.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import files

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine
import used

BATCHES = 400
SPREAD = 2_654_435_761
"""Multiples of it, in 32 bits, are spread over all values, and no two are the same."""


def template() -> bytes:
    """Batches, whose traces begin with TTTTTTTT and whose times begin with SSSSSSS."""
    numbers = random.Random(1)
    lines = (json.dumps(files.batch(numbers, 100 * n), separators=(",", ":")) for n in range(BATCHES))
    text = re.sub(r'"traceId":"[0-9a-f]{8}', '"traceId":"TTTTTTTT', "\n".join(lines) + "\n")
    text = re.sub(r'(?<=endTimeUnixNano":")\d+', lambda end: str(int(end[0]) + numbers.randrange(900_000)), text)
    return text.replace(f'"{files.T // 10**12}', '"SSSSSSS').encode()


def write(path: Path, gigabytes: float, *, one_trace: bool) -> int:
    """A packed file of so many gigabytes of spans; returns their bytes."""
    import pyarrow as pa

    batches, written, number = template(), 0, 0
    if one_trace:
        batches = re.sub(rb'"traceId":"[0-9A-T]{8}[0-9a-f]{24}', b'"traceId":"' + b"TTTTTTTT" * 4, batches)
    with path.open("wb") as file:
        while written < gigabytes * 1e9:
            trace = b"0000000a" if one_trace else b"%08x" % (number * SPREAD % 2**32)
            text = batches.replace(b"TTTTTTTT", trace).replace(b"SSSSSSS", b"%07d" % (files.T // 10**12 + number))
            file.write(pa.compress(text, codec="zstd", asbytes=True))
            written += len(text)
            number += 1
    return written


def measured(path: Path, size: int, folder: Path) -> dict[str, Any]:
    command = (sys.executable, "-m", "tailrace", "read", str(path), "-o", str(folder / "run"), "--quiet")
    _, took = used.run(list(command))
    cpu = took["cpu_s"]
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    return {
        **{"MB": round(size / 1e6), "packed MB": round(path.stat().st_size / 1e6), "CPU seconds": round(cpu, 1)},
        **{"MB per CPU second": round(size / 1e6 / cpu, 1), "MiB": round(took["peak_mb"] * 1e6 / 2**20)},
        **{"rows": manifest["rows"], "lost": manifest.get("lost", {})},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--one-trace", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spans.jsonl.zst"
        size = write(path, options.gigabytes, one_trace=options.one_trace)
        row = {"one trace": options.one_trace, **measured(path, size, Path(folder))}
    print(json.dumps(row))
    if options.out:
        known = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
        about = {"machine": {**machine.about(), "load": machine.load()}}
        options.out.write_text(json.dumps({**about, "rows": [*known, row]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
