"""Every door through which a file of a stranger comes in: golden inputs for it, and what uses a damaged one.

A door raises where Tailrace has a fault: another exit code than 0 or 2, more than one sentence, or an exception.
"""

from __future__ import annotations

import contextlib
import functools
import io
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hostile import assert_plain

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
CORPUS = ROOT / "fuzz" / "corpus"
HTTP = GOLDEN / "captures" / "http.pcap"
ARRIVALS = b"time,interaction\n0.5,page\n1,page\n1.25,page\n7.000001,page\n"
PATHS = b"interaction,path\nHome,/\nViewStory,/story/{story}\nBrowse,/page/{1..100}?q={word}\n"
SIMULATED = b"""format = 1
engine = "sim"

[[stalls]]
kind = "garbage-collection"
place = "app"
begin = 1795193377000000000
end = 1795193377500000000
"""
TRACED = """duration = "10 s"

[workloads.steady]
kind = "trace"
file = "arrivals.csv"
entry = "web"

[interactions.page]
at.web.compute = "1 ms"

[tiers.web]
software = "apache"
"""
STATE = b"""{"format": 1, "closed": true, "end": 1795193380000000000, "notes": ["a note"], "lost": {"samples": 2},
 "nodes": [{"name": "host", "cores": 2, "addresses": ["10.0.0.2"]}], "same_host": ["10.0.0.2"], "cpus": {"host": [0]},
 "servers": {"web": ["10.0.0.2:80"]}, "begin": 1795193376000000000}
"""
SPANS = b"tid,sid,up,component,op,t0,took,way\n" + b"".join(
    b"t%d,s%d,,shop,GET /home,%d,%d,inbound\nt%d,c%d,s%d,db,select,%d,3,inbound\n"
    % (i, i, 1795193376000000 + i * 10_000, 5 + i % 40, i, i, i, 1795193376001000 + i * 10_000)
    for i in range(60)
)
COLUMNS = b"""[columns]
trace = "tid"
span = "sid"
parent = "up"
service = "component"
name = "op"
begin = "t0"
duration = "took"
kind = "way"

[units]
begin = "us"
duration = "ms"

[kinds]
inbound = "server"
"""
RULES = b"""[[interactions]]
match = '^(?:GET|HEAD) /(\\w+)\\.html'
name = "page $1"
"""


@dataclass(frozen=True)
class Door:
    """`inputs` are golden; `enter` puts a damaged one into a folder, under its golden name, and uses it."""

    name: str
    inputs: Callable[[], dict[str, bytes]]
    enter: Callable[[Path, str, bytes], None]


def told(*words: str | Path) -> int:
    """The exit code of a command, which ends well or with one true sentence."""
    from tailrace import cli

    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = cli.perform([str(word) for word in words])
    assert code in (0, 2), f"exit code {code} of {words}: {error.getvalue()[:2000]}"
    assert_plain(out.getvalue())
    assert_plain(error.getvalue())
    if code == 2:
        sentences = [line for line in error.getvalue().splitlines() if line.startswith("tailrace: ")]
        assert len(sentences) == 1, error.getvalue()
    return code


def files(pattern: str, *, but: str = ".expected.json") -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in sorted(GOLDEN.glob(pattern)) if not path.name.endswith(but)}
    assert found, f"no golden input matches {pattern}"
    return found


def captures() -> dict[str, bytes]:
    """Golden ones, and the seeds of fuzzing: other byte orders, link types and packings."""
    seeds = {f"{path.name}.pcap": path.read_bytes() for path in sorted((CORPUS / "capture").iterdir())}
    return {**files("captures/*.pcap"), **seeds}


