"""The history of a Locust test: `locust --csv NAME --csv-full-history` writes `NAME_stats_history.csv`.

```text
Timestamp,User Count,Type,Name,Requests/s,Failures/s,50%,66%,…,100%,Total Request Count,Total Failure Count,…
1795193341,8,,Aggregated,63.2,0.0,8,8,…,2100,409,0,…
```
Locust writes no line for each request, so there are samples and no requests. The percentiles are those of the last ten
seconds, in milliseconds.
"""

from __future__ import annotations

from tailrace.readers.elements import number
from tailrace.readers.layout import fields, named_rows
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import SECOND

_BEGIN = ["Timestamp", "User Count", "Type", "Name"]
_METRICS = {
    "User Count": "users",
    "Requests/s": "requests_per_s",
    "Failures/s": "failures_per_s",
    "50%": "response_time_p50_ms",
    "99%": "response_time_p99_ms",
    "100%": "response_time_max_ms",
}


def sniff(name: str, head: bytes) -> bool:
    return fields((text_head(head) or "").split("\n", 1)[0].strip(), ",")[:4] == _BEGIN


def read(source: Source) -> Found:
    found, samples = Found(), Sampled()
    for line_number, values in named_rows(source, found):
        stamp = number(values.get("Timestamp"))
        if stamp is None or not 0 <= stamp < 10**11:
            found.damaged(source.path.name, line_number)
        elif values.get("Name") == "Aggregated":
            for column, metric in _METRICS.items():
                if (value := number(values.get(column))) is not None:
                    samples.add(round(stamp) * SECOND, None, source.place or "server", metric, value)
    samples.into(found, source, "there is no line of all requests in it")
    found.attempts = "by response times alone"
    found.notes.append(
        f"{source.path.name}: Locust writes no line for each request, so response times are known as percentiles of "
        "ten seconds, and there are no requests"
    )
    return found
