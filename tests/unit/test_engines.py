"""Engines: each gives the bits of the local one, a killed worker changes nothing, and what is missing is an error."""

from __future__ import annotations

import importlib
import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from builders import SMALL
from doors import told
from tailrace import engines, experiment
from tailrace.dataset.tables import write
from tailrace.engines import Plan, sql
from tailrace.engines.parts import Part
from tailrace.engines.tasks import reduce_file
from tailrace.errors import InputError, UsageError
from tailrace.score import sweep
from tailrace.study.runs import Question, Runs, fingerprint, simulated
from tailrace.units import MILLISECOND, SECOND

T0 = 1_795_193_380 * SECOND
EXPERIMENT = Path(__file__).parents[2] / "experiments" / "rpc-vs-async" / "base"
MAPPING = {
    "dask://local?workers=2": "distributed",
    "ray://local?workers=2": "ray",
    "spark://local?workers=2": "pyspark",
}


def visits(rows: int, seed: int) -> pl.DataFrame:
    """Visits of four servers, with stalls, losses, and rows that are no visits."""
    draw = random.Random(seed)
    found = []
    for number in range(rows):
        arrival = T0 + draw.randrange(20 * SECOND)
        lasted = draw.randrange(1, 50 * MILLISECOND) if draw.random() < 0.98 else draw.randrange(3 * SECOND)
        departure = arrival + (lasted if draw.random() < 0.99 else -lasted)
        sent = arrival - (1_000_000_000 if draw.random() < 0.02 else draw.randrange(MILLISECOND))
        # Moments on the edges of windows, too.
        arrival -= arrival % (10 * MILLISECOND) if draw.random() < 0.1 else 0
        row = (number, draw.choice(("web", "app", "db", "cache, 'q'\\")), draw.choice(("GET /a", None)))
        found.append((*row, min(sent, arrival), arrival, departure, draw.randrange(3)))
    schema = {"visit": pl.UInt64, "server": pl.String, "interaction": pl.String, "sent": pl.Int64}
    more = {"arrival": pl.Int64, "departure": pl.Int64, "drops": pl.UInt8}
    return pl.DataFrame(found, schema={**schema, **more}, orient="row")


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of run folders, of which only the visits matter here."""
    folder = tmp_path_factory.mktemp("day's")
    for hour in range(5):
        (folder / f"hour{hour}").mkdir()
        write(visits(2_000, hour), folder / f"hour{hour}" / "visits.parquet")
    return folder


PLANS: list[dict[str, Any]] = [
    {},
    {"window_ns": 7 * MILLISECOND, "by": "interaction"},
    {"begin": T0 + 3 * SECOND + 1, "end": T0 + 9 * SECOND + 5, "vlrt_ns": 500 * MILLISECOND, "idle": None},
]


def needs(engine: str) -> None:
    pytest.importorskip(MAPPING[engine])
    if engine.startswith("spark") and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")


def alike(engine: str, source: Any, day: Path, plans: list[dict[str, Any]]) -> None:
    for plan in plans:
        here = engines.windows(day, queue_max=False, percentiles=False, **plan)
        there = engines.windows(source, engine=engine, **plan)
        assert here.height > 100
        texts = [pl.col(name).cast(pl.String) for name in ("server", "interaction") if name in here.columns]
        assert_frame_equal(there.with_columns(texts), here.with_columns(texts), check_exact=True)


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    """Workers import this module by its name. Spark keeps the environment that it had when it was first used."""
    here = (Path(__file__).parent, Path(__file__).parents[1], os.environ.get("PYTHONPATH", ""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, filter(None, here))))
        yield


@pytest.mark.parametrize("engine", MAPPING)
def test_workers_give_the_same_bits(engine: str, day: Path) -> None:
    needs(engine)
    alike(engine, day, day, PLANS[1:2])


@pytest.mark.parametrize("engine", MAPPING)
def test_a_damaged_file_is_the_error_that_it_is_here(engine: str, day: Path, tmp_path: Path) -> None:
    needs(engine)
    shutil.copytree(day, tmp_path / "day")
    file = tmp_path / "day" / "hour3" / "visits.parquet"
    os.truncate(file, file.stat().st_size // 2)
    plan = Plan(50 * MILLISECOND)
    with pytest.raises(ValueError, match="it does not end as") as here:
        reduce_file((0, (str(file), plan)))
    with pytest.raises(ValueError, match="it does not end as") as there:
        list(engines.partials(tmp_path / "day", plan, engine))
    assert str(there.value) == str(here.value)


def killing(function: Any, marks: Path, task: Any) -> Any:
    """Kills its worker the first time it meets task 2."""
    if task[0] == 2:
        try:
            os.close(os.open(marks / "killed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return function(task)


class Killing:
    """Workers of an engine, of which one is killed in the middle of its task."""

    def __init__(self, engine: str, marks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(str(Path(__file__).parent))
        self._kill = importlib.import_module("test_engines").killing
        self._marks = marks
        self._engine = engines.opened(engine)

    def map_tasks(self, function: Any, tasks: Any) -> Any:
        assert isinstance(self._engine, engines.Mapping)
        kill, marks = self._kill, self._marks

        def dying(task: Any) -> Any:
            return kill(function, marks, task)

        yield from self._engine.map_tasks(dying, tasks)
        assert (self._marks / "killed").exists()


@pytest.mark.parametrize("engine", MAPPING)
def test_a_killed_worker_changes_nothing(
    engine: str, day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(engine)
    plan = Plan(50 * MILLISECOND)
    tasks = [(path, plan) for path in engines.files(day)]
    found = dict(engines.answers(Killing(engine, tmp_path, monkeypatch), reduce_file, tasks))
    for number, (path, _) in enumerate(tasks):
        assert_frame_equal(
            Part.from_bytes(found[number]).frame, Part.from_bytes(reduce_file((number, (path, plan)))[1]).frame
        )


@pytest.mark.parametrize("engine", MAPPING)
def test_a_study_on_workers_keeps_the_same_bytes_although_one_is_killed(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulations are tasks, too: sweep, reproduce and examine use this."""
    needs(engine)
    system = experiment.from_table(SMALL)
    asked = [Question.of("throughput", {}), Question.of("histogram", {"edges": [0, 10**6, 10**9]})]

    def made(folder: Path, cluster: engines.Mapping | None) -> dict[str, bytes]:
        runs = Runs(folder)
        for seed in range(4):
            runs.ask(system.model_copy(update={"seed": seed}), asked, f"seed={seed}")
        seen: list[int] = []
        assert runs.make(progress=lambda done, _: seen.append(done), cluster=cluster) == 4
        assert seen == list(range(5))
        return {file.name: file.read_bytes() for file in folder.iterdir()}

    here = made(tmp_path / "here", None)
    there = made(tmp_path / "there", Killing(engine, tmp_path, monkeypatch))
    assert len(here) == 4
    assert there == here


