"""`tailrace receive`: the traces that programs send, into a run folder."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.afterwards import read_apart, show_run
from tailrace.cli.options import Out
from tailrace.cli.words import Overwrite, say, tell
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.readers.receiving import Spool

EPILOG = (
    "Example:\n\n`tailrace receive -o run --duration 60s`, then `tailrace diagnose run`. The programs need "
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318, or a Collector an `otlphttp` exporter."
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def receive(
    out: Out,
    listen: Annotated[str, typer.Option(metavar="ADDR:PORT", help="Where to receive.")] = "127.0.0.1:4318",
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="End by itself. Default: on SIGINT (Ctrl-C), SIGTERM or SIGHUP.")
    ] = None,
    most: Annotated[str, typer.Option(metavar="BYTES", help="End when so much was received.")] = "4GiB",
    overwrite: Overwrite = False,
) -> None:
    """Receive traces over OTLP/HTTP (JSON, protobuf) and make a run folder of them at the end."""
    from tailrace.dataset import refuse
    from tailrace.readers.receiving import receive as receive_traces
    from tailrace.units import parse_bytes, parse_duration
    from tailrace.watch.serving import listen as listen_at

    refuse(out, overwrite)
    seconds, bytes_most = _words(parse_duration, "--duration", duration), _words(parse_bytes, "--most", most)
    listening = listen_at(listen, "--listen")
    ended = threading.Event()
    for number in _SIGNALS:
        signal.signal(number, lambda *_: ended.set())

    def wait(spool: Spool) -> None:
        tell(f"receiving traces at http://{listen}/v1/traces", lenient=True)
        left = seconds / 1e9 if seconds is not None else None
        while not ended.wait(0.1) and not spool.full:
            left = left - 0.1 if left is not None else None
            if left is not None and left <= 0:
                break

    folder = Path(tempfile.mkdtemp(prefix="tailrace-received-", dir=out.absolute().parent))
    traces = folder / "traces.otlp"
    spool = receive_traces(listening, traces, bytes_most or 0, wait)
    say(f"received: {spool.messages:,} messages, {spool.written:,} bytes", lenient=True)
    if spool.refused:
        say(f"refused, because --most {most} was reached: {spool.refused:,} messages", lenient=True)
    if not spool.messages:
        traces.unlink()
        folder.rmdir()
        raise UsageError("no traces were received", advice=f"send them to http://{listen}/v1/traces")
    read_apart(traces, out, ["--overwrite"] if overwrite else [])
    traces.unlink()
    folder.rmdir()
    show_run(out)


def _words(parse: Callable[[str], int], option: str, text: str | None) -> int | None:
    try:
        return parse(text) if text is not None else None
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error
