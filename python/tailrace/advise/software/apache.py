"""Apache httpd, with the worker or event MPM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.units import MILLISECOND, SECOND

NAME, TITLE = "apache", "Apache httpd"
THREAD_LIMIT = 64
"""Apache's own ThreadLimit, which bounds ThreadsPerChild."""


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier)
    match step.what:
        case "backlog":
            yield line("apache2.conf", f"ListenBacklog {step.now}", f"ListenBacklog {step.then}")
        case "workers":
            if step.then > THREAD_LIMIT:
                yield line("mpm_event.conf", "", f"ThreadLimit {step.then}", "a restart, not a reload, applies it")
            yield line("mpm_event.conf", f"ThreadsPerChild {step.now}", f"ThreadsPerChild {step.then}")
            note = "for one process; ThreadsPerChild times the processes"
            yield line("mpm_event.conf", f"MaxRequestWorkers {step.now}", f"MaxRequestWorkers {step.then}", note)
        case "kept" if not step.callee:
            yield line("apache2.conf", "KeepAlive Off", "KeepAlive On")
        case "silence":
            least = max(step.then // SECOND, 1)
            yield line("reqtimeout.conf", "", f"RequestReadTimeout header={least}", "whole seconds; or the event MPM")
            kept = f"KeepAliveTimeout {step.then // MILLISECOND}ms"
            yield line("apache2.conf", "", kept, "for connections that are kept after an answer")
        case "log":
            yield line("apache2.conf", "", "BufferedLogs On", "or remove CustomLog")