def test_a_worker_with_another_tailrace_simulates_nothing() -> None:
    system = experiment.from_table(SMALL)
    with pytest.raises(InputError, match="another Tailrace"):
        simulated((0, ("seed=1", system, [Question.of("throughput", {})], "0" * 64)))
    with pytest.raises(UsageError, match="seed=1"):
        simulated((0, ("seed=1", system, [Question.of("queue_max", {"place": "nowhere"})], fingerprint())))


def test_an_examination_by_tasks_has_the_rows_of_one_by_processes() -> None:
    class OneAfterTheOther:
        def map_tasks(self, function: Any, tasks: Any) -> Any:
            return map(function, tasks)

    assert sweep.sweep([3], processes=1) == sweep.sweep([3], cluster=OneAfterTheOther())


def test_a_database_simulates_nothing(tmp_path: Path) -> None:
    database = ("--engine", "clickhouse://127.0.0.1:9")
    assert told("sweep", EXPERIMENT, "-o", tmp_path / "s", "-q", *database) == 2
    assert told("examine", "--runs", "1", "-q", *database) == 2
    assert told("reproduce", "--all", "-o", tmp_path / "r", "-q", *database) == 2
    assert told("reproduce", "--all", "-o", tmp_path / "r", "-q", "--engine", "simulator") == 2
    assert list(tmp_path.iterdir()) == []


def test_clickhouse_reads_the_files_of_runs(day: Path) -> None:
    pytest.importorskip("chdb")
    alike("chdb://", day, day, PLANS)


OTEL = "Timestamp DateTime64(9), ServiceName LowCardinality(String), SpanName LowCardinality(String), "
TABLES = {
    "the collector": (
        f"{OTEL}SpanKind LowCardinality(String), Duration UInt64",
        "toDate(Timestamp) ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))",
        ("'Server'", "'Client'"),
        ("{at}", "{server}", "{name}", "{kind}", "{lasted}"),
    ),
    "Coroot": (
        f"{OTEL}SpanKind LowCardinality(String), Duration Int64",
        "toDate(Timestamp) ORDER BY (ServiceName, SpanName, toUnixTimestamp(Timestamp))",
        ("'SPAN_KIND_SERVER'", "'SPAN_KIND_CLIENT'"),
        ("{at}", "{server}", "{name}", "{kind}", "{lasted}"),
    ),
    "SigNoz": (
        "ts_bucket_start UInt64, timestamp DateTime64(9), `resource_string_service$$name` LowCardinality(String), "
        "name LowCardinality(String), kind Int8, duration_nano UInt64",
        "toDate(timestamp) ORDER BY (ts_bucket_start, name, timestamp)",
        ("2", "3"),
        ("intDiv(toUnixTimestamp({at}), 1800) * 1800", "{at}", "{server}", "{name}", "{kind}", "{lasted}"),
    ),
    "SigNoz 2": (
        "timestamp DateTime64(9), serviceName LowCardinality(String), name LowCardinality(String), kind Int8, "
        "durationNano UInt64",
        "toDate(timestamp) ORDER BY (serviceName, name, timestamp)",
        ("5", "3"),
        ("{at}", "{server}", "{name}", "{kind}", "{lasted}"),
    ),
    "Jaeger": (
        "service_name String, name String, kind String, start_time DateTime64(9), duration Int64",
        "toDate(start_time) ORDER BY (service_name, name, toDateTime(start_time))",
        ("'Server'", "'Client'"),
        ("{server}", "{name}", "{kind}", "{at}", "{lasted}"),
    ),
}
"""Who makes a table → its columns, its keys, a kind that is a visit and one that is none, and a row."""


