"""Two passes over many run folders: the diagnosis is that of all their rows, and little moves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from doors import told
from tailrace import dataset, sim
from tailrace.cli import perform
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.finding import Diagnosis
from tailrace.engines import gathering, sql
from tailrace.engines.gathering import AROUND_NS, SPANS_NS_MAX, around
from tailrace.errors import InputError
from tailrace.experiment import from_table
from tailrace.units import SECOND

HOUR = 300 * SECOND
STALL = {"kind": "freeze", "place": "app", "at": "12 s", "for": "700 ms"}


def moved(run: Dataset, by: int, out: Path) -> None:
    """The same run at a later time."""
    with dataset.create(out) as writer:
        for name, table in dataset.TABLES.items():
            rows = getattr(run, name)().with_columns(pl.col(moment) + by for moment in table.moments).collect()
            if rows.height:
                writer.write_table(name, rows)
        writer.topology = run.topology


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four run folders of some minutes each; in the third one a server stood still."""
    folder = tmp_path_factory.mktemp("day")
    tiers = {"web": {"workers": 20, "backlog": 10, "calls": ["app"]}, "app": {"workers": 30}}
    table = {
        "duration": "20 s",
        "ramp": "2 s",
        "tiers": tiers,
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"servlet": 1}}}},
            "servlet": {"at": {"app": {"compute": "1 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 150, "interaction": "page"}},
    }
    for name, stalls in (("calm", []), ("stalled", [STALL])):
        sim.simulate(from_table({**table, "stalls": stalls}), folder / f"{name}.made")
    calm, stalled = (Dataset.open(folder / f"{name}.made") for name in ("calm", "stalled"))
    for hour, run in enumerate((calm, calm, stalled, calm)):
        moved(run, hour * HOUR, folder / f"hour{hour}")
    for name in ("calm", "stalled"):
        shutil.rmtree(folder / f"{name}.made")
    return folder


def test_the_diagnosis_is_that_of_the_hour_with_the_stall(day: Path, tmp_path: Path) -> None:
    found = gathering.survey(day, "local")
    assert (found.folders, found.vlrt > 20) == (4, True)
    run = gathering.gather(day, "local", found, tmp_path / "run")
    run.validate()
    expected = diagnose(Dataset.open(day / "hour2"))
    answer = diagnose(run)
    assert answer.summary == expected.summary
    assert answer.vlrt == expected.vlrt == found.vlrt
    assert any(f"with {found.requests:,} requests" in note for note in run.manifest.notes)
    assert run.manifest.rows["requests"] < found.requests / 2


def test_the_command_explains_a_day_and_keeps_what_it_fetched(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert perform(["diagnose", str(day), "--engine", "local", "-o", str(out), "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"][0]["origin"] == "app"
    assert (out / "report.html").exists()
    calm = [str(day / "hour0"), str(day / "hour1")]
    assert perform(["diagnose", *calm, "--engine", "local", "-q"]) == 0
    assert "requests of 2 run folders took 950 ms or longer" in capsys.readouterr().out
    assert perform(["info", str(day), "--engine", "local", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["run_folders"], len(counts["sent"])) == (4, counts["vlrt"])
    assert perform(["info", str(day), "--engine", "local"]) == 0
    assert f"{counts['requests']:,} requests in 4 run folders" in capsys.readouterr().out
    assert told("info", day, "--engine", "nowhere://") == 2
    assert told("diagnose", tmp_path, "--engine", "nowhere://", "-q") == 2
    assert told("diagnose", day, "--engine", "clickhouse://127.0.0.1:9", "-q") == 2


def test_numbers_of_run_folders_stay_apart(day: Path, tmp_path: Path) -> None:
    """Each hour has VLRT if the threshold is short; visits still have their own callers."""
    found = gathering.survey(day, "local", threshold_ns=1_000_000)
    run = gathering.gather(day, "local", found, tmp_path / "run")
    run.validate()
    visits = run.visits().collect()
    assert visits["visit"].is_unique().all()
    both = visits.join(visits.select(parent="visit", began="arrival", of="request"), on="parent")
    assert both.height > 1_000
    assert (both["arrival"] >= both["began"]).all()
    assert (both["request"] == both["of"]).all()
    assert run.manifest.rows["requests"] == found.requests


def test_workers_fetch_the_same_rows(day: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    found = gathering.survey(day, "local")
    there = gathering.gather(day, "dask://local?workers=2", found, tmp_path / "there")
    here = gathering.gather(day, "local", found, tmp_path / "here")
    for name in dataset.TABLES:
        assert_frame_equal(getattr(there, name)().collect(), getattr(here, name)().collect())


def same_origin(answer: Diagnosis, day: Path) -> None:
    """A table of visits has no samples, so that the cause is another matter."""
    expected = diagnose(Dataset.open(day / "hour2"))
    assert answer.vlrt == expected.vlrt
    assert [one.dropper for one in answer.summary] == [one.dropper for one in expected.summary]


def test_run_folders_of_a_store_give_the_same_run(day: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    found = gathering.survey(day.as_uri(), "local")
    assert found == gathering.survey(day, "local")
    there = gathering.gather(day.as_uri(), "local", found, tmp_path / "there")
    here = gathering.gather(day, "local", found, tmp_path / "here")
    for name in dataset.TABLES:
        assert_frame_equal(getattr(there, name)().collect(), getattr(here, name)().collect())
    assert there.topology == here.topology


def test_files_of_visits_are_diagnosed_without_run_folders(day: Path, tmp_path: Path) -> None:
    """As those of Delta and Iceberg: one table in several files, whose visits call each other across files."""
    pytest.importorskip("pyarrow")
    lake = tmp_path / "lake"
    lake.mkdir()
    rows = Dataset.open(day / "hour2").visits().collect()
    for server, file in (("web", "a"), ("app", "b")):
        rows.filter(pl.col("server").cast(pl.String) == server).write_parquet(lake / f"{file}.parquet")
    found = gathering.survey(lake.as_uri(), "local")
    run = gathering.gather(lake.as_uri(), "local", found, tmp_path / "run")
    run.validate()
    assert (found.folders, found.of) == (2, "files of visits")
    assert [(call.caller, call.callee) for call in run.topology.calls] == [("web", "app")]
    same_origin(diagnose(run), day)
    # The same file twice: numbers repeat, so each file has its own.
    shutil.copy(lake / "a.parquet", lake / "c.parquet")
    twice = gathering.gather(lake.as_uri(), "local", gathering.survey(lake.as_uri(), "local"), tmp_path / "twice")
    assert twice.visits().collect()["visit"].is_unique().all()
    (lake / "d.parquet").write_bytes((lake / "a.parquet").read_bytes()[:100])
    assert told("diagnose", lake.as_uri(), "-q") == 2


def test_visits_that_do_not_say_which_are_requests_are_refused(day: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = Dataset.open(day / "hour2").visits().collect()
    rows.drop("parent").write_parquet(tmp_path / "visits.parquet")
    with pytest.raises(InputError, match="which visits are requests"):
        gathering.survey(tmp_path.as_uri(), "local")
    (tmp_path / "visits.parquet").unlink()
    rows.drop("departure").write_parquet(tmp_path / "visits.parquet")
    with pytest.raises(InputError, match="departure"):
        gathering.survey(tmp_path.as_uri(), "local")


def test_the_commands_read_a_store(day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    assert perform(["diagnose", day.as_uri(), "-o", str(tmp_path / "run"), "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"][0]["origin"] == "app"
    assert perform(["info", day.as_uri(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_folders"] == 4


def in_chdb(folder: Path, day: Path, *statements: str) -> str:
    """The URL of a database with these tables; `{hour}` is a table of visits of an hour, and `{day}` the folder."""
    session = pytest.importorskip("chdb.session").Session(str(folder))
    for statement in statements:
        session.query(statement.replace("{day}", str(day)))
    session.close()
    return f"chdb://{folder}"


def test_tables_that_were_loaded_are_diagnosed_in_the_database(day: Path, tmp_path: Path) -> None:
    run = "extract(_path, 'hour[0-9]') AS run"
    made = f"CREATE TABLE tailrace.{{0}} ENGINE = MergeTree ORDER BY tuple() AS SELECT {run}, * FROM "
    statements = [
        made.format(name) + f"file('{{day}}/*/{name}.parquet', Parquet)" for name in ("visits", "requests", "samples")
    ]
    url = in_chdb(tmp_path / "db", day, "CREATE DATABASE tailrace", *statements)
    found = gathering.survey("tailrace.visits", url)
    expected = gathering.survey(day, "local")
    assert (found.requests, found.vlrt, found.moments) == (expected.requests, expected.vlrt, expected.moments)
    run = gathering.gather("tailrace.visits", url, found, tmp_path / "run")
    run.validate()
    assert run.manifest.rows["samples"] > 0
    same_origin(diagnose(run), day)


def test_spans_of_a_tracing_system_are_diagnosed_in_the_database(day: Path, tmp_path: Path) -> None:
    spans = (
        "CREATE TABLE default.otel_traces ENGINE = MergeTree ORDER BY tuple() AS "
        "SELECT fromUnixTimestamp64Nano(assumeNotNull(sent)) AS Timestamp, toUInt64(departure - sent) AS Duration, "
        "toString(request) AS TraceId, toString(visit) AS SpanId, ifNull(toString(parent), '') AS ParentSpanId, "
        "toString(server) AS ServiceName, ifNull(toString(interaction), '') AS SpanName, 'Server' AS SpanKind, "
        "'Ok' AS StatusCode FROM file('{day}/hour2/visits.parquet', Parquet)"
    )
    url = in_chdb(tmp_path / "db", day, spans)
    found = gathering.survey("default.otel_traces", url)
    assert found.requests == gathering.survey([day / "hour2"], "local").requests
    run = gathering.gather("default.otel_traces", url, found, tmp_path / "run")
    run.validate()
    answer = diagnose(run)
    assert answer.vlrt == found.vlrt == gathering.survey([day / "hour2"], "local").vlrt
    assert any("a server's span begins after" in note for note in run.manifest.notes)
    assert told("diagnose", "default.nowhere", "--engine", url, "-q") == 2


def test_the_queries_count_requests_only() -> None:
    of = sql.shape(["Timestamp", "Duration", "ServiceName", "SpanName", "SpanKind"], "spans")
    assert "ParentSpanId = ''" in sql.counts("spans", of, SECOND)
    assert "Server" not in sql.spans_around("spans", of, of.span, [(0, 5)]).partition("WHERE")[2]  # type: ignore[arg-type]
    assert sql.around("visits", "sent", "departure", []).endswith("WHERE (0)")


def test_spans_are_bounded_and_those_with_the_most_come_first() -> None:
    moments = [0, SECOND, 10 * 60 * SECOND]
    assert around(moments) == ([(-AROUND_NS, SECOND + AROUND_NS), (moments[2] - AROUND_NS, moments[2] + AROUND_NS)], 0)
    assert around([]) == ([], 0)
    many = [hour * 3600 * SECOND for hour in range(100)]
    spans, left_out = around([*many, many[-1] + 1, many[-1] + 2])
    assert spans[-1][0] == many[-1] - AROUND_NS
    assert sum(end - begin for begin, end in spans) <= SPANS_NS_MAX
    assert left_out == 100 - len(spans)
    [(begin, end)], _ = around(list(range(0, 7200 * SECOND, SECOND)))
    assert end - begin == SPANS_NS_MAX
