"""Commands that convert the output of other tools to a table of samples. Each is tested on real output of its tool.

`FILE` stands for the file. Percentages become shares. If a tool prints no host, the table has no place and is read as
NAME=samples.csv. Dates and times without a zone are taken as UTC. The first report of top covers the time since the
machine started, and is left out.
"""

from __future__ import annotations

_UNPLACED = 'BEGIN{print "time,metric,value"} '

SYSSTAT_FILE = "sadf -dU FILE -- -u -q -d -r -w > sar.csv"
ATOP = "atop -r FILE -P CPU,cpu,CPL,DSK > atop.out"
TOP = (
    f"awk -v OFS=, -v day=2026-11-20 '{_UNPLACED}"
    '/^top - /{t=day"T"$3;n++} /^%?Cpu/&&n>1{gsub(/%?Cpu[^:]*:|%?[a-z,]+/," ");print t,"cpu_busy",($1+$2+$3+$6+$7)/100;'
    'print t,"cpu_iowait",$5/100;print t,"cpu_steal",$8/100}\' FILE > samples.csv'
)
PROMETHEUS_QUERY = (
    "curl -G http://localhost:9090/api/v1/query_range -d start=2026-11-20T16:50:00Z -d end=2026-11-20T16:55:00Z "
    "-d step=1s --data-urlencode 'query=1-avg(rate(node_cpu_seconds_total{mode=\"idle\"}[5s]))by(instance)' "
    "> cpu_busy.json"
)


def columns_to_rows(delimiter: str, time: int, place: int | None) -> str:
    """For a table with a column for each metric; `time` and `place` are the numbers of these columns, from 1."""
    separator = {"\t": "'\\t'", ";": "';'"}.get(delimiter, delimiter)
    names, fields = ("time,place", f"${time},${place}") if place else ("time", f"${time}")
    others = f"i!={time}&&i!={place}" if place else f"i!={time}"
    return (
        f'awk -F{separator} -v OFS=, \'{{sub(/\\r$/,"")}} NR==1{{n=split($0,m);print "{names},metric,value";next}} '
        f'{{for(i=1;i<=n;i++)if({others}&&$i!="")print {fields},m[i],$i}}\' FILE > samples.csv'
    )
