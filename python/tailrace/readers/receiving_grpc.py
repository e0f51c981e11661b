"""Receives traces and metrics over OTLP/gRPC. The messages stay as they come; `receiving` keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from tailrace.bounds import OTLP_MESSAGE
from tailrace.errors import UsageError
from tailrace.readers.receiving import CONNECTIONS_MAX, Spool

_THREADS = 4
"""A call only writes its message into a file."""
_SIGNALS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "metrics",
}
"""What each call of OTLP's services sends."""
_OPTION = "--listen-grpc"


@contextmanager
def serving(address: str, spool: Spool) -> Iterator[None]:
    """Add to the spool what comes at `ADDR:PORT`, until the context ends. Raises UsageError if that cannot be."""
    grpc = _package()
    server = grpc.server(
        ThreadPoolExecutor(max_workers=_THREADS),
        handlers=(_Exports(grpc, spool),),
        # A port that another process has is refused, and messages are bounded after they are unpacked.
        options=(("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", OTLP_MESSAGE)),
        maximum_concurrent_rpcs=CONNECTIONS_MAX,
    )
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise UsageError(f"{_OPTION} {address}: this address cannot be used", advice="choose another") from error
    server.start()
    try:
        yield
    finally:
        server.stop(grace=1).wait()


def _package() -> Any:
    try:
        import grpc
    except ImportError as error:
        raise UsageError(
            f"{_OPTION} needs the package grpcio",
            advice="install it with `pip install tailrace[otlp]`, or send OTLP over HTTP",
        ) from error
    return grpc


class _Exports:
    """The calls of OTLP's services: finds what handles a call by its name."""

    def __init__(self, grpc: Any, spool: Spool) -> None:
        self._grpc = grpc
        self._spool = spool

    def service(self, call: Any) -> Any:
        signal = _SIGNALS.get(call.method)
        if signal is None:
            return None
        return self._grpc.unary_unary_rpc_method_handler(partial(self._export, signal))

    def _export(self, signal: str, message: bytes, context: Any) -> bytes:
        if message and not self._spool.add(signal, message):
            context.abort(self._grpc.StatusCode.RESOURCE_EXHAUSTED, "as much was received as --most allows")
        return b""
