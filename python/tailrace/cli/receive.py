"""`tailrace receive`: the traces and metrics that programs send, into a run folder."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.afterwards import read_apart, show_run
from tailrace.cli.options import Out
from tailrace.cli.recording import Duration
from tailrace.cli.words import Overwrite, duration_ns, parsed, say, tell
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.readers.receiving import Spool

EPILOG = (
    "Example:\n\n`tailrace receive -o run --duration 60s`, then `tailrace diagnose run`. The programs need "
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318, or a Collector an `otlphttp` exporter. With "
    "`--listen-grpc 127.0.0.1:4317` they may send over gRPC as well."
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def receive(
    out: Out,
    listen: Annotated[str, typer.Option(metavar="ADDR:PORT", help="Where to receive.")] = "127.0.0.1:4318",
    listen_grpc: Annotated[
        str | None, typer.Option(metavar="ADDR:PORT", help="Where to receive over gRPC besides (127.0.0.1:4317).")
    ] = None,
    duration: Duration = None,
    most: Annotated[str, typer.Option(metavar="BYTES", help="End when so much was received.")] = "4GiB",
    overwrite: Overwrite = False,
) -> None:
    """Receive traces and metrics over OTLP (HTTP or gRPC) and make a run folder of them at the end."""
    from tailrace.dataset import refuse
    from tailrace.readers.receiving import SIGNALS, path_of
    from tailrace.readers.receiving import receive as receive_traces
    from tailrace.units import parse_bytes
    from tailrace.watch.serving import listen as listen_at

    refuse(out, overwrite)
    lasting = None if duration is None else duration_ns(f"--duration {duration}", duration)
    bytes_most = parsed(f"--most {most}", parse_bytes, most)
    listening = listen_at(listen, "--listen")
    ended = threading.Event()
    for number in _SIGNALS:
        signal.signal(number, lambda *_: ended.set())

    def wait(spool: Spool) -> None:
        also = f" and at {listen_grpc} (gRPC)" if listen_grpc else ""
        tell(f"receiving traces at http://{listen}/v1/traces{also}", lenient=True)
        begin = time.monotonic_ns()
        while not ended.wait(0.1) and not spool.full:
            if lasting is not None and time.monotonic_ns() - begin >= lasting:
                break

    folder = Path(tempfile.mkdtemp(prefix="tailrace-received-", dir=out.absolute().parent))
    files = [path_of(folder, signal) for signal in SIGNALS]
    try:
        spool = receive_traces(listening, folder, bytes_most, wait, listen_grpc)
    except UsageError:
        _remove(folder, files)
        raise
    say(f"received: {spool.messages:,} messages, {spool.written:,} bytes", lenient=True)
    if spool.refused:
        say(f"refused, because --most {most} was reached: {spool.refused:,} messages", lenient=True)
    if not spool.messages:
        _remove(folder, files)
        raise UsageError("no traces were received", advice=f"send them to http://{listen}/v1/traces")
    first, *more = [file for file in files if file.stat().st_size]
    read_apart(first, out, ["--overwrite"] if overwrite else [], *more)
    _remove(folder, files)
    show_run(out)


def _remove(folder: Path, files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
    folder.rmdir()
