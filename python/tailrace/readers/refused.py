"""Errors for files that no reader reads: what was found, what is needed, and the commands that convert it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tailrace import bounds, foreign
from tailrace.errors import InputError
from tailrace.readers import conversions, jfr, pcp
from tailrace.readers.layout import column_names, role
from tailrace.readers.source import Source, text_head

_FORM = "a table of time, place, metric and value (CSV or Parquet)"
_WANTED = f"Tailrace reads {_FORM}; convert it"
_CAPTURE = ("tcpdump -i any -s 256 -w web.pcap tcp", "tailrace diagnose web.pcap")


@dataclass(frozen=True)
class _Kind:
    """`seen` recognises it in the head of a file; `advice` says what is missing if no command can convert it."""

    what: str
    seen: re.Pattern[str]
    commands: tuple[str, ...] = ()
    advice: str = _WANTED
    placed: bool = True
    """The table that the command makes contains its places."""


def _is(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


_LINUX = r"\ALinux \S{1,99} \([^()\n]{1,99}\)[^\n]{0,99}\n\s*\n"
_KINDS = (
    _Kind(
        "the text of iostat without times",
        _is(_LINUX + r"(?:avg-cpu|Device|[^\n]{1,200} Device\n)"),
        ("iostat -xt 1 60 > disks.txt", "tailrace read disks.txt -o run"),
        "it has no times; record with -t",
    ),
    _Kind(
        "the text of sysstat with none of the reports that Tailrace reads",
        _is(_LINUX),
        ("sar -o sar.data 1 60", conversions.SYSSTAT_FILE.replace("FILE", "sar.data")),
        "Tailrace reads CPU, run queue, memory, context switches and disks (sar -u -q -r -w -d)",
    ),
    _Kind(
        "the text of vmstat without times",
        _is(r"\Aprocs -[^\n]{1,200}\n *r +b "),
        ("vmstat -nt 1 60 > vmstat.txt", "tailrace read NAME=vmstat.txt -o run"),
        "it has no times; record with -t",
    ),
    _Kind(
        "what dstat or dool prints",
        _is(r'\A"(?i:dstat|dool|pcp-dstat)[^\n]{0,99}CSV output"|^-{2,4}(?:total-)?(?:cpu-)?usage-{2,4}'),
        ("dool -T --cpu --proc --output cpu.csv 1 60", "tailrace read cpu.csv -o run"),
        "it has no times; record with -T",
    ),
    _Kind(
        "what tcpsynbl prints",
        _is(r"\ATracing SYN backlog size"),
        ("while sleep .1; do date +%s.%N; ss -lnt; nstat -az; done > sockets.txt", "tailrace read sockets.txt -o run"),
        "it has no times; record the accept queues with times (or tcpsynbl -T 1 of bcc's libbpf-tools)",
    ),
    _Kind(
        "the slow log of PHP-FPM",
        _is(r"^\[\d\d-[A-Z][a-z]{2}-\d{4} \d\d:\d\d:\d\d\] +\[pool [^\]\n]{1,80}\] pid \d{1,9}\nscript_filename = "),
        ('access.format = "%R - %u %t \\"%m %r%Q%q\\" %s %f %{milli}d %{kilo}M %C%%"',),
        "it has stacks and no durations; log durations in the access log of the pool",
    ),
    _Kind(
        "the summary of a load test",
        _is(
            r"\A\s*(?:Running \d{1,9}\S{0,9} test @ |Summary:\s|This is ApacheBench, )|^  Detailed Percentile spectrum:"
            r'|\A\s*\{[\s\S]{0,20000}?"(?:http_req_duration|http\.response_time|latency)"\s*:\s*\{[\s\S]{0,4000}?'
            r'"(?:p\(?9[059]\)?|p97_5|median)"\s*:'
        ),
        ("hey -o csv URL > hey.csv", "tailrace read NAME=hey.csv -o run"),
        "it has no line for each request, so it shows neither when the slow ones were nor what they waited for",
    ),
    _Kind(
        "the summary of a Locust test",
        _is(r'\A\ufeff?"?(?:Type"?,"?Name"?,"?Request Count|Method"?,"?Name"?,"?(?:Error|Message))'),
        ("locust --csv test --csv-full-history …", "tailrace read NAME=test_stats_history.csv -o run"),
        "it has no times",
    ),
    _Kind(
        "a summary or a map of perf sched",
        _is(r"^ *Task +\| +Runtime ms +\||^ {0,20}(?:\S{1,3} {1,4}){1,64}\d{1,9}\.\d{6} secs "),
        ("perf sched -i perf.data script > sched.txt", "tailrace read NAME=sched.txt -o run"),
        "it does not show when each program ran; print the switches of tasks",
    ),
    _Kind(
        "events of Kubernetes as text",
        _is(
            r"\A(?:NAMESPACE +)?LAST SEEN +(?:FIRST SEEN +)?(?:COUNT +)?(?:NAME +)?(?:TYPE|KIND) "
            r"|^ *- apiVersion: v1\n(?: .*\n){0,40}? +kind: Event$"
        ),
        ("kubectl get events --all-namespaces -o json > events.json", "tailrace read events.json -o run"),
        "their times are relative, or in YAML; Tailrace reads JSON",
    ),
    _Kind(
        "what the JDK prints of a flight recording as text or XML",
        _is(r"\A\s{0,9}jdk\.\w{1,60} \{\n +\w{1,30} = |\A<\?xml[^>]{0,99}>\s*<recording "),
        (
            f"jfr print --json --stack-depth 1 --events {jfr.EVENTS} app.jfr > jfr.json",
            "tailrace read NAME=jfr.json -o run",
        ),
        "Tailrace reads its JSON",
    ),
    _Kind(
        "XML of sadf",
        _is(r"\A<\?xml[^>]{0,99}>\s*(?:<!DOCTYPE[^>]{0,200}>\s*)?<sysstat"),
        ("sadf -j sar.data -- -u -q -d -r -w > sar.json", "tailrace read sar.json -o run"),
        "Tailrace reads its JSON and its CSV",
    ),
    _Kind("what top -b prints", _is(r"\A\s{0,9}top - \d\d:\d\d:\d\d up "), (conversions.TOP,), placed=False),
    _Kind(
        "the text of atop",
        _is(r"\A\s{0,9}ATOP - "),
        ("atop -w atop.raw 1 60", conversions.ATOP.replace("FILE", "atop.raw")),
        "Tailrace reads what atop prints of its raw file",
    ),
    _Kind(
        "a scrape of Prometheus, without times",
        _is(r"^# (?:HELP|TYPE|EOF)\b"),
        (conversions.PROMETHEUS_QUERY,),
        "the history is in Prometheus; a scrape every 15 s cannot show a shorter stall",
    ),
    _Kind(
        "spans of the first version of Zipkin",
        _is(r'\A\s{0,9}\[[\s\S]{0,2000}"traceId"[\s\S]{0,4000}?"value"\s*:\s*"[cs][rs]"'),
        ("curl http://localhost:9411/api/v2/traces > zipkin.json", "tailrace read zipkin.json -o run"),
        "Tailrace reads the second version (/api/v2/traces)",
    ),
    _Kind(
        "a trace in a form of JSON that Tailrace does not read",
        _is(r'\A\s{0,9}[\[{][\s\S]{0,2000}"(?:traceId|traceID|trace_id|traceEvents|resourceSpans|spans)"'),
        (),
        "Tailrace reads OTLP (JSON lines), Jaeger's and Zipkin's (v2)",
    ),
    _Kind(
        "an access log whose durations have no unit",
        _is(
            r'\A(?=[^\n]{0,4000}?"(?:status|code|status_?code|http_?status)"\s*:)[^\n]{0,4000}?'
            r'"(?i:duration|latency|elapsed|took|response_?time|request_?time|time_?taken|reqtime)"\s*:\s*"?\d'
        ),
        (
            'sed -E \'s/"(duration|latency|elapsed|took)":/"\\1_ms":/\' FILE > access.json',
            "tailrace read NAME=access.json -o run",
        ),
        "they may be seconds, milliseconds or nanoseconds; if they are milliseconds, say so in their name",
    ),
    _Kind(
        "an access log in a format that Tailrace does not know",
        _is(r'"(?:GET|POST|PUT|HEAD|DELETE|PATCH|OPTIONS|CONNECT) [^"\n]{1,4000} HTTP/\d'),
        ("tailrace read NAME=FILE --log-format '$remote_addr [$time_local] \"$request\" $request_time' -o run",),
        "pass its format as the configuration of the server has it; it needs a time and a duration",
    ),
    _Kind(
        "packets as text, as tcpdump or Wireshark print them",
        _is(
            r"\A(?:\d{4}-\d\d-\d\d )?(?:\d\d:\d\d:\d\d|\d{10})\.\d{6,9} (?:\S{1,15} +(?:In|Out|P|B|M) +)?IP6? "
            r'|\A"No\.","Time"'
        ),
        _CAPTURE,
        "Tailrace reads the capture itself (pcap, pcapng)",
    ),
    _Kind(
        "a garbage-collection log of OpenJ9",
        _is(r"<verbosegc|^<af type=|^<gc-start "),
        (),
        "Tailrace reads the logs of HotSpot (-Xlog:gc*,safepoint)",
    ),
    _Kind(
        "a garbage-collection log of JRockit",
        _is(r"^\[memory *\]|^\[INFO \]\[memory"),
        (),
        "Tailrace reads the logs of HotSpot (-Xlog:gc*,safepoint)",
    ),
)
_BINARY: tuple[tuple[bytes, str, tuple[str, ...], str], ...] = (
    (b"\x96\xd5", "a file of sar (sysstat)", (conversions.SYSSTAT_FILE,), "Tailrace reads what sadf makes of it"),
    (b"\xef\xbe\xed\xfe", "a file of atop", (conversions.ATOP,), "Tailrace reads what atop prints of it"),
    (
        b"FLR\x00",
        "a recording of Java's Flight Recorder",
        (
            f"jfr print --json --stack-depth 1 --events {jfr.EVENTS} FILE > jfr.json",
            "tailrace read NAME=jfr.json -o run",
        ),
        "Tailrace reads what the JDK prints of it",
    ),
    (
        b"PERFILE2",
        "a file of perf",
        ("perf sched -i FILE script > sched.txt", "tailrace read NAME=sched.txt -o run"),
        "Tailrace reads the switches of tasks that perf prints of it (perf sched record)",
    ),
    (
        b"\x17\x08Dtracing",
        "a file of trace-cmd",
        ("trace-cmd report -i FILE > sched.txt", "tailrace read NAME=sched.txt -o run"),
        "Tailrace reads the switches of tasks that trace-cmd prints of it (-e sched_switch)",
    ),
    *(
        (
            b"\x00\x00\x00\x84\x50\x05\x26" + version,
            "an archive of Performance Co-Pilot",
            (
                f"pcp2json -a FILE -Z UTC -f %Y-%m-%dT%H:%M:%S.%f {pcp.METRICS} > pcp.json",
                "tailrace read pcp.json -o run",
            ),
            "Tailrace reads what pcp2json prints of it",
        )
        for version in (b"\x02", b"\x03")
    ),
    (b"PK\x03\x04", "a zip archive", ("unzip FILE",), "unpack it; Tailrace may read its files"),
    (b"\xfd7zXZ\x00", "compressed with xz", ("xz -dk FILE",), "Tailrace unpacks only gzip and zstd; unpack this first"),
    (b"BZh", "compressed with bzip2", ("bunzip2 -k FILE",), "Tailrace unpacks only gzip and zstd; unpack this first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", ("7z x FILE",), "unpack it; Tailrace may read its files"),
)
_TAR = slice(257, 262)


def refusal(source: Source, head: bytes, readers: str) -> InputError:
    """The error for a file that none of `readers` reads."""
    text = text_head(head)
    if text is None:
        return _binary(source, head, readers)
    kind = next((kind for kind in _KINDS if kind.seen.search(text)), None)
    if kind is None:
        return _table(source, text) or _unknown(source, text, readers)
    found = f"this is {kind.what}: {_first_line(text)}"
    return _error(source, found, kind.advice, kind.commands, placed=kind.placed)


def _binary(source: Source, head: bytes, readers: str) -> InputError:
    for magic, what, commands, advice in _BINARY:
        if head.startswith(magic):
            return _error(source, f"this is {what}", advice, commands)
    if head[_TAR] == b"ustar":
        return _error(source, "this is a tar archive", "unpack it; Tailrace may read its files", ("tar xf FILE",))
    return _error(source, f"it is neither a capture (pcap, pcapng) nor one of: {readers}", _MORE)


_MORE = "docs/reference/readers.md lists what is read"


def _table(source: Source, text: str) -> InputError | None:
    """The error for a table whose columns are not those of samples."""
    names, delimiter = column_names(text)
    if len(names) < 2 or text.lstrip("\ufeff \t\n").startswith(("{", "[")):
        return None
    found = f"its columns are {foreign.listed(names)}"
    time = next((i for i, name in enumerate(names) if role(name) == "time"), None)
    if time is None:
        return _error(
            source, found, f"Tailrace reads {_FORM}, and none of these has the name of a time (time, timestamp …)"
        )
    place = next((i + 1 for i, name in enumerate(names) if role(name) == "place"), None)
    command = conversions.columns_to_rows(delimiter, time + 1, place)
    return _error(source, f"{found}, one for each metric", _WANTED, (command,), placed=place is not None)


def _unknown(source: Source, text: str, readers: str) -> InputError:
    found = f"it is neither a capture (pcap, pcapng) nor one of: {readers}; it begins with {_first_line(text)}"
    return _error(source, found, _MORE)


def _first_line(text: str) -> str:
    """The first line that is not empty, quoted, safe to show and of bounded length."""
    line = text.lstrip()[: 2 * bounds.FIRST_LINE].split("\n")[0].rstrip()
    shown = foreign.visible(" ".join(line.split()))
    return f"'{shown}'" if len(shown) <= bounds.FIRST_LINE else f"'{shown[: bounds.FIRST_LINE]}…'"


def _error(
    source: Source, found: str, advice: str, commands: tuple[str, ...] = (), *, placed: bool = True
) -> InputError:
    """`FILE` in a command becomes the file, quoted for a shell; a further command reads the converted samples."""
    file = shlex.quote(str(source.path))
    ready = [command.replace("FILE", file) for command in commands]
    made = ready[-1].rpartition("> ")[2] if ready else ""
    if made in ("samples.csv", "sar.csv", "atop.out"):
        place = "" if placed else f"{source.place or 'NAME'}="
        ready.append(f"tailrace read {place}{made} -o run")
    return InputError(source.path, found, advice, commands=tuple(ready))