def diagnosed(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    told("diagnose", folder / name, "-o", folder / "run", "--quiet")


def parquet() -> dict[str, bytes]:
    import polars as pl

    rows = {"time": [1795193376.0 + i * 0.05 for i in range(400)], "place": ["web", "db"] * 200, "value": [0.5] * 400}
    found = {}
    for compression in ("zstd", "snappy", "uncompressed"):
        into = io.BytesIO()
        frame = pl.DataFrame(rows).with_columns(metric=pl.lit("cpu_busy"), interval=0.05)
        frame.write_parquet(into, compression=compression, row_group_size=100)
        found[f"{compression}.parquet"] = into.getvalue()
    return found


@functools.cache
def run_folder() -> Path:
    """A run with every table, made once; a door copies it."""
    from tailrace import cli

    folder = Path(tempfile.mkdtemp(prefix="tailrace-attacks-"))
    demo = ROOT / "demo"
    texts = [demo / "samples.csv", f"app={demo / 'gc.log'}"]
    control = GOLDEN / "recordings" / "sync-control" / "packets.pcap.zst"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = cli.perform(["diagnose", str(control), *map(str, texts), "-o", str(folder / "run"), "--quiet"])
    assert code == 0, "the golden recording cannot be diagnosed"
    return folder / "run"


def of_run() -> dict[str, bytes]:
    tables = [f"{name}.parquet" for name in ("visits", "requests", "samples", "events")]
    return {name: (run_folder() / name).read_bytes() for name in ("manifest.json", "topology.toml", *tables)}


@functools.cache
def of_run_in_deltas() -> dict[str, bytes]:
    """The same tables as another library may write them: numbers as differences, texts as their lengths."""
    import polars as pl
    import pyarrow.parquet as pq

    found = {}
    for name in ("visits.parquet", "requests.parquet", "samples.parquet"):
        frame = pl.read_parquet(run_folder() / name).with_columns(pl.col(pl.Categorical).cast(pl.String))
        whole = [column for column, kind in frame.schema.items() if kind in (pl.Int64, pl.UInt64)]
        texts = [column for column, kind in frame.schema.items() if kind == pl.String]
        encodings = {**dict.fromkeys(whole, "DELTA_BINARY_PACKED"), **dict.fromkeys(texts, "DELTA_LENGTH_BYTE_ARRAY")}
        into = io.BytesIO()
        pq.write_table(frame.to_arrow(), into, use_dictionary=False, column_encoding=encodings, compression="none")
        found[name] = into.getvalue()
    return found


def topology() -> dict[str, bytes]:
    return {"topology.toml": (run_folder() / "topology.toml").read_bytes()}


def opened(folder: Path, name: str, data: bytes) -> None:
    shutil.copytree(run_folder(), folder / "run")
    (folder / "run" / name).write_bytes(data)
    if told("info", folder / "run") == 0:
        told("info", folder / "run", "--json")
    told("info", folder / "run", "--verify")
    told("anonymise", folder / "run", "-o", folder / "public", "--quiet")
    told("report", folder / "run", "--quiet")
    told("diagnose", folder / "run", "--json", "--quiet")
    told("export", folder / "run", "--pcap", folder / "again.pcap", "--quiet")


@functools.cache
def of_recording() -> dict[str, bytes]:
    """What a recorder leaves: its state, and closed segments of each kind."""
    import polars as pl

    found = {"recording.json": STATE, "00000001.packets.pcap": HTTP.read_bytes()}
    for table in ("samples", "events"):
        into = io.BytesIO()
        pl.read_parquet(run_folder() / f"{table}.parquet").head(400).write_parquet(into)
        found[f"00000001.{table}.parquet"] = into.getvalue()
    return found


def joined(folder: Path, name: str, data: bytes) -> None:
    recording = folder / "recording"
    recording.mkdir()
    for other, content in of_recording().items():
        (recording / other).write_bytes(data if other == name else content)
    told("read", recording, "-o", folder / "run", "--quiet")


def scored(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    truth = ROOT / "demo" / "truth.toml"
    words = ("--diagnosis", folder / name, "--truth", truth) if name.endswith(".json") else ("--truth", folder / name)
    told("score", run_folder(), *words, "--quiet")


def to_score() -> dict[str, bytes]:
    return {
        "diagnosis.json": (run_folder() / "diagnosis.json").read_bytes(),
        "truth.toml": (ROOT / "demo" / "truth.toml").read_bytes(),
        "simulated.toml": SIMULATED,
    }


def beside_a_capture(option: str) -> Callable[[Path, str, bytes], None]:
    def enter(folder: Path, name: str, data: bytes) -> None:
        (folder / name).write_bytes(data)
        told("read", HTTP, option, folder / name, "-o", folder / "run", "--quiet")

    return enter


def experiments(name: str) -> Callable[[], dict[str, bytes]]:
    def inputs() -> dict[str, bytes]:
        chosen = sorted((ROOT / "experiments").rglob(name))
        return {str(path.relative_to(ROOT / "experiments")): path.read_bytes() for path in chosen}

    return inputs


def as_experiment(folder: Path, name: str, data: bytes) -> None:
    from tailrace.errors import TailraceError
    from tailrace.experiment import read
    from tailrace.sim import lowering

    _beside(folder, name, data)
    with contextlib.suppress(TailraceError, OSError):  # both are exit code 2
        lowering.lower(read(folder / "experiments" / name, []))


def as_arrivals(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    (folder / "experiment.toml").write_text(TRACED)
    told("run", folder, "-o", folder / "run", "--quiet")


def as_paths(folder: Path, name: str, data: bytes) -> None:
    """Nothing listens at the port, so all requests are refused."""
    (folder / name).write_bytes(data)
    words = ("--interaction", "Browse", "--rate", "50", "--duration", "20ms", "--drain", "0s", "--paths", folder / name)
    told("load", "http://127.0.0.1:9/", *words, "-o", folder / "run", "--quiet")


def as_paper(folder: Path, name: str, data: bytes) -> None:
    _beside(folder, name, data)
    told("reproduce", "--list", "--experiments", folder / "experiments")


def as_scaled(folder: Path, name: str, data: bytes) -> None:
    from tailrace.errors import TailraceError
    from tailrace.reproduce import entries, scaled

    _beside(folder, name, data)
    with contextlib.suppress(TailraceError):
        for entry in entries(folder / "experiments"):
            scaled.read(entry.folder)


def _beside(folder: Path, name: str, data: bytes) -> None:
    """A file of an experiment, and of the folder that it lies in what it may name."""
    paper = name.split("/")[0]
    shutil.copytree(ROOT / "experiments" / paper, folder / "experiments" / paper)
    (folder / "experiments" / name).write_bytes(data)


def of_readers() -> list[Door]:
    """A door for each reader that has golden files."""
    names = {"accesslog": "access log"}
    folders = sorted(path.name for path in (GOLDEN / "readers").iterdir() if path.name != "samples")
    return [Door(names.get(name, name), functools.partial(files, f"readers/{name}/*"), diagnosed) for name in folders]


def flat_spans() -> dict[str, bytes]:
    return {"spans.csv": SPANS, "columns.toml": COLUMNS}


def with_columns(folder: Path, name: str, data: bytes) -> None:
    """A table of spans whose columns a file names."""
    for other, content in flat_spans().items():
        (folder / other).write_bytes(data if other == name else content)
    told("diagnose", folder / "spans.csv", "--columns", folder / "columns.toml", "-o", folder / "run", "--quiet")


DOORS = [
    Door("capture", captures, diagnosed),
    Door("samples", lambda: {"samples.csv": (ROOT / "demo" / "samples.csv").read_bytes()[:20_000]}, diagnosed),
    Door("parquet", parquet, diagnosed),
    *of_readers(),
    Door("columns", flat_spans, with_columns),
    Door("run", of_run, opened),
    Door("run in deltas", of_run_in_deltas, opened),
    Door("recording", of_recording, joined),
    Door("score", to_score, scored),
    Door("arrivals", lambda: {"arrivals.csv": ARRIVALS}, as_arrivals),
    Door("paths", lambda: {"paths.csv": PATHS}, as_paths),
    Door("rules", lambda: {"rules.toml": RULES}, beside_a_capture("--interactions")),
    Door("topology", topology, beside_a_capture("--topology")),
    Door("experiment", experiments("experiment.toml"), as_experiment),
    Door("paper", experiments("expected.toml"), as_paper),
    Door("scaled", experiments("testbed.toml"), as_scaled),
]
