"""The gRPC session, with grpcio on both ends of one connection. Calls overlap, fail, stream and run out of time."""

import contextlib
import time
from collections.abc import Iterator
from concurrent import futures

import grpc


def hello(request: bytes, context: grpc.ServicerContext) -> bytes:
    time.sleep(0.05)
    return b"hello " + request


def missing(request: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")
    return b""


def slow(request: bytes, context: grpc.ServicerContext) -> bytes:
    time.sleep(0.5)
    return b"late"


def count(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    for number in range(5):
        time.sleep(0.02)
        yield bytes([number])


server = grpc.server(futures.ThreadPoolExecutor(8))
unary = {
    name: grpc.unary_unary_rpc_method_handler(call)
    for name, call in (("SayHello", hello), ("Find", missing), ("Wait", slow))
}
streaming = {"Count": grpc.unary_stream_rpc_method_handler(count)}
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Greeter", unary | streaming),))
server.add_insecure_port("127.0.0.1:50051")
server.start()
with grpc.insecure_channel("127.0.0.1:50051") as channel:
    say = channel.unary_unary("/shop.Greeter/SayHello")
    for name in (b"a", b"b"):
        say(name)
    for call in [say.future(bytes([number])) for number in range(6)]:
        call.result()
    list(channel.unary_stream("/shop.Greeter/Count")(b""))
    for method, wait in (("Find", None), ("Wait", 0.1), ("Unknown", None)):
        with contextlib.suppress(grpc.RpcError):
            channel.unary_unary(f"/shop.Greeter/{method}")(b"x", timeout=wait)
    channel.unary_unary("/shop.Greeter/Wait")(b"x")
time.sleep(0.2)
server.stop(0)
