"""What `tcpretrans` and `tcpdrop` of bcc (and bpftrace) print: a line for each packet.

```text
TIME     PID    IP LADDR:LPORT          T> RADDR:RPORT          STATE                        tcpretrans
16:49:01 0      4  10.0.0.2:41122       R> 10.0.0.3:8080        SYN_SENT
TIME     PID    IP SADDR:SPORT          > DADDR:DPORT          STATE (FLAGS)                 tcpdrop
16:49:01 4711   4  10.0.0.2:41122       > 10.0.0.3:8080        LISTEN (SYN)
TIME     PID      LADDR:LPORT          RADDR:RPORT          STATE                            of bpftrace
16:49:01 0        10.0.0.2:41122       10.0.0.3:8080        SYN_SENT
```
They print the time of day, and `--began NAME=MOMENT` says on which day. They become counts for each second:
`syn_retransmits` of the host that sent a SYN again, `listen_drops` of SYNs that a listening socket dropped, and
`tcp_retransmits` and `tcp_drops` of all others.
"""

from __future__ import annotations

import re
from collections import Counter

from tailrace.readers.daytimes import Daytimes
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import SECOND

_HEADER = re.compile(r"^TIME\s+PID\s+(?:COMM\s+)?(?:IP\s+)?([LS])ADDR:[LS]PORT\s+(?:T?> )?\s*[RD]ADDR:", re.MULTILINE)
_LINE = re.compile(
    r"(\d\d):(\d\d):(\d\d)\s+-?\d{1,9}\s+(?:\S{1,32}\s+)??(?:[46]\s+)?\S{1,64}:\d{1,5}\s+(?:([RLF]?)>\s*)?"
    r"\S{1,64}:\d{1,5}\s+(\S{1,20})(?:\s+\(([A-Z|]{0,40})\))?"
)


def sniff(name: str, head: bytes) -> bool:
    return bool(_HEADER.search((text_head(head) or "")[:4096]))


def read(source: Source) -> Found:
    found, samples, counts = Found(), Sampled(), Counter[tuple[int, str]]()
    days, seen, again = Daytimes(source), set[int](), False
    for line_number, line in source.lines(found):
        if header := _HEADER.match(line):
            again = header[1] == "L"
            continue
        match = _LINE.match(line)
        if match is None:
            if line[:1].isdigit():
                found.damaged(source.path.name, line_number)
            continue
        moment = days.moment(match[1], match[2], match[3]) + SECOND
        counts[moment, _metric(match, again=again)] += 1
        seen.add(moment)
        if len(counts) >= samples.most:
            break
    metrics = sorted({metric for _, metric in counts})
    for moment in range(min(seen, default=0), max(seen, default=-1) + 1, SECOND):
        for metric in metrics:
            samples.add(moment, SECOND, source.place or "host", metric, float(counts[moment, metric]))
        if samples.full:
            break
    samples.into(found, source, "there is no packet in it")
    days.date(found)
    return found


def _metric(line: re.Match[str], *, again: bool) -> str:
    """Of a packet that was sent `again`, or was dropped."""
    state, flags = line[5], line[6]
    if line[4] or again:
        return "syn_retransmits" if state == "SYN_SENT" else "tcp_retransmits"
    return "listen_drops" if state in ("LISTEN", "NEW_SYN_RECV") and "SYN" in (flags or "SYN") else "tcp_drops"
