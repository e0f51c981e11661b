"""How fast Tailrace reads what people already have, beside a named peer: megabytes of a file per CPU second in one run.

    python benches/read/bench.py [--scale 1.0] [--only spans] [--out benches/results/read.json]

Each reading is a process of its own, and its CPU seconds are what the kernel accounts to it and to its children beyond
those of a process that imports the same modules. The times of imports vary. Readings are repeated until the error of
their time is a tenth of it, and a time that is still too short gets no figure: read a larger file (`--scale`). Tailrace
makes visits, requests, calls or samples. Its peers do less: DuckDB takes the same values out of the JSON or the lines
and counts them. tshark prints the streams of HTTP/2 or the requests inside TLS, with the same key log. The library of
protobuf (upb) decodes the messages and counts their spans. ring, which Tailrace decrypts with, opens records of the
same lengths alone, if it was built: `cargo build --release --manifest-path benches/read/aead-driver/Cargo.toml`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import files

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine
import used

RUNS, RUNS_MAX = 3, 15
ERROR = 0.1
"""The largest error of a time, as a share of it."""
KEYS = files.CAPTURES / "tls.keys"
READ = "from pathlib import Path\nfrom tailrace.readers import accesslog, otlpmetrics, source, traces"
DUCK = "import duckdb"
SPANS = """
duckdb.sql("SET threads = 1")
print(duckdb.sql('''
    WITH batches AS (SELECT unnest(resourceSpans) AS r FROM read_json(PATH, maximum_object_size = 67108864)),
    scopes AS (SELECT r.resource.attributes AS about, unnest(r.scopeSpans) AS s FROM batches),
    spans AS (SELECT about, unnest(s.spans) AS span FROM scopes)
    SELECT about[1].value.stringValue, count(*), max(span.endTimeUnixNano), count(DISTINCT span.spanId),
        count(list_filter(span.attributes, lambda a: a.key = 'http.route')) FROM spans GROUP BY 1
''').fetchall())
"""
PATTERN = (
    r'\[([^\]]+)\] "(\S+) (\S+) [^"]*" (\d+) (\d+) .* msec=(\S+) rt=(\S+) uct="([^"]*)" urt="([^"]*)" ua="([^"]*)"'
)
LINES = f"""
duckdb.sql("SET threads = 1")
print(duckdb.sql('''
    WITH lines AS (SELECT regexp_extract(line, '{PATTERN}',
        ['clock', 'method', 'path', 'status', 'bytes', 'msec', 'rt', 'uct', 'urt', 'ua']) AS r
        FROM read_csv(PATH, delim = chr(1), quote = '', header = false, columns = {{'line': 'VARCHAR'}}))
    SELECT r.method, r.ua, count(*), max(r.msec::DOUBLE), max(r.rt::DOUBLE), max(r.urt::DOUBLE), sum(r.bytes::BIGINT),
        max(r.path), max(r.status::INT), max(r.uct::DOUBLE), max(r.clock) FROM lines GROUP BY 1, 2
''').fetchall())
""".replace("\\", "\\\\")
METRICS = """
duckdb.sql("SET threads = 1")
print(duckdb.sql('''
    WITH batches AS (SELECT unnest(resourceMetrics) AS r FROM read_json(PATH, maximum_object_size = 67108864)),
    scopes AS (SELECT r.resource.attributes[1].value.stringValue AS host, unnest(r.scopeMetrics) AS s FROM batches),
    metrics AS (SELECT host, unnest(s.metrics) AS m FROM scopes),
    points AS (SELECT host, m.name AS name, unnest(m.sum.dataPoints) AS p FROM metrics)
    SELECT host, name, p.attributes[1].value.stringValue, p.attributes[2].value.stringValue, count(*), max(p.asDouble),
        max(p.timeUnixNano::BIGINT) FROM points GROUP BY 1, 2, 3, 4
''').fetchall())
"""
TRACES = "found = traces.read([source.Source(Path(PATH))]); print(sum(frame.height for frame in found.visits))"
LOGS = "found = accesslog.read([source.Source(Path(PATH), 'web')]); print(sum(frame.height for frame in found.visits))"
SAMPLES = "found = otlpmetrics.read(source.Source(Path(PATH))); print(found.samples[0].height)"
MESSAGES = """
with open(PATH, "rb") as file:
    content, at, spans = file.read(), 0, 0
while at < len(content):
    length = int.from_bytes(content[at : at + 4], "big")
    batch = TracesData.FromString(content[at + 4 : at + 4 + length])
    spans += sum(len(scope.spans) for resource in batch.resource_spans for scope in resource.scope_spans)
    at += 4 + length
print(spans)
"""
UPB = "from opentelemetry.proto.trace.v1.trace_pb2 import TracesData"
DRIVER = Path(__file__).parent / "aead-driver" / "target" / "release" / "aead-driver"
DECODE = """
with tempfile.TemporaryDirectory() as folder:
    print(len(_core.decode([PATH], folder, json.dumps(OPTIONS))))
