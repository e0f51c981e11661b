"""This module names the data that would settle a question: data that Tailrace reads, that may exist, and that the
recording does not have."""

from __future__ import annotations

import re

from tailrace.diagnosis.constants import WINDOW_NS
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import clock, duration, listing
from tailrace.units import MILLISECOND

NO_JVM = re.compile(
    r"(node|deno|bun|php|python|gunicorn|uvicorn|uwsgi|celery|ruby|puma|unicorn|perl|nginx|apache2?$|httpd|haproxy|envoy"
    r"|caddy|lighttpd|varnish|squid|mysql|maria|postgres|pgbouncer|redis|valkey|memcached|mongo|rabbitmq|beam)"
)
"""These are the beginnings of names of programs that run in no JVM. The recorder names servers by program."""
NO_JVM_PROTOCOLS = ("mysql", "postgres", "redis", "fastcgi", "memcached", "mongodb", "amqp", "dns")
"""The usual servers of these protocols run in no JVM."""
OF_THE_RECORDER = "syn_queue_drops"
"""Only `tailrace record` samples this counter. It also reads the control group of every listener."""
EARLIER = "a recording that begins before the overload"


def visits(server: str | None) -> str:
    """Return the missing visits: to all servers, or to one."""
    if server is None:
        return "visits (what each server received and answered when): a packet capture"
    return f"visits to {server}: a packet capture of its port"


def calls(server: str) -> str:
    """Return the missing calls of a server that seems to make none."""
    seen = "over TCP: no capture has those of Unix sockets"
    return f"a capture of the calls that {server} makes, if it makes any ({seen})"


def origin_behind(view: View, dropper: str) -> str | None:
    """Return what would show why a server overflowed, if no queue of it is seen to rise."""
    if dropper not in view.stays:
        return visits(dropper)
    if not view.series(dropper, "accept_queue"):
        return f"accept_queue of {dropper}, every {duration(WINDOW_NS)} or finer"
    return None if view.callees_of(dropper) else calls(dropper)


def half_open(dropper: str) -> str:
    """Return what would show who kept handshakes with a server open."""
    return f"who began handshakes with {dropper} and did not end them (`ss -n state syn-recv` shows their addresses)"


def slow_alone(view: View, server: str) -> str | None:
    """Return what would show why requests took long in a server, if no queue of it is seen to rise."""
    wanted = [] if view.callees_of(server) else [calls(server)]
    wanted += [] if view.series(server, "cpu_busy") else [f"cpu_busy of {server}"]
    states = [f"tasks_{state}" for state in ("runnable", "blocked") if not view.series(server, f"tasks_{state}")]
    wanted += [f"{listing(states)} of {server}, which show what its threads waited for"] if states else []
    return "; ".join(wanted) or None


def at_last(view: View, server: str | None) -> str:
    """Return what would show why requests took long, if all steps before leave it open."""
    if server is None or server not in view.stays:
        return visits(server)
    return slow_alone(view, server) or f"spans of what {server} did for these requests: a trace of its code"


def unseen_collections(view: View, server: str) -> str | None:
    """Return a log of its garbage collections if nothing in the recording shows them, except for a server that is known
    to run in no JVM."""
    if view.events_of("gc", "allocation_stall") or view.series(server, "gc_share"):
        return None
    known = view.topology.server(server)
    protocol = known.protocol if known is not None else None
    if protocol in NO_JVM_PROTOCOLS or NO_JVM.match(server.lower()):
        return None
    return f"a garbage collection log of {server}" + ("" if protocol == "ajp" else ", if it is a JVM")


def has_no_quota(view: View, server: str) -> bool:
    """Return whether the recorder looked for the control group of a server and found no quota in it."""
    recorded = any(metric == OF_THE_RECORDER for _, metric in view.samples)
    return recorded and not view.series(server, "cpu_throttled")


def samples(view: View, server: str, begin: int, end: int, metrics: tuple[str, ...]) -> str | None:
    """Return which of these metrics are not as fine as that time requires. Also return where there are samples that
    cannot be joined."""
    wanted = [
        metric
        for metric in metrics
        if not any(series.resolves(begin, end) for series in view.series(server, metric))
        and not (metric == "cpu_throttled" and has_no_quota(view, server))
    ]
    if not wanted:
        return None
    finest = max(min(WINDOW_NS, (end - begin) // 4), MILLISECOND)
    said = (
        f"{listing(wanted)} of {server} or its node from {clock(view, begin)} to {clock(view, end)}, "
        f"every {duration(finest)} or finer"
    )
    strangers = [place for place in view.sampled_places if not view.is_known(place)]
    if strangers and not any(view.series(server, metric) for metric in metrics):
        said += f" (there are samples of {listing(strangers[:6])}: if one is {server}, say --place PLACE={server})"
    return said
