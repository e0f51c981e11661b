"""Commands that convert the output of other tools to a table of samples. Each is tested on real output of its tool.

`FILE` stands for the file. Percentages become shares. If a tool prints no host, the table has no place and is read as
NAME=samples.csv. Dates and times without a zone are taken as UTC. The first report of vmstat, iostat and top covers the
time since the machine started, and is left out.
"""

from __future__ import annotations

_PLACED = 'BEGIN{print "time,place,metric,value"} '
_UNPLACED = 'BEGIN{print "time,metric,value"} '
# sysstat's header: Linux 6.1.0 (host)  11/25/26 (or 11/25/2026, or 2026-11-25)  _x86_64_  (2 CPU)
_DATE = r'function date(s){return split(s,d,"/")<3?s:(d[3]<100?2000+d[3]:d[3])"-"d[1]"-"d[2]} '
_HEADER = r'/^Linux/{day=date($4);host=$3;gsub(/[()]/,"",host);cores=$(NF-1);sub(/\(/,"",cores);next} '
# 06:20:51 PM → 18:20:51, and the following columns move one to the left; a Unix time stays as it is
_CLOCK = (
    r'function clock(  t,h){if($1!~/:/)return $1;split($1,t,":");h=t[1]+0;'
    r'if($2~/^[AP]M$/){h=h%12+($2=="PM"?12:0);sub(/[AP]M/,"")}'
    r'return sprintf("%sT%02d:%s:%s",day,h,t[2],t[3])} '
)
_NAMES = "for(i=NF;i;i--)c[$i]=i;next} "

SYSSTAT_FILE = "sadf -dU FILE -- -u -q -d -r -w > sar.csv"
SAR = (
    f"awk -v OFS=, '{_DATE}{_CLOCK}{_PLACED}{_HEADER}/ CPU /{{clock();{_NAMES}"
    '/ all /&&/^[0-9]/{t=clock();b=100-$c["%idle"]-$c["%iowait"]-$c["%steal"];print t,host,"cpu_busy",b/100;'
    'print t,host,"cpu_iowait",$c["%iowait"]/100;print t,host,"cpu_steal",$c["%steal"]/100}\' FILE > samples.csv'
)
PIDSTAT = (
    f'awk -v OFS=, \'{_DATE}{_CLOCK}function put(){{if(last)print last,host,"cpu_busy",s/cores/100;s=0}} '
    f'{_PLACED}{_HEADER}/%CPU/{{sub(/^# *Time/,"Time");clock();{_NAMES}'
    '/^ *[0-9]/{t=clock();if(t!=last)put();last=t;s+=$c["%CPU"]} END{put()}\' FILE > samples.csv'
)
IOSTAT = (
    f'awk -v OFS=, \'{_DATE}{_CLOCK}function put(){{if(d2&&n>1)print t,host,"disk_busy",m/100;d2=m=0}} '
    f"{_PLACED}{_HEADER}"
    r'/^[0-9]+[-\/]/{put();n++;day=date($1);if($2){sub(/^[^ ]+ +/,"");t=clock()}else t=day;next} '
    '/^avg-cpu/{getline;if(n>1){print t,host,"cpu_busy",($1+$2+$3)/100;print t,host,"cpu_iowait",$4/100;'
    'print t,host,"cpu_steal",$5/100}next} /^Device/{d2=1;next} d2&&$NF+0>m{m=$NF} END{put()}\' FILE > samples.csv'
)
VMSTAT = (
    f'awk -v OFS=, \'{_UNPLACED}$1=="r"{{{_NAMES}'
    '$1~/^[0-9]+$/&&n++{t=$(NF-1)"T"$NF;print t,"cpu_busy",($c["us"]+$c["sy"])/100;print t,"cpu_iowait",$c["wa"]/100;'
    'print t,"cpu_steal",$c["st"]/100;print t,"run_queue",$c["r"]}\' FILE > samples.csv'
)
DSTAT = (
    f"awk -F, -v OFS=, '{_UNPLACED}"
    r'/"usr"/{gsub(/"/,"");' + _NAMES + r'c["epoch"]&&$1~/^[0-9]/{t=$c["epoch"];'
    'print t,"cpu_busy",($c["usr"]+$c["sys"])/100;print t,"cpu_iowait",$c["wai"]/100;'
    'if(c["stl"])print t,"cpu_steal",$c["stl"]/100}\' FILE > samples.csv'
)
TOP = (
    f"awk -v OFS=, -v day=2026-11-20 '{_UNPLACED}"
    '/^top - /{t=day"T"$3;n++} /^%?Cpu/&&n>1{gsub(/%?Cpu[^:]*:|%?[a-z,]+/," ");print t,"cpu_busy",($1+$2+$3+$6+$7)/100;'
    'print t,"cpu_iowait",$5/100;print t,"cpu_steal",$8/100}\' FILE > samples.csv'
)
ATOP = (
    'atop -r FILE -P CPU | awk -v OFS=, \'BEGIN{print "time,interval,place,metric,value"} '
    '$1=="RESET"{boot=2} $1=="CPU"&&!boot{a=$6*$7*$8/100;print $3,$6,$2,"cpu_busy",($9+$10+$11+$14+$15)/a/100;'
    'print $3,$6,$2,"cpu_iowait",$13/a/100;print $3,$6,$2,"cpu_steal",$16/a/100} $1=="SEP"{boot=0}\' > samples.csv'
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
