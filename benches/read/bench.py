"""How fast Tailrace reads traces, beside DuckDB's JSON reader: megabytes of a file per CPU second, in one run.

    python benches/read/bench.py [--batches 130] [--out benches/results/read.json]

Each reading is a process of its own, and its CPU seconds are what the kernel accounts to it beyond those of a process
that imports the same modules. Tailrace makes visits, requests and calls of the spans. DuckDB takes the same attributes
out of the JSON and counts spans by service; it does not link them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

T = 1_795_193_340 * 10**9
RUNS = 3
IMPORTS = {
    "tailrace": "from pathlib import Path\nfrom tailrace.readers import source, traces",
    "duckdb": "import duckdb",
}
TAILRACE = "found = traces.read([source.Source(Path({path!r}))]); print(found.visits[0].height)"
DUCKDB = """
duckdb.sql("SET threads = 1")
print(duckdb.sql('''
    WITH batches AS (SELECT unnest(resourceSpans) AS r FROM read_json({path!r}, maximum_object_size = 67108864)),
    scopes AS (SELECT r.resource.attributes AS about, unnest(r.scopeSpans) AS s FROM batches),
    spans AS (SELECT about, unnest(s.spans) AS span FROM scopes)
    SELECT about[1].value.stringValue, count(*), max(span.endTimeUnixNano), count(DISTINCT span.spanId),
        count(list_filter(span.attributes, lambda a: a.key = 'http.route')) FROM spans GROUP BY 1
''').fetchall())
"""


def attributes(**values: str | int) -> list[dict[str, Any]]:
    return [
        {
            "key": key.replace("__", "."),
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
        }
        for key, value in values.items()
    ]


def batch(numbers: random.Random, first: int) -> dict[str, Any]:
    """A hundred requests of a frontend that calls a cart, which calls a database: 400 spans."""
    found = []
    ids = [[f"{numbers.getrandbits(64):016x}" for _ in range(4)] for _ in range(100)]
    traces = [f"{numbers.getrandbits(128):032x}" for _ in range(100)]
    http = {"http__request__method": "GET", "http__route": "/api/cart/{id}", "http__response__status_code": 200}
    database = {"db__system__name": "postgresql", "db__operation__name": "SELECT", "db__query__text": "SELECT 1" * 8}
    for service, kinds in (("frontend", (0, 1)), ("cart", (2, 3))):
        spans = [
            {
                **{"traceId": trace, "spanId": own[kind], "parentSpanId": own[kind - 1] if kind else ""},
                **{"name": "GET /api/cart/{id}" if kind < 3 else "SELECT items", "kind": (2, 3, 2, 3)[kind]},
                "startTimeUnixNano": str(T + (first + i) * 1_000_003 + kind * 10**6),
                "endTimeUnixNano": str(T + (first + i) * 1_000_003 + (20 - kind) * 10**6),
                "attributes": attributes(
                    **(http if kind < 3 else database),
                    url__path=f"/api/cart/{i}", server__address="cart" if kind < 2 else "db", server__port=8080,
                    user_agent__original="Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
                ),
                "status": {},
            }
            for i, (trace, own) in enumerate(zip(traces, ids, strict=True))
            for kind in kinds
        ]  # fmt: skip
        about = attributes(service__name=service, service__instance__id=f"{service}-1", host__name="node1")
        found.append({"resource": {"attributes": about}, "scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]})
    return {"resourceSpans": found}


def write(folder: Path, batches: int) -> dict[str, Path]:
    """The same spans as JSON lines and as framed protobuf."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from spans_singly import framed, protobuf

    numbers, lines = random.Random(1), folder / "spans.jsonl"
    with lines.open("w") as file:
        for number in range(batches):
            file.write(json.dumps(batch(numbers, 100 * number), separators=(",", ":")) + "\n")
    (folder / "spans.otlp").write_bytes(framed(protobuf(lines.read_text())))
    return {"JSON": lines, "protobuf": folder / "spans.otlp"}


def cpu_seconds(program: str) -> tuple[float, int]:
    """CPU seconds and the most memory (MiB) of a process."""
    with subprocess.Popen((sys.executable, "-c", program), stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"it ended with {process.returncode}: {program}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss >> 10


def measure(name: str, program: str, path: Path) -> dict[str, Any]:
    speeds, memory = [], 0
    for _ in range(RUNS):
        bare, _ = cpu_seconds(IMPORTS[name])
        whole, most = cpu_seconds(f"{IMPORTS[name]}\n{program.format(path=str(path))}")
        speeds.append(path.stat().st_size / 1e6 / max(whole - bare, 0.001))
        memory = max(memory, most)
    return {
        "reader": name,
        "MB": round(path.stat().st_size / 1e6),
        "MB per CPU second": round(statistics.median(speeds)),
        "least": round(min(speeds)),
        "most": round(max(speeds)),
        "MiB": memory,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=130, help="batches of 400 spans")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder), options.batches)
        rows = [
            {"file": f"OTLP {form}", **measure(name, program, files[form])}
            for form, name, program in (
                ("JSON", "tailrace", TAILRACE),
                ("JSON", "duckdb", DUCKDB),
                ("protobuf", "tailrace", TAILRACE),
            )
        ]
    for row in rows:
        print(json.dumps(row))
    if options.out:
        load = [round(one, 1) for one in os.getloadavg()]
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "kernel": platform.release(), "load": load}
        options.out.write_text(json.dumps({"command": sys.argv, "machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
