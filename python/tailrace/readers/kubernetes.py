"""Events of Kubernetes (`kubectl get events --all-namespaces -o json`, also with `-w`), and how the containers of pods
ended before (`kubectl get pods --all-namespaces -o json`).

```text
{"kind": "List", "items": [{"kind": "Event", "reason": "OOMKilling", "involvedObject": {"kind": "Pod", "name": "app-1"},
    "firstTimestamp": "2026-11-20T16:49:00Z", "lastTimestamp": …, "count": 3, "message": "…"}]}
{"type": "ADDED", "object": {"kind": "Event", …}}         a watch: one after the other, also without "type" and "object"
```
The place is the object's name, and the kind is the reason: `k8s OOMKilling`. Of events that were counted together, the
first and the last time are known. Of a pod, the last end of each container is known (`k8s OOMKilled`), and when it ran
again: the event lasts from the one to the other. A watch shows an event each time it is counted; the last one counts.
"""

from __future__ import annotations

import re
from typing import Any

from tailrace.bounds import NAMES
from tailrace.errors import InputError
from tailrace.readers.elements import elements, moment, rows, table, text
from tailrace.readers.happened import Happened
from tailrace.readers.source import Found, Source, text_head

_SEEN = re.compile(
    r'"items"\s*:\s*\[\s*\{[\s\S]{0,4000}?"(?:involvedObject|firstTimestamp|kind"\s*:\s*"(?:Event|Pod)")'
)
_WATCHED = re.compile(
    r'\A[\s\ufeff]*\{(?:(?!"items")[\s\S]){0,4000}?"(?:involvedObject|regarding|firstTimestamp|kind"\s*:\s*"Event)"'
)
_VERSION = re.compile(r'"apiVersion"\s*:\s*"(?:v1|events\.k8s\.io/v1(?:beta1)?)"')
"""Not those of audit logs, which are called events as well."""
_OPENING = re.compile(r'"items"\s*:\s*\[')
_RESUME = re.compile(r'\{\s*"(?:apiVersion|kind|type)"\s*:')


def sniff(name: str, head: bytes) -> bool:
    beginning = text_head(head) or ""
    return beginning.lstrip("\ufeff \r\n\t").startswith("{") and bool(_SEEN.search(beginning) or _is_watch(beginning))


def _is_watch(beginning: str) -> bool:
    return bool(_WATCHED.match(beginning) and _VERSION.search(beginning))


def read(source: Source) -> Found:
    found, events, pods = Found(), Happened(), 0
    latest: dict[str, tuple[str, str, int, int, str]] = {}
    watched = not _SEEN.search(text_head(source.head()) or "")
    for _, element in elements(source, found, _RESUME, None if watched else _OPENING):
        event = table(element)
        if event.get("type") == "BOOKMARK":
            continue
        event = table(event.get("object")) or event
        if event.get("kind") == "Pod":
            pods += 1
            _restarts(source, event, events)
            continue
        about = table(event.get("involvedObject")) or table(event.get("regarding"))
        single = _moment(event.get("eventTime"))
        first = _moment(_either(event, "firstTimestamp")) or single
        series = table(event.get("series"))
        last = _moment(_either(event, "lastTimestamp")) or _moment(series.get("lastObservedTime")) or first
        reason = text(event.get("reason"))
        if first is None or last is None or reason is None:
            found.lose("events without a time or a reason", 1)
            continue
        place = source.place or text(about.get("name")) or "kubernetes"
        times = _either(event, "count") or series.get("count") or 1
        detail = f"{times} times: {event.get('message') or event.get('note') or ''}"
        happened = (place[:1000], f"k8s {reason}"[:100], min(first, last), last, detail)
        known = text(table(event.get("metadata")).get("uid"))
        if known and (known in latest or len(latest) < NAMES):
            latest[known] = happened
        else:
            events.add(*happened)
        if events.full:
            break
    for happened in latest.values():
        events.add(*happened)
    if pods and not len(events):
        found.notes.append(f"{source.path.name}: no container of its {pods} pods ended before")
    elif not len(events):
        raise InputError(source.path, "there is no event in it", "docs/reference/readers.md lists what is read")
    events.into(found, source)
    return found


def _either(event: dict[str, Any], key: str) -> object:
    """A key of the core API, or what `events.k8s.io/v1` calls it."""
    return event.get(key) or event.get(f"deprecated{key[0].upper()}{key[1:]}")


def _restarts(source: Source, pod: dict[str, Any], events: Happened) -> None:
    """How the containers of a pod ended the last time, and when they ran again."""
    about = table(pod.get("metadata"))
    place = source.place or text(about.get("name")) or "kubernetes"
    for container in rows(table(pod.get("status")).get("containerStatuses")):
        ended = table(table(container.get("lastState")).get("terminated"))
        began = _moment(table(table(container.get("state")).get("running")).get("startedAt"))
        end = _moment(ended.get("finishedAt"))
        if end is not None and not events.full:
            kind = f"k8s {text(ended.get('reason')) or 'Terminated'}"[:100]
            code, times = ended.get("exitCode"), container.get("restartCount")
            detail = f"container {container.get('name')}: exit code {code}, restarts so far: {times}"
            events.add(place[:1000], kind, end, max(end, began or end), detail)


def _moment(value: object) -> int | None:
    return moment(value) if isinstance(value, str) else None
