"""The files that bench.py reads: made from a seed, or multiplied from captures of real servers."""

from __future__ import annotations

import json
import random
import struct
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "tests" / "golden" / "captures"
T = 1_795_193_340 * 10**9
_TCP, _FLAGS, _SYN = 6, 0x12, 0x02
"""The protocol; the flags SYN and ACK; of the two, the first packet of a connection has SYN alone."""


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


def spans(folder: Path, batches: int) -> dict[str, Path]:
    """The same spans as JSON lines and as framed protobuf."""
    sys.path.insert(0, str(ROOT / "tests"))
    from spans_singly import framed, protobuf

    numbers, lines = random.Random(1), folder / "spans.jsonl"
    with lines.open("w") as file:
        for number in range(batches):
            file.write(json.dumps(batch(numbers, 100 * number), separators=(",", ":")) + "\n")
    (folder / "spans.otlp").write_bytes(framed(protobuf(lines.read_text())))
    return {"JSON": lines, "protobuf": folder / "spans.otlp"}


def access_log(path: Path, lines: int) -> Path:
    """Lines of nginx: the combined format, with the times of the request and of its upstream."""
    numbers = random.Random(2)
    with path.open("w") as file:
        for i in range(lines):
            second, ms = divmod(i, 1000)
            took = numbers.expovariate(100)
            agent = f"Mozilla/5.0 (X11; Linux x86_64) Firefox/{numbers.randrange(90, 140)}"
            clock = f"20/Nov/2026:{16 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} +0000"
            file.write(
                f'10.0.{i % 250}.9 - - [{clock}] "GET /item/{numbers.randrange(10**5)} HTTP/1.1" 200 5120 '
                f'"-" "{agent}" '
                f'msec={T // 10**9 + second}.{ms:03} rt={took:.3f} uct="0.000" urt="{took:.3f}" ua="10.0.0.3:8080"\n'
            )
    return path


def metrics(path: Path, moments: int) -> Path:
    """What a Collector's hostmetrics receiver writes each second for eight CPUs, as JSON lines."""
    with path.open("w") as file:
        for moment in range(moments):
            stamp = str(T + moment * 10**9)
            points = [
                {
                    **{"startTimeUnixNano": str(T), "timeUnixNano": stamp, "asDouble": moment * share + cpu},
                    "attributes": attributes(cpu=f"cpu{cpu}", state=state),
                }
                for cpu in range(8)
                for state, share in (("user", 0.4), ("system", 0.1), ("wait", 0.01), ("idle", 0.49))
            ]
            total = {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": points}
            scope = {
                "scope": {"name": "hostmetrics"},
                "metrics": [{"name": "system.cpu.time", "unit": "s", "sum": total}],
            }
            resource = {"resource": {"attributes": attributes(host__name="node1")}, "scopeMetrics": [scope]}
            file.write(json.dumps({"resourceMetrics": [resource]}, separators=(",", ":")) + "\n")
    return path


def multiplied(capture: Path, path: Path, times: int) -> Path:
    """The packets of a capture again and again, each time a little later and from another client. Every connection
    keeps its bytes, so one key log decrypts them all."""
    content = capture.read_bytes()
    packets, at = [], 24
    while at < len(content):
        seconds, fraction, length, _ = struct.unpack_from("<4I", content, at)
        packets.append((seconds, fraction, content[at + 16 : at + 16 + length]))
        at += 16 + length
    servers = {packet[36:38] for *_, packet in packets if packet[23] == _TCP and packet[47] & _FLAGS == _SYN}
    apart = packets[-1][0] - packets[0][0] + 1
    with path.open("wb") as file:
        file.write(content[:24])
        for number in range(times):
            host = bytes([127, 1 + number // 62_500, 1 + number // 250 % 250, 1 + number % 250])
            for seconds, fraction, packet in packets:
                client = 26 if packet[36:38] in servers else 30
                changed = packet[:client] + host + packet[client + 4 :]
                file.write(struct.pack("<4I", seconds + number * apart, fraction, len(changed), len(changed)) + changed)
    return path