"""


@dataclass(frozen=True)
class Row:
    """A file, and how a program reads it: Python whose imports are paid before, or a command."""

    form: str
    name: str
    path: Path
    imports: str = ""
    program: str = ""
    command: tuple[str, ...] = ()


@dataclass
class Times:
    """CPU seconds of whole processes, and of those that only import the same modules."""

    whole: list[float]
    bare: list[float]

    @property
    def read(self) -> float:
        """What reading takes: the difference of the medians."""
        return statistics.median(self.whole) - statistics.median(self.bare)

    @property
    def least(self) -> float:
        return min(self.whole) - statistics.median(self.bare)

    @property
    def most(self) -> float:
        return max(self.whole) - statistics.median(self.bare)

    @property
    def error(self) -> float:
        """The standard error of a difference of means."""
        return math.sqrt(sum(statistics.variance(each) / len(each) for each in (self.whole, self.bare)))

    @property
    def known(self) -> bool:
        return self.error <= ERROR * self.read and self.least > 0


def used_by(*command: str) -> tuple[float, float]:
    """CPU seconds and the most memory (MiB) of a process."""
    _, took = used.run(list(command), errors=subprocess.DEVNULL)
    return took["cpu_s"], took["peak_mb"] * 1e6 / 2**20


def measure(row: Row) -> dict[str, Any]:
    times, memory, size = Times([], []), 0.0, row.path.stat().st_size / 1e6
    program = row.program.replace("PATH", repr(str(row.path)))
    command = row.command or (sys.executable, "-c", f"{row.imports}\n{program}")
    while len(times.whole) < RUNS or not (times.known or len(times.whole) == RUNS_MAX):
        times.bare.append(0.0 if row.command else used_by(sys.executable, "-c", row.imports)[0])
        whole, most = used_by(*command)
        times.whole.append(whole)
        memory = max(memory, most)
    return {
        "file": row.form,
        "reader": row.name,
        "MB": round(size),
        "runs": len(times.whole),
        **_speeds(times, size),
        "MiB": round(memory),
    }


def _speeds(times: Times, size: float) -> dict[str, Any]:
    """In MB a CPU second; none, if reading takes too short a time to be told from the noise of imports."""
    if not times.known:
        why = f"reading took {times.read:.3f} s with an error of {times.error:.3f} s; a larger --scale is needed"
        return {"MB per CPU second": None, "why": why}
    return {
        "MB per CPU second": round(size / times.read, 1),
        "least": round(size / times.most, 1),
        "most": round(size / times.least, 1),
    }


def rows(folder: Path, scale: float, only: str) -> list[Row]:
    found = []
    if only in ("", "spans", "protobuf"):
        spans = files.spans(folder, round(130 * scale))
        found += [
            Row("OTLP JSON", "tailrace", spans["JSON"], READ, TRACES),
            Row("OTLP JSON", "duckdb", spans["JSON"], DUCK, SPANS),
        ] * (only != "protobuf")
        found += [
            Row("OTLP protobuf", "tailrace", spans["protobuf"], READ, TRACES),
            Row("OTLP protobuf", "upb", spans["protobuf"], UPB, MESSAGES),
        ]
    if only in ("", "logs"):
        log = files.access_log(folder / "access.log", round(300_000 * scale))
        found += [Row("nginx", "tailrace", log, READ, LOGS), Row("nginx", "duckdb", log, DUCK, LINES)]
    if only in ("", "metrics"):
        lines = files.metrics(folder / "metrics.jsonl", round(3_000 * scale))
        found += [
            Row("metrics JSON", "tailrace", lines, READ, SAMPLES),
            Row("metrics JSON", "duckdb", lines, DUCK, METRICS),
        ]
    if only in ("", "captures"):
        found += _captures(folder, scale)
    return found


def _captures(folder: Path, scale: float) -> list[Row]:
    found = []
    for form, name, times, keys in (
        *(("HTTP/1", "http", 400, ""), ("HTTP/2", "http2", 400, ""), ("TLS", "tls", 300, str(KEYS))),
        ("TLS without keys", "tls", 300, ""),
    ):
        times = max(round(times * scale), 1)
        path = files.multiplied(files.CAPTURES / f"{name}.pcap", folder / f"{name}.pcap", times)
        decode = DECODE.replace("OPTIONS", repr({"keys": keys} if keys else {}))
        found.append(Row(form, "tailrace", path, "import json, tempfile\nfrom tailrace import _core", decode))
        if shutil.which("tshark") and form in ("HTTP/2", "TLS"):
            found.append(_by_tshark(form, path, keys))
        if DRIVER.exists() and keys:
            lengths = folder / "lengths"
            lengths.write_text("\n".join(_records(files.CAPTURES / f"{name}.pcap")))
            found.append(Row(form, "ring", path, command=("sh", "-c", f"exec {DRIVER} {times} < {lengths}")))
    return found


def _by_tshark(form: str, path: Path, keys: str) -> Row:
    secrets = ("-o", f"tls.keylog_file:{keys}") if keys else ("-d", "tcp.port==8081,http2")
    shown = "http2.headers.status or http2.headers.method or http.request or http.response"
    names = ("frame.time_epoch", "tcp.stream", "http2.streamid", "http.time")
    fields = [word for name in names for word in ("-e", name)]
    command = ("tshark", "-n", "-r", str(path), *secrets, "-Y", shown, "-T", "fields", *fields)
    return Row(form, "tshark", path, command=command)


def _records(capture: Path) -> list[str]:
    """The lengths of the records of data in a capture, as tshark shows them."""
    show = ("-Y", "tls.record.opaque_type == 23 or tls.record.content_type == 23", "-T", "fields")
    command = ("tshark", "-n", "-r", str(capture), *show, "-e", "tls.record.length")
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [length for line in lines for length in line.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="how large the files are; 1 is some 40 MB of spans")
    parser.add_argument("--only", choices=("spans", "protobuf", "logs", "metrics", "captures"), default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        measured = []
        for row in rows(Path(folder), options.scale, options.only):
            measured.append(measure(row))
            print(json.dumps(measured[-1]), flush=True)
    if options.out:
        about = {"command": sys.argv, "machine": {**machine.about(), "load": machine.load()}}
        options.out.write_text(json.dumps({**about, "rows": measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()
