"""The record's own words, which identify nothing and therefore stay (docs/reference/dataset.md)."""

from __future__ import annotations

import re

from tailrace.dataset.metrics import METRICS as _INTERPRETED
from tailrace.dataset.reading import LEFT_OUT

METRICS = _INTERPRETED | {
    "disk_read_bytes",
    "disk_write_bytes",
    "listen_overflows",
    "psi_cpu_full",
    "psi_io_full",
    "psi_memory_full",
    "run_queue_waiting",
    "syn_queue_drops",
}
"""Metrics of the record, and those that only the recorder has (docs/reference/record.md)."""
UNIT_UNKNOWN = " (unit unknown)"

KINDS = frozenset(
    {
        "allocation_stall",
        "data_drop",
        "drop",
        "freeze",
        "frequency_step",
        "gc",
        "load_late",
        "log_flush",
        "neighbour_burst",
        "process_spawn",
        "safepoint",
        "idle_client",
        "silent_client",
        "late_answer",
        "repeated_answer",
        "silent_server",
        "slow_request",
        "refused_call",
        "unanswered_call",
        "unacknowledged",
        "surge",
        "trace",
        "writeback",
    }
)
"""Kinds of events."""

PLACES = frozenset({"host", "jvm", "clients", "kernel threads", "(other hosts)", "(other servers)"})
CLIENT = re.compile("client-[0-9]{1,5}")
"""A host that calls and serves nothing, by its number."""

_REDIS = (
    "OTHER|ERR|WRONGTYPE|NOAUTH|WRONGPASS|NOPERM|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|CROSSSLOT|LOADING|BUSY|OOM|READONLY|"
    "MISCONF|MASTERDOWN|NOREPLICAS|NOSCRIPT|EXECABORT|BUSYGROUP|NOGROUP|UNKILLABLE"
)
STATUS = re.compile(
    r"ok|refused|timeout|reset|abandoned|unknown|[1-9][0-9]{2}"
    r"|error(-([0-9]{1,5}|exit-[0-9]{1,5}|truncated|malformed|unreachable|overloaded"
    rf"|(?=[A-Z]*[0-9])[0-9A-Z]{{5}}|{_REDIS}))?"
)
"""Statuses of requests and visits; a SQLSTATE has five characters, with a digit among them."""

METHODS = frozenset(("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "QUERY", "PURGE"))
STATEMENT = re.compile(
    "SELECT|INSERT|UPDATE|DELETE|REPLACE|MERGE|WITH|CALL|EXECUTE|PREPARE|BEGIN|COMMIT|ROLLBACK|SET|SHOW|USE|SQL|EXPLAIN|"
    "ANALYZE|CREATE|ALTER|DROP|TRUNCATE|LOAD|COPY|LOCK|UNLOCK|VACUUM|FLUSH"
)
INTERACTIONS = frozenset({"(other)", "LOGIN", "PING", "QUIT", "SYNC", "EXECUTE", "PREPARE", "DESCRIBE", "CLOSE"})
"""Names that contain nothing of what was sent."""

PROTOCOLS = frozenset(
    (
        *("http", "http2", "ajp", "fastcgi", "mysql", "postgres", "redis", "opaque", "tls"),
        *("memcached", "mongodb", "kafka", "cassandra", "amqp", "ldap", "dns"),
    )
)
SOFTWARE = (
    *("coyote", "tomcat", "apache2", "apache", "httpd", "nginx", "haproxy", "envoy", "java", "jetty", "gunicorn"),
    *("uwsgi", "uvicorn", "php-fpm", "puma", "node", "express", "mysqld", "mariadbd", "mysql", "mariadb", "postgres"),
    *("postgresql", "pgbouncer"),
)
"""Programs that thousands of sites run."""
_SOFTWARE = re.compile(r"(?<![a-z])(" + "|".join(sorted(SOFTWARE, key=len, reverse=True)) + r")(?![a-z])")


def software(text: str) -> str | None:
    """The first of these programs that a text names: `nginx` of `nginx/1.24.0 (Debian)`. None: it names none."""
    found = sorted(_SOFTWARE.findall(text.lower()), key=SOFTWARE.index)
    return found[0] if found else None


POLICIES = frozenset(
    ("round_robin", "random", "least_connections", "peak_ewma", "prequal", "requests", "total_request", "current_load")
)
MAKERS = frozenset({"tailrace", "tailrace sim", "tailrace record", "tailrace load", "tailrace testbed"})

LOSSES = re.compile(
    r"ends of lines longer than [0-9]{1,4} KiB|rows of (visits|requests|samples|events|stays): the disk was too slow|"
    + "|".join(
        re.escape(sentence)
        for sentence in (
            LEFT_OUT,
            "bytes after a break",
            "values whose interval is unknown",
            "waits for a connection beyond the first",
            "waits for locks beyond the first",
            "waits in HAProxy's queue beyond the first",
            "first values, whose interval is unknown",
            "moments of a CPU without idle, wait or steal",
            "rows without a number, a measurement or a time",
            "bytes missing in holes of the capture",
            "bytes that could not be read",
            "calls between further pairs of servers",
            "connections given up because too many were open or silent",
            "connections on which no whole request came",
            "damaged elements",
            "damaged lines",
            "last lines that were cut off",
            "entries without a time",
            "events without a time",
            "events without a time or a reason",
            "events without a usable time",
            "lines without a date",
            "moments without a time",
            "switches that the kernel lost",
            "lines without a duration",
            "NUL bytes in texts",
            "milliseconds of record after the last closed segment, at most: the recorder was killed",
            "packets stored too late to be sorted",
            "packets that the capture itself lost",
            "packets the ring had no room for",
            "packets with an impossible time",
            "pauses without an end",
            "requests and calls still under way 10 minutes after the end",
            "requests that were never sent, because no socket was free",
            "requests that were never sent, because no source port was free",
            "requests with impossible times or names",
            "requests without a row, because the disk was too slow",
            "responses that fell into a hole of the capture",
            "rows far from the rest in time",
            "samples that the file holds twice",
            "samples without a usable time, name or value",
            "samples without a value",
            "segments of connections beyond the limit of open ones",
            "segments that could not be read",
            "segments with numbers that are not of their connection",
            "spans of traces that have too many",
            "spans that came twice",
            "spans that end before they begin",
            "spans without an id, a time or a service",
            "stops without a time stamp",
            "stops without a wall clock",
            "times that decoding died of a packet: what was open then is missing",
            "visits without an essential value",
            "windows of 50 ms in which the load generator was late (load_late)",
        )
    )
)
OTHER_LOSSES = "what the original tells in its own words"