@pytest.mark.parametrize("maker", TABLES)
def test_clickhouse_reduces_the_tables_of_tracing_systems(maker: str, day: Path, tmp_path: Path) -> None:
    """As each makes its table; spans of clients are no visits. The keys leave later rows unread."""
    session = pytest.importorskip("chdb.session").Session(str(tmp_path / "db"))
    files = f"file('{str(day).replace(chr(39), chr(92) + chr(39))}/*/visits.parquet', Parquet)"
    columns, keys, kinds, row = TABLES[maker]
    session.query(f"CREATE TABLE default.spans ({columns}) ENGINE = MergeTree PARTITION BY {keys}")
    visit = {"at": "fromUnixTimestamp64Nano(assumeNotNull(arrival))", "server": "assumeNotNull(server)"}
    more = {"name": "ifNull(interaction, 'none')", "lasted": "departure - arrival"}
    for kind in kinds:
        values = ", ".join(value.format(**visit, **more, kind=kind) for value in row)
        session.query(f"INSERT INTO default.spans SELECT {values} FROM {files} WHERE departure >= arrival")
    described = str(session.query("DESCRIBE TABLE default.spans", "TSV")).splitlines()
    of = sql.shape([line.split("\t")[0] for line in described], "spans")
    text = sql.query("default.spans", of, Plan(50 * MILLISECOND, end=T0 + 2 * SECOND))
    explained = session.query(f"EXPLAIN indexes = 1 {text}").bytes().decode()
    session.close()
    assert "PrimaryKey" in explained
    assert "Partition" in explained
    there = engines.windows("default.spans", engine=f"chdb://{tmp_path}/db")
    here = engines.windows(day, queue_max=False, percentiles=False)
    known = ("arrivals", "departures", "queue_start", "queue_area_ns", "queue_mean", "response_ns_mean")
    texts = pl.col("server").cast(pl.String)
    assert_frame_equal(there.select(texts, "window", *known), here.select(texts, "window", *known), check_exact=True)


def test_a_task_without_an_answer_is_an_error(day: Path) -> None:
    class Forgetful:
        def map_tasks(self, function: Any, tasks: Any) -> Any:
            return map(function, tasks[1:])

    class Eager:
        def map_tasks(self, function: Any, tasks: Any) -> Any:
            return map(function, [*tasks, tasks[0]])

    tasks = [(path, Plan(50 * MILLISECOND)) for path in engines.files(day)]
    with pytest.raises(InputError, match="left 1 of 5 tasks out") as left:
        list(engines.answers(Forgetful(), reduce_file, tasks))
    assert str(left.value).startswith(f"{engines.files(day)[0]}: ")
    with pytest.raises(InputError, match="twice"):
        list(engines.answers(Eager(), reduce_file, tasks))


def test_sums_of_another_version_are_refused(day: Path) -> None:
    [path, *_] = engines.files(day)
    _, content = reduce_file((0, (path, Plan(50 * MILLISECOND))))
    with pytest.raises(InputError, match="version 513"):
        Part.from_bytes(b"\x02\x01" + content[2:])


@pytest.mark.parametrize(
    "engine", ["flink://x", "nowhere", "dask://local?workers=0", "dask://local?threads=2", "clickhouse://"]
)
def test_a_wrong_engine_is_refused(engine: str, day: Path) -> None:
    if engine.startswith("dask"):
        pytest.importorskip("distributed")
    with pytest.raises(UsageError, match="--engine"):
        list(engines.partials(day, Plan(50 * MILLISECOND), engine))


@pytest.mark.parametrize("table", ["a b", "x; DROP TABLE y", "a.b.c", "`a`", ""])
def test_the_name_of_a_table_is_no_sql(table: str) -> None:
    with pytest.raises(UsageError, match="the name of a table"):
        list(engines.partials(table, Plan(50 * MILLISECOND), "clickhouse://127.0.0.1:9"))


def test_a_database_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(InputError, match="does not answer"):
        list(engines.partials("default.visits", Plan(50 * MILLISECOND), "clickhouse://127.0.0.1:9"))


def test_the_command_takes_a_folder_of_runs(day: Path, tmp_path: Path) -> None:
    assert told("windows", day, "--window", "1s", "-o", tmp_path / "w.parquet", "-q") == 0
    here = pl.read_parquet(tmp_path / "w.parquet")
    expected = engines.windows(day, SECOND).with_columns(pl.col("server").cast(pl.String))
    assert_frame_equal(here, expected, check_exact=True)
    pytest.importorskip("chdb")
    assert told("windows", day, "--window", "1s", "--engine", "chdb://", "-o", tmp_path / "c.parquet", "-q") == 0
    there = pl.read_parquet(tmp_path / "c.parquet")
    assert_frame_equal(there, here.select(there.columns), check_exact=True)
