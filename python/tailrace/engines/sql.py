"""The SQL of ClickHouse that makes the same integer sums as the engine.

Each visit is read once, as its arrival and its departure. Only whole numbers are used: a window is `t - t % D` (never
`floor(t / D)`), the sum of response times is kept in two halves, so that it cannot overflow, and no mean leaves the
database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import polars as pl

from tailrace.dataset.schema import MOMENT_MAX, MOMENT_MIN
from tailrace.engines.parts import COLUMNS, SUM, Part, Plan
from tailrace.errors import InputError

HALF = 1 << 32
RESULT = ("server", "interaction", "window", "arrivals", "departures", "vlrt", "drops", "area_ns", "high", "low")


@dataclass(frozen=True)
class SpanColumns:
    """Where a table of spans has what connects them."""

    trace: str
    id: str
    parent: str
    status: str
    kind: str


@dataclass(frozen=True)
class Shape:
    """How a table says what a visit is."""

    name: str
    needs: frozenset[str]
    """Columns by which the table is recognised."""
    server: str
    interaction: str
    arrival: str
    departure: str
    sent: str
    drops: str
    only: str = "1"
    """Which rows are visits."""
    before: str = ""
    """A condition on the order key for visits that arrived before the moment {end}."""
    span: SpanColumns | None = None
    """None: a row is a visit."""

    @property
    def root(self) -> str:
        """Which visits are requests: those without a caller."""
        return f"{self.span.parent} = ''" if self.span else "isNull(parent)"


SERVING = "(2, 5)"
"""The numbers of the span kinds server and consumer in OTLP."""
SHAPES = (
    Shape(
        "the visits of a run folder",
        frozenset(("server", "sent", "arrival", "departure", "drops")),
        *("toString(server)", "toString(interaction)", "toInt64(arrival)", "toInt64(departure)"),
        *("toInt64(ifNull(sent, arrival))", "toInt64(ifNull(drops, 0))"),
    ),
    Shape(
        "otel_traces, as the OpenTelemetry collector and Coroot write it",
        frozenset(("Timestamp", "Duration", "ServiceName", "SpanName", "SpanKind")),
        *("toString(ServiceName)", "toString(SpanName)", "toUnixTimestamp64Nano(Timestamp)"),
        *("toUnixTimestamp64Nano(Timestamp) + toInt64(Duration)", "toUnixTimestamp64Nano(Timestamp)", "toInt64(0)"),
        only="SpanKind IN ('Server', 'SPAN_KIND_SERVER', 'Consumer', 'SPAN_KIND_CONSUMER')",
        before="Timestamp < fromUnixTimestamp64Nano({end})",
        span=SpanColumns("TraceId", "SpanId", "ParentSpanId", "StatusCode", "SpanKind"),
    ),
    Shape(
        "signoz_index_v3 of SigNoz",
        frozenset(("ts_bucket_start", "timestamp", "duration_nano", "kind", "name", "resource_string_service$$name")),
        *("toString(`resource_string_service$$name`)", "toString(name)", "toUnixTimestamp64Nano(timestamp)"),
        *(
            "toUnixTimestamp64Nano(timestamp) + toInt64(duration_nano)",
            "toUnixTimestamp64Nano(timestamp)",
            "toInt64(0)",
        ),
        only=f"kind IN {SERVING}",
        before="toInt64(ts_bucket_start) <= intDiv({end}, 1000000000) AND timestamp < fromUnixTimestamp64Nano({end})",
        span=SpanColumns("trace_id", "span_id", "parent_span_id", "status_code", "kind"),
    ),
    Shape(
        "signoz_index_v2 of SigNoz",
        frozenset(("timestamp", "durationNano", "kind", "name", "serviceName")),
        *("toString(serviceName)", "toString(name)", "toUnixTimestamp64Nano(timestamp)"),
        *("toUnixTimestamp64Nano(timestamp) + toInt64(durationNano)", "toUnixTimestamp64Nano(timestamp)", "toInt64(0)"),
        only=f"kind IN {SERVING}",
        before="timestamp < fromUnixTimestamp64Nano({end})",
        span=SpanColumns("traceID", "spanID", "parentSpanID", "statusCode", "kind"),
    ),
    Shape(
        "spans of Jaeger",
        frozenset(("start_time", "duration", "kind", "name", "service_name")),
        *("toString(service_name)", "toString(name)", "toUnixTimestamp64Nano(start_time)"),
        *("toUnixTimestamp64Nano(start_time) + toInt64(duration)", "toUnixTimestamp64Nano(start_time)", "toInt64(0)"),
        only="lower(kind) IN ('server', 'consumer')",
        before="start_time < fromUnixTimestamp64Nano({end})",
        span=SpanColumns("trace_id", "id", "parent_span_id", "status_code", "kind"),
    ),
)


def reduced(table: str, ask: Callable[[str], pl.DataFrame], source: str, plan: Plan) -> Part:
    """The sums of a table, by the queries that `ask` answers. `table` is SQL, and `source` its name in an error."""
    of = shape(ask(f"DESCRIBE TABLE {table}")["name"].to_list(), source)
    return part(ask(query(table, of, plan)))


def shape(columns: Collection[str], table: str) -> Shape:
    for one in SHAPES:
        if one.needs.issubset(columns):
            return one
    known = "; ".join(f"{one.name} ({', '.join(sorted(one.needs))})" for one in SHAPES)
    raise InputError(table, "it is not a table of visits that Tailrace knows", f"these are: {known}")


def query(table: str, of: Shape, plan: Plan) -> str:
    """A row for each server and window with an event, as RESULT names the columns. `table` is SQL."""
    width = plan.window_ns
    begin = MOMENT_MIN if plan.begin is None else plan.begin - plan.begin % width
    end = MOMENT_MAX if plan.end is None else -(-plan.end // width) * width
    interaction = of.interaction if plan.by_interaction else "CAST(NULL AS Nullable(String))"
    pruned = f" AND {of.before.format(end=end)}" if of.before and plan.end is not None else ""
    visits = (
        f"SELECT {of.server} AS server, {interaction} AS interaction, {of.arrival} AS arrival, "
        f"{of.departure} AS departure, {of.sent} AS sent, {of.drops} AS drops FROM {table} WHERE ({of.only}){pruned}"
    )
    # An event at `t`: the arrival (1), or the departure (-1). One before the first window counts for `opening`.
    events = (
        f"SELECT server, interaction, arrival, departure, sent, drops, t, sign, t < {begin} AS early "
        f"FROM ({visits}) ARRAY JOIN [arrival, departure] AS t, [1, -1] AS sign "
        f"WHERE server IS NOT NULL AND arrival >= {MOMENT_MIN} AND departure <= {MOMENT_MAX} AND arrival <= departure "
        f"AND departure >= {begin} AND arrival < {end} AND t < {end}"
    )
    rest = f"((t % {width}) + {width}) % {width}"
    return (
        f"SELECT server, interaction, if(early, NULL, t - {rest}) AS window, countIf(sign = 1) AS arrivals, "
        f"countIf(sign = -1) AS departures, countIf(sign = 1 AND NOT early AND departure - sent >= {plan.vlrt_ns}) AS "
        "vlrt, "
        f"ifNull(sumIf(drops, sign = 1 AND NOT early), 0) AS drops, "
        f"ifNull(sumIf(sign * ({width} - {rest}), NOT early), 0) AS area_ns, "
        f"ifNull(sumIf(intDiv(departure - arrival, {HALF}), sign = -1), 0) AS high, "
        f"ifNull(sumIf((departure - arrival) % {HALF}, sign = -1), 0) AS low "
        f"FROM ({events}) GROUP BY server, interaction, window"
    )


def counts(table: str, of: Shape, threshold_ns: int) -> str:
    """The number of requests, and of those that took so long or longer."""
    return f"SELECT count() AS requests, countIf(took >= {threshold_ns}) AS slow FROM ({_requests(table, of)})"


def slow(table: str, of: Shape, threshold_ns: int, step: int) -> str:
    """When those were sent; every `step`-th of them."""
    found = f"SELECT sent, row_number() OVER (ORDER BY sent) AS row FROM ({_requests(table, of)}) "
    return f"SELECT sent FROM ({found} WHERE took >= {threshold_ns}) WHERE row % {step} = {1 % step} ORDER BY sent"


def _requests(table: str, of: Shape) -> str:
    return (
        f"SELECT {of.sent} AS sent, {of.departure} - {of.sent} AS took FROM {table} WHERE ({of.only}) AND ({of.root})"
    )


def around(table: str, begin: str, end: str, spans: Sequence[tuple[int, int]]) -> str:
    """All columns of the rows that overlap a span."""
    return f"SELECT * FROM {table} WHERE {_inside(f'ifNull({begin}, {end})', end, spans)}"


def spans_around(table: str, of: Shape, span: SpanColumns, spans: Sequence[tuple[int, int]]) -> str:
    """The spans of any kind that overlap a span of time, as a file of spans has them."""
    pruned = f" AND {of.before.format(end=max(end for _, end in spans))}" if spans else ""
    columns = {"TraceID": span.trace, "SpanID": span.id, "ParentSpanID": span.parent, "StatusCode": span.status}
    named = ", ".join(f"toString({column}) AS {name}" for name, column in columns.items())
    return (
        f"SELECT {named}, {of.server} AS ServiceName, {of.interaction} AS SpanName, toString({span.kind}) AS SpanKind, "
        f"{of.arrival} AS StartTimeUnixNano, {of.departure} AS EndTimeUnixNano FROM {table} "
        f"WHERE {_inside(of.arrival, of.departure, spans)}{pruned}"
    )


def _inside(begin: str, end: str, spans: Sequence[tuple[int, int]]) -> str:
    inside = [f"({begin} < {last} AND {end} >= {first})" for first, last in spans]
    return f"({' OR '.join(inside) or '0'})"


def part(rows: pl.DataFrame) -> Part:
    """The sums of a query's answer."""
    texts = ("server", "interaction")
    typed = rows.select(pl.col(name).cast(pl.String if name in texts else pl.Int64) for name in RESULT)
    response = [high * HALF + low for high, low in typed.select("high", "low").iter_rows()]
    sums = typed.with_columns(pl.col("area_ns").cast(SUM), response_ns=pl.Series(response, dtype=SUM))
    return Part(sums.select(list(COLUMNS)))
