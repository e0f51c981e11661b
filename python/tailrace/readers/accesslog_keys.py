"""Lines of names and values: LTSV and logfmt.

```text
time:20/Nov/2026:16:49:00 +0000⇥host:10.0.0.9⇥req:GET /x HTTP/1.1⇥status:200⇥reqtime:0.012      LTSV; the ⇥ are tabs
time=2026-11-20T16:49:00.123Z level=INFO msg="request done" method=GET path=/x status=200 elapsed=12.3ms     logfmt
```
"""

from __future__ import annotations

import re

_LABEL = re.compile(r"([A-Za-z_@][\w.@-]{0,60}):(.*)", re.DOTALL)
_PAIR = re.compile(r'(?:^|\s)([A-Za-z_@][\w.@-]{0,60})=(?:"((?:[^"\\]|\\.)*)"|(\S*))')
_STAMP = re.compile(r"[^=\s]{0,40}?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)")
_FEWEST = 4
"""Names in a line of this kind."""


def keyed(line: str) -> dict[str, str] | None:
    """The values of such a line by their names; None for any other. A time before them is called `time`."""
    if "\t" in line:
        labels = [_LABEL.fullmatch(part) for part in line.split("\t")]
        found = {label[1]: label[2] for label in labels if label}
        return found if len(found) >= _FEWEST and all(labels) else None
    pairs = list(_PAIR.finditer(line))
    if len(pairs) < _FEWEST:
        return None
    values = {pair[1]: pair[3] if pair[2] is None else pair[2] for pair in pairs}
    stamp = _STAMP.match(line[: pairs[0].start()])
    return {**({"time": stamp[1]} if stamp else {}), **values}
