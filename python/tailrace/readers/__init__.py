"""Other people's files → a Dataset: `read()`.

A reader is a file with two functions, `sniff(name, head)` and `read(source)`, and a line in `READERS`. The readers of
JVM logs and of traces have a third function, `together(source)`, because files of one JVM are read as one log, and a
trace may be spread over files. All captures are read together, because a message between two servers appears in both.
docs/reference/readers.md says what each reader accepts.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path

from tailrace import dataset, untrusted
from tailrace import topology as topology_file
from tailrace.dataset import Dataset, Writer
from tailrace.errors import InputError, UsageError, cannot_read
from tailrace.readers import (
    accesslog,
    assembly,
    atop,
    bcc,
    capture,
    carried,
    collectd,
    collectl,
    dblog,
    dstat,
    gclog,
    histograms,
    influx,
    jfr,
    kernellog,
    kubernetes,
    loadtest,
    locust,
    netdata,
    openmetrics,
    otlpmetrics,
    pcp,
    pmrep,
    prometheus,
    recording,
    refused,
    runqlat,
    sadf,
    samples,
    sched,
    segments,
    sockets,
    spans_mapping,
    spans_tables,
    sysstat_text,
    tcpsynbl,
    traces,
    vmstat,
    wide,
    wrk2,
)
from tailrace.readers.decoding import Decoding
from tailrace.readers.interactions import rules as interaction_rules
from tailrace.readers.source import Found, Source
from tailrace.readers.spans_mapping import Mapped
from tailrace.topology import Server, Topology

AnyPath = str | PathLike[str]


@dataclass(frozen=True)
class Reader:
    """`sniff` gets the file's name and its first bytes, decompressed; files with the same `together` are read as one
    log."""

    name: str
    sniff: Callable[[str, bytes], bool]
    read: Callable[[Sequence[Source]], Found]
    together: Callable[[Source], Hashable] = id
    began: bool = False
    """Its files may lack a wall clock, and `--began` gives their start."""
    clients: bool = False
    """Its requests are as clients saw them, so they count before those that servers saw."""


def _one(read: Callable[[Source], Found]) -> Callable[[Sequence[Source]], Found]:
    return lambda sources: read(sources[0])


_JVM_LOG = Reader("JVM garbage collection log", gclog.sniff, gclog.read, gclog.together, began=True)
_ACCESS_LOG = Reader("access log", accesslog.sniff, accesslog.read, accesslog.together)
_TRACES = Reader("traces", traces.sniff, traces.read, traces.together)
READERS: tuple[Reader, ...] = (
    Reader("collectl", collectl.sniff, _one(collectl.read)),
    _JVM_LOG,
    Reader("load test", loadtest.sniff, loadtest.read, loadtest.together, began=True, clients=True),
    _TRACES,
    _ACCESS_LOG,
    Reader("database log", dblog.sniff, _one(dblog.read)),
    Reader("sadf", sadf.sniff, _one(sadf.read)),
    Reader("sar, mpstat, pidstat or iostat", sysstat_text.sniff, _one(sysstat_text.read)),
    Reader("vmstat", vmstat.sniff, _one(vmstat.read)),
    Reader("dstat", dstat.sniff, _one(dstat.read)),
    Reader("atop", atop.sniff, _one(atop.read)),
    Reader("Prometheus", prometheus.sniff, _one(prometheus.read)),
    Reader("OpenMetrics", openmetrics.sniff, _one(openmetrics.read)),
    Reader("OTLP metrics", otlpmetrics.sniff, _one(otlpmetrics.read)),
    Reader("Performance Co-Pilot", pcp.sniff, _one(pcp.read)),
    Reader("pmrep", pmrep.sniff, _one(pmrep.read)),
    Reader("InfluxDB line protocol", influx.sniff, _one(influx.read)),
    Reader("HdrHistogram log", histograms.sniff, _one(histograms.read)),
    Reader("spectrum of wrk2", wrk2.sniff, _one(wrk2.read), began=True),
    Reader("Locust history", locust.sniff, _one(locust.read)),
    Reader("Netdata", netdata.sniff, netdata.read, netdata.together),
    Reader("sockets", sockets.sniff, _one(sockets.read)),
    Reader("flight recording of a JVM", jfr.sniff, _one(jfr.read)),
    Reader("scheduler trace", sched.sniff, _one(sched.read), began=True),
    Reader("run queue latency", runqlat.sniff, _one(runqlat.read), began=True),
    Reader("kernel log", kernellog.sniff, _one(kernellog.read), began=True),
    Reader("Kubernetes events", kubernetes.sniff, _one(kubernetes.read)),
    Reader("accept queues of tcpsynbl", tcpsynbl.sniff, _one(tcpsynbl.read), began=True),
    Reader("bcc", bcc.sniff, _one(bcc.read), began=True),
    Reader("collectd", collectd.sniff, collectd.read, collectd.together),
    Reader("samples", samples.sniff, _one(samples.read)),
    Reader("wide table", wide.sniff, _one(wide.read)),
)


def read(
    *paths: AnyPath,
    servers: Mapping[str, str] | None = None,
    places: Mapping[str, str] | None = None,
    topology: AnyPath | Topology | None = None,
    out: AnyPath | None = None,
    overwrite: bool = False,
    interactions: AnyPath | Mapping[str, str] | None = None,
    protocols: Mapping[int, str] | None = None,
    keep_queries: bool = False,
    keys: AnyPath | None = None,
    began: Sequence[str] = (),
    log_format: str | None = None,
    columns: AnyPath | None = None,
    verify: bool = False,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> Dataset:
    """Read captures, samples and logs into one run folder; their content shows which they are. A run folder is opened
    as it is.

    A path is a file, a run folder, a recorder's folder, `-` (a capture on standard input), or `NAME=FILE` for a file of
    one server or node.

    - `servers` names servers by address (`{"web": "10.0.0.3:80"}`).
    - `places` maps a place in the samples to a server, a node or an address.
    - `topology` is a file or a value that overrides what was inferred.
    - `interactions` names requests by rules (a file, or expression → name).
    - `protocols` sets the protocol of ports (`{9000: "fastcgi"}`).
    - With `keep_queries`, names keep queries, literals and everything else that is otherwise folded.
    - `keys` is a file with the secrets of TLS sessions (`SSLKEYLOGFILE`), with which TLS is decrypted.
    - `began` is the start of a JVM, a load test or a machine whose log has no wall clock, or the day of a log that has
      the time of day alone (`app=2026-11-20T16:49:00Z`, or the moment alone; one for each run of the JVM).
    - `log_format` is the format of access logs, as the configuration of nginx or Apache has it.
    - `columns` is a file that names the columns of flat tables of spans.
    - With `verify` every row of a run folder and the SHA-256 of its files are checked first.
    - `jobs` threads decode captures at most; default: one for each core. The run folder is the same.
    - Without `out` the run folder is temporary and is removed at the end of the Python process.
    - `progress(bytes read, bytes in all)` may raise to stop the work.
    - `say(sentence)` is called if an earlier reading into `out` was stopped, and if this one is and can go on.

    Input that cannot be read or that contradicts itself raises a `TailraceError` (`InputError`, `UsageError`,
    `OutputError`), and no files remain, except the finished segments of long captures.
    """
    if out is not None:
        dataset.refuse(out, overwrite)
    files = _sort([fspath(path) for path in paths], log_format, spans_mapping.read(columns) if columns else None)
    if verify:
        _verify(files.run)
    given = topology if isinstance(topology, Topology) or topology is None else topology_file.read(topology)
    known = topology_file.known_servers(servers or {}, given)
    secrets = fspath(keys) if keys is not None else None
    segment = segments.PACKETS if out is not None and files.captures else 0
    decoding = Decoding(known, interaction_rules(interactions), protocols or {}, keep_queries, secrets, threads=jobs)
    decoding = replace(decoding, segment=segment, further=_further(given), used=_used(files, given, places or {}))
    _refuse_useless(files, decoding, named=bool(servers))
    if files.run and not (files.texts or out or places or given):
        return files.run
    dated = _dated(files.texts, began)
    target = Path(out) if out is not None else _temporary() / "run"
    created = dataset.create(target, overwrite, segments.reading(files.captures, decoding))
    with segments.told(say), created as writer, _read_texts(dated, writer) as texts:
        _refuse_undated(files, texts)
        inferred = (
            assembly.copy_run(files.run, writer) if files.run else _inferred(files, writer, decoding, progress, say)
        )
        writer.topology = assembly.complete_topology(assembly.joined(inferred, texts, writer), given, places or {})
        assembly.add(writer, texts)
    return Dataset.open(target)


def _further(given: Topology | None) -> dict[str, Sequence[str]]:
    """The addresses of servers beside the first, which captures may show."""
    servers = given.servers if given is not None else ()
    return {one.name: one.all_addresses[1:] for one in servers if one.address and len(one.all_addresses) > 1}


def _used(files: _Files, given: Topology | None, places: Mapping[str, str]) -> frozenset[str]:
    """The names of servers and places that the user uses."""
    servers = given.servers if given is not None else ()
    of_logs = {source.place for source, _ in files.texts if source.place is not None}
    return frozenset(
        {*(one.name for one in servers), *(given.places if given else ()), *places, *places.values(), *of_logs}
    )


def _refuse_useless(files: _Files, decoding: Decoding, *, named: bool) -> None:
    """Options about packets need packets."""
    about_packets = bool(decoding.rules or decoding.protocols or decoding.keep_queries or decoding.keys)
    if files.run and (named or about_packets):
        advice = "pass --server, --interactions, --protocol, --keep-queries and --keys when you read the captures"
        raise UsageError("the packets of a run folder have already been read and named", advice=advice)
    if about_packets and not (files.captures or files.recording):
        said = "--interactions, --protocol, --keep-queries and --keys apply to packets, and there is no capture"
        raise UsageError(said, advice="add the capture")


def _verify(run: Dataset | None) -> None:
    if run is None:
        raise UsageError("--verify checks a run folder, and none is given", advice="leave it out, or name a run folder")
    run.validate(checksums=True)


def fill(writer: Writer, paths: Sequence[AnyPath], topology: Topology, interactions: Mapping[str, str]) -> None:
    """Add the tables of a recording, samples and logs to a run folder that another maker writes."""
    files = _sort([fspath(path) for path in paths])
    decoding = Decoding(topology_file.known_servers({}, topology), interaction_rules(interactions))
    with _read_texts(files.texts, writer) as texts:
        inferred = assembly.joined(_inferred(files, writer, decoding), texts, writer)
        writer.topology = assembly.complete_topology(inferred, topology, {})
        assembly.add(writer, texts)


@contextmanager
def _read_texts(texts: Sequence[tuple[Source, Reader]], writer: Writer) -> Iterator[list[assembly.Text]]:
    """What readers find, the views of clients first; files that belong together count as the first of them. What does
    not fit into memory is in the run folder until all of it is written."""
    groups: dict[Hashable, tuple[Reader, list[Source]]] = {}
    scratch = writer.folder / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)  # of a reading that was killed
    for source, reader in texts:
        groups.setdefault((reader.name, reader.together(source)), (reader, []))[1].append(source)
    ordered = sorted(groups.values(), key=lambda group: not group[0].clients)
    try:
        yield [
            (sources[0], reader.name, reader.read([replace(source, scratch=scratch) for source in sources]))
            for reader, sources in ordered
        ]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _dated(texts: Sequence[tuple[Source, Reader]], began: Sequence[str]) -> list[tuple[Source, Reader]]:
    """Logs that may lack a wall clock, with the starts from `--began [NAME=]MOMENT`."""
    logs = [source for source, reader in texts if reader.began]
    names = {name for source in logs for name in (source.place, source.path.name) if name}
    starts: dict[str, list[int]] = {}
    for text in began:
        name, _, moment = text.rpartition("=")
        if not logs or (name and name not in names):
            known = f"these are {', '.join(sorted(names))}" if logs else "give the log, like app=gc.log"
            said = f"--began {text}: there is no JVM log and no load test{' of ' + name if name else ''}"
            raise UsageError(said, advice=known)
        try:
            starts.setdefault(name, []).append(gclog.start(moment))
        except ValueError as error:
            example = "like --began app=2026-11-20T16:49:00Z"
            raise UsageError(f"--began {text}: expected the moment when it started", advice=example) from error
    return [
        (replace(source, began=tuple(_of(starts, source.place, source.path.name, ""))), reader)
        for source, reader in texts
    ]


def _refuse_undated(files: _Files, texts: Sequence[assembly.Text]) -> None:
    alone = len(texts) == 1 and not (files.run or files.recording or files.captures)
    for source, _, found in texts:
        if found.undated and not alone:
            name = source.place or source.path.name
            raise UsageError(
                f"{source.path}: its times count from its start, so it cannot be joined with other files",
                advice=f"say when it began, like --began {name}=2026-11-20T16:49:00Z",
            )


def _of(starts: Mapping[str, list[int]], *names: str | None) -> list[int]:
    return next((starts[name] for name in names if name is not None and name in starts), [])


def _inferred(
    files: _Files,
    writer: Writer,
    decoding: Decoding,
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> Topology:
    """The tables of a recording or of captures; returns the topology that they show."""
    if writer.earlier and say:
        say(writer.earlier)
    if files.recording:
        inferred = recording.join(files.recording, writer, decoding)
        writer.inputs += carried.of_packets([files.recording.name], "recording", "what was sampled, at its interval")
    elif files.captures:
        inferred = capture.decode(files.captures, writer, decoding, progress, say)
        writer.inputs += carried.of_packets([Path(name).name for name in files.captures], "capture")
    else:
        return Topology(servers=tuple(Server(name=name, address=at) for name, at in decoding.servers.items()))
    writer.notes += assembly.unseen_servers(decoding.servers, inferred)
    return inferred


@dataclass(frozen=True)
class _Files:
    run: Dataset | None
    recording: Path | None
    captures: tuple[str, ...]
    texts: tuple[tuple[Source, Reader], ...]


def _sort(paths: Sequence[str], log_format: str | None = None, mapping: Mapped | None = None) -> _Files:
    """The kind of each path. All are checked before any is read, so that a wrong one is reported at once."""
    if not paths:
        raise UsageError("nothing to read", advice="give captures, samples, logs or a run folder")
    runs: list[Dataset] = []
    recordings: list[Path] = []
    captures: list[str] = []
    texts: list[tuple[Source, Reader]] = []
    for text in paths:
        source = replace(_source(text), log_format=log_format, mapping=mapping)
        if text == "-":
            captures.append(text)
            continue
        untrusted.refuse_unusual(source.path)
        if recording.is_recording(source.path):
            recordings.append(source.path)
        elif _is_folder(source.path):
            runs.append(Dataset.open(source.path))
        elif capture.sniff(source.path.name, head := _head(source)):
            if source.place:
                raise UsageError(
                    f"{text}: a capture contains many servers", advice="name them with --server NAME=IP:PORT"
                )
            captures.append(str(source.path))
        else:
            texts.append((source, _reader(source, head)))
    if len(runs) + len(recordings) + bool(captures) > 1:
        raise UsageError(
            "one run folder, or one recording, or captures, but not both", advice="read each into its own run folder"
        )
    if mapping is not None and not any(spans_tables.is_mapped(source) for source, _ in texts):
        wanted = ", ".join(sorted(mapping.roles().values()))
        raise UsageError(f"--columns: no table has all of the columns {wanted}", advice="compare them with its header")
    return _Files(runs[0] if runs else None, recordings[0] if recordings else None, tuple(captures), tuple(texts))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise cannot_read(path, error) from error


def _source(text: str) -> Source:
    """`NAME=FILE`, unless a file of exactly that name exists."""
    name, equals, file = text.partition("=")
    if equals and name and file and "/" not in name and not os.path.exists(text):  # noqa: PTH110 (never raises)
        return Source(Path(file), name)
    return Source(Path(text))


def _head(source: Source) -> bytes:
    head = source.head()
    if not head:
        raise InputError(source.path, "the file is empty")
    return head


def _reader(source: Source, head: bytes) -> Reader:
    if traces.sniff_further(source):
        return _TRACES
    for reader in READERS:
        if reader.sniff(source.path.name, head):
            return reader
    if gclog.sniff_further(source):
        return _JVM_LOG
    if source.log_format:
        return _ACCESS_LOG
    raise refused.refusal(source, head, ", ".join(reader.name for reader in READERS))


def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tailrace-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
