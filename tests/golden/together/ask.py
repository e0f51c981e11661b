"""The clients: ten requests a second, whatever the answers, each with a span."""

import http.client
import sys
import threading
import time

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import inject
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("ask")


def ask(number: int) -> None:
    path = "/stories" if number % 3 == 0 else f"/stories/{number}"
    with tracer.start_as_current_span("GET", kind=trace.SpanKind.CLIENT) as span:
        span.set_attribute("http.request.method", "GET")
        span.set_attribute("server.address", "web")
        headers: dict[str, str] = {}
        inject(headers)
        connection = http.client.HTTPConnection("10.77.9.2", 80, timeout=30, source_address=("10.77.9.1", 0))
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        response.read()
        span.set_attribute("http.response.status_code", response.status)
        connection.close()


began, rate = time.monotonic(), 10
threads = []
for number in range(int(sys.argv[1]) * rate):
    time.sleep(max(0.0, began + number / rate - time.monotonic()))
    threads.append(threading.Thread(target=ask, args=(number,)))
    threads[-1].start()
for thread in threads:
    thread.join()
provider.shutdown()
