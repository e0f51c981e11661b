"""Gatling's `simulation.log`, as text (Gatling 2 to 3.11; `gatling_binary` reads that of later versions).

```text
RUN     computerdatabase.Basic  basic   1795193340000           3.9.5
REQUEST         Search  1795193340123   1795193340145   OK                          Gatling 3.4 and later
REQUEST 1               Search  1795193340123   1795193340145   KO      status.find.is(200), but actually found 503
```
Tabs lie between the fields. The two times, in ms, stand before OK or KO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tailrace import units
from tailrace.readers.loadtests.sent import Form, Sent, outcome
from tailrace.readers.source import Found, Source

_RUN = re.compile(r"\A(?:ASSERTION\t[^\n]*\n){0,100}RUN\t|\A[^\n\t]{1,200}\t[^\n\t]{1,200}\tRUN\t")
_REQUEST = re.compile(r"(?:[^\t]*\t){1,5}?([^\t]*)\t(\d{13})\t(\d{13})\t(OK|KO)(?:\t(.*))?")
_FOUND = re.compile(r"found (\d{3})\b")


def _requests(source: Source, found: Found) -> Iterator[tuple[int, Sent | None]]:
    for number, line in source.lines(found):
        if not (line.startswith("REQUEST\t") or "\tREQUEST\t" in line[:400]):
            continue
        match = _REQUEST.fullmatch(line)
        begin, end = (int(match[2]), int(match[3])) if match else (1, 0)
        if match is None or end < begin:
            yield number, None
            continue
        label, why = match[1], match[5] or ""
        status = status_of(why, failed=match[4] == "KO")
        yield number, Sent(begin * units.MILLISECOND, (end - begin) * units.MILLISECOND, status, label=label)


def status_of(why: str, *, failed: bool) -> str:
    """The status of a request; `why` is the message of one that failed."""
    code = _FOUND.search(why)
    return outcome(code[1] if code else "", why, failed=True) if failed else "ok"


FORMS = (Form("Gatling", lambda head: bool(_RUN.match(head)), _requests, connects=False),)
