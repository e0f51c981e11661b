"""Files that collectd's csv plugin writes: `HOST/cpu-0/cpu-idle-2026-11-20`, one for each value.

```text
epoch,value
1795193341.000,75.000000
```
The folders say what the values are. The files of the CPUs are read together: those of `cpu-N` have hundredths of a CPU,
and those of `percent-…` percentages. Other files are refused by name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from tailrace.errors import InputError
from tailrace.readers.elements import number
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import MILLISECOND

_HEADER = re.compile(r"\A\ufeff?epoch,value\r?\n")
_NAME = re.compile(r"(?:cpu|percent)-(\w{1,40}?)(?:-\d{4}-\d\d-\d\d)?(?:\.csv)?(?:\.gz|\.zst)?")
_PLUGIN = re.compile(r"cpu(?:-(\d{1,4}|all))?")


def sniff(name: str, head: bytes) -> bool:
    return bool(_HEADER.match(text_head(head) or ""))


def together(source: Source) -> str:
    return "collectd"


def read(sources: Sequence[Source]) -> Found:
    found, samples = Found(), Sampled()
    modes: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for source in sources:
        mode, plugin = _NAME.fullmatch(source.path.name), _PLUGIN.fullmatch(source.path.parent.name)
        if mode is None or plugin is None:
            said = "it is a file of collectd's csv plugin, and only those of CPUs are read (HOST/cpu-0/cpu-idle-DATE)"
            raise InputError(source.path, said, "pass the files of the folders cpu-…")
        core = "" if plugin[1] in (None, "all") else f"/cpu{plugin[1]}"
        place = (source.place or source.path.absolute().parent.parent.name or "host") + core
        for line_number, line in source.lines(found):
            stamp, _, value = line.partition(",")
            moment, share = number(stamp), number(value)
            if line.startswith("epoch"):
                continue
            if moment is None or share is None or not 0 <= moment < 10**11:
                found.damaged(source.path.name, line_number)
                continue
            modes[place, round(moment * 1000) * MILLISECOND][mode[1]] = share
            if len(modes) * 8 >= samples.most:
                found.filled(source.path.name, len(modes), "moments")
                break
    for (place, moment), shares in modes.items():
        if "idle" in shares:
            waits, stolen = shares.get("wait", 0.0), shares.get("steal", 0.0)
            busy = max(0.0, min((100 - shares["idle"] - waits - stolen) / 100, 1.0))
            samples.add(moment, None, place, "cpu_busy", round(busy, 9))
        for mode_name, metric in (("wait", "cpu_iowait"), ("steal", "cpu_steal")):
            if mode_name in shares:
                samples.add(moment, None, place, metric, round(shares[mode_name] / 100, 9))
    samples.into(found, sources[0], "there is no value of idle CPU, iowait or steal in it")
    return found
