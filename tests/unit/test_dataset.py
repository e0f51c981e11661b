"""The run folder: written completely or not at all, validated by file, column and row, and read alike by other
tools."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import duckdb
import pandas
import polars as pl
import pytest

from builders import T0, events, requests, run, samples, visits
from tailrace import dataset, locks, readers
from tailrace._core import reduce
from tailrace.dataset import Dataset
from tailrace.errors import InputError, OutputError, UsageError
from tailrace.topology import Server, Topology

PYTHON_PATH = os.pathsep.join(sys.path)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    with dataset.create(tmp_path / "run") as writer:
        writer.maker = "test"
        writer.topology = Topology(servers=(Server(name="web", workers=150),))
        writer.losses["gap_bytes"] = 7
        writer.write_table("visits", visits({"departure": T0 + 5}, {"departure": T0 + 3, "parent": 1}))
    opened = Dataset.open(tmp_path / "run")
    frame = opened.visits().collect()
    assert frame.columns == [column.name for column in dataset.VISITS.columns]
    assert frame["departure"].to_list() == [T0 + 3, T0 + 5], "rows are sorted by departure"
    assert frame["parent"].to_list() == [1, None]
    assert opened.topology.server("web") == Server(name="web", workers=150)
    assert opened.manifest.rows == {"visits": 2}
    assert (opened.manifest.begin, opened.manifest.end) == (T0, T0 + 5)
    assert opened.manifest.lost == {"gap_bytes": 7}
    opened.validate(checksums=True)


def test_an_absent_table_is_an_empty_frame_with_its_columns(tmp_path: Path) -> None:
    opened = run(tmp_path / "run", visits=visits({}))
    assert opened.samples().collect_schema() == dataset.SAMPLES.schema
    assert opened.samples().collect().is_empty()
    assert opened.has("visits")
    assert not opened.has("samples")


def test_appended_rows_join_those_an_engine_wrote(tmp_path: Path) -> None:
    with dataset.create(tmp_path / "run") as writer:
        writer.write_table("events", events({"kind": "drop", "begin": T0 + 9, "end": T0 + 9}))
        writer.append_table("events", events({"kind": "gc", "detail": "Pause Full"}))
    frame = Dataset.open(tmp_path / "run").events().collect()
    assert frame["kind"].to_list() == ["gc", "drop"]
    assert frame["detail"].to_list() == ["Pause Full", None]


def test_pandas_polars_and_duckdb_read_names_as_text(tmp_path: Path) -> None:
    run(tmp_path / "run", visits=visits({"server": "web"}, {"server": "app"}, {"server": "web"}))
    file = str(tmp_path / "run" / "visits.parquet")
    with_pandas = pandas.read_parquet(file)
    assert with_pandas["server"].value_counts().to_dict() == {"web": 2, "app": 1}
    assert str(with_pandas["arrival"].dtype) == "int64"
    with_polars = pl.read_parquet(file)
    assert with_polars.filter(pl.col("server") == "web").height == 2
    with_duckdb = duckdb.sql(f"select server, count(*) from '{file}' group by server order by server").fetchall()
    assert with_duckdb == [("app", 1), ("web", 2)]


def test_columns_of_a_users_own_stay_whatever_their_type(tmp_path: Path) -> None:
    own = pl.DataFrame({"note": [[1, 2]], "seen": [datetime(2026, 11, 25)], "flag": [True], "nothing": [None]})
    with dataset.create(tmp_path / "run") as writer:
        writer.write_table("visits", pl.concat([visits({}), own], how="horizontal"))
    found = Dataset.open(tmp_path / "run").visits().collect()
    assert found.select(own.columns).equals(own)
    windows = reduce(Dataset.open(tmp_path / "run").files("visits"), 50_000_000)
    assert pl.DataFrame(windows)["arrivals"].sum() == 1


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), dataset.create(tmp_path / "run") as writer:
        writer.write_table("visits", visits({}))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing_and_kill_leaves_what_the_next_writer_removes(tmp_path: Path) -> None:
    for number, left in ((signal.SIGINT, 0), (signal.SIGKILL, 1)):
        process = _writer_that_waits(tmp_path)
        process.send_signal(number)
        process.wait(timeout=30)
        assert not (tmp_path / "run").exists()
        assert len(dataset.leftovers(tmp_path / "run")) == left
        assert len(list(tmp_path.iterdir())) == left
    run(tmp_path / "run", visits=visits({}))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_folder_of_a_living_writer_is_no_leftover(tmp_path: Path) -> None:
    process = _writer_that_waits(tmp_path)
    try:
        assert dataset.leftovers(tmp_path / "run") == ()
        run(tmp_path / "run", visits=visits({}))
        assert len(list(tmp_path.iterdir())) == 2, "the other writer still has its folder"
    finally:
        process.kill()
        process.wait(timeout=30)


def _writer_that_waits(folder: Path) -> subprocess.Popen[str]:
    code = """
        import sys, time
        from builders import visits
        from tailrace import dataset
        with dataset.create(sys.argv[1]) as writer:
            writer.write_table("visits", visits({}))
            print("ready", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(folder / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_an_existing_run_is_kept_unless_overwritten(tmp_path: Path) -> None:
    run(tmp_path / "run", visits=visits({}))
    with pytest.raises(UsageError, match="exists already"), dataset.create(tmp_path / "run"):
        pass
    with dataset.create(tmp_path / "run", overwrite=True) as writer:
        writer.write_table("visits", visits({}, {}))
    assert Dataset.open(tmp_path / "run").manifest.rows == {"visits": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_failed_overwrite_keeps_the_old_run(tmp_path: Path) -> None:
    run(tmp_path / "run", visits=visits({}))
    with pytest.raises(ZeroDivisionError), dataset.create(tmp_path / "run", overwrite=True):
        raise ZeroDivisionError
    assert Dataset.open(tmp_path / "run").manifest.rows == {"visits": 1}


def test_a_folder_that_is_no_run_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(UsageError, match="not a run folder"), dataset.create(tmp_path / "photos", overwrite=True):
        pass
    assert (tmp_path / "photos" / "cat.jpg").exists()


def test_the_folder_to_write_into_must_exist(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist; create it first"), dataset.create(tmp_path / "no" / "run"):
        pass


@pytest.mark.parametrize(
    ("table", "frame", "words"),
    [
        (
            "visits",
            visits({}, {"arrival": T0 + 9, "departure": T0 + 8}),
            ["visits.parquet", "column departure", "row 0"],
        ),
        ("visits", visits({}, {"status": None}), ["visits.parquet", "column status", "row 1", "no value"]),
        ("requests", requests({"sent": T0 + 9, "end": T0 + 8}), ["requests.parquet", "column end", "row 0"]),
        ("samples", samples({}, {"value": None}), ["samples.parquet", "column value", "row 1"]),
        ("events", events({"begin": T0 + 5, "end": T0}), ["events.parquet", "column end", "row 0"]),
    ],
)
def test_validation_names_file_column_and_row(
    tmp_path: Path, table: str, frame: pl.DataFrame, words: list[str]
) -> None:
    opened = run(tmp_path / "run", **{table: frame})
    with pytest.raises(InputError) as caught:
        opened.validate()
    for word in words:
        assert word in str(caught.value)


def test_rows_out_of_order_are_named(tmp_path: Path) -> None:
    opened = run(tmp_path / "run", visits=visits({}, {}))
    visits({"departure": T0 + 5}, {"departure": T0 + 2}).write_parquet(tmp_path / "run" / "visits.parquet")
    with pytest.raises(InputError, match=r"visits\.parquet: column departure, row 1: .* comes after a later value"):
        Dataset.open(opened.path).validate()


def test_wrong_type_is_named_on_opening_and_unknown_columns_are_not(tmp_path: Path) -> None:
    run(tmp_path / "run", visits=visits({}))
    file = tmp_path / "run" / "visits.parquet"
    visits({}).with_columns(shoe_size=pl.lit(42)).write_parquet(file)
    assert Dataset.open(tmp_path / "run").visits().collect()["shoe_size"].to_list() == [42]
    visits({}).with_columns(arrival=pl.lit("noon")).write_parquet(file)
    with pytest.raises(InputError, match=r"column arrival: its type is String, not Int64"):
        Dataset.open(tmp_path / "run")
    visits({}).drop("server").write_parquet(file)
    with pytest.raises(InputError, match=r"column server: the column is missing"):
        Dataset.open(tmp_path / "run")


def test_text_columns_of_another_tool_become_names(tmp_path: Path) -> None:
    run(tmp_path / "run", visits=visits({}))
    file = tmp_path / "run" / "visits.parquet"
    visits({}).with_columns(pl.col("server").cast(pl.String)).drop("data_drops").with_columns(
        data_drops=pl.lit(0, pl.Int64)
    ).write_parquet(file)
    assert Dataset.open(tmp_path / "run").visits().collect_schema() == dataset.VISITS.schema


def test_a_cut_or_changed_file_is_found(tmp_path: Path) -> None:
    opened = run(tmp_path / "run", visits=visits({}, {}))
    file = opened.path / "visits.parquet"
    whole = file.read_bytes()
    visits({}, {"status": "503"}).write_parquet(file)
    Dataset.open(opened.path).validate()
    with pytest.raises(InputError, match="SHA-256"):
        Dataset.open(opened.path).validate(checksums=True)
    visits({}).write_parquet(file)
    with pytest.raises(InputError, match=r"it has 1 rows where manifest\.json says 2"):
        Dataset.open(opened.path)
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        Dataset.open(opened.path)


def test_a_folder_that_is_no_run_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        Dataset.open(tmp_path / "none")
    with pytest.raises(InputError, match="not a run folder"):
        Dataset.open(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="it is a file"):
        Dataset.open(tmp_path / "file")


def test_a_manifest_from_the_future_or_of_nonsense_is_refused(tmp_path: Path) -> None:
    opened = run(tmp_path / "run", visits=visits({}))
    manifest = opened.path / "manifest.json"
    table = json.loads(manifest.read_text())
    for text, words in (
        (json.dumps({**table, "format": 99}), "format 99 is newer than 1"),
        ("{", "not JSON"),
        ("[]", "format is missing"),
        (json.dumps({**table, "rows": 3}), "rows: it must be names with their counts"),
        (json.dumps({**table, "rows": {"../visits": 3}}), "rows.../visits: it must be one of requests"),
        (json.dumps({**table, "checksums": {"../../x": "0"}}), "the path of a file within the folder"),
        (json.dumps({**table, "checksums": {"/etc/passwd": "0"}}), "the path of a file within the folder"),
        (json.dumps({**table, "maker": "x"}), "maker: it must be a name and a version"),
        (json.dumps({**table, "notes": 3}), "notes: it must be a list of sentences"),
        (json.dumps({**table, "time_range_ns": [2**62 + 1] * 2}), "time_range_ns: it must be two moments"),
        (json.dumps({**table, "time_range_ns": [1e999, 1]}), "Infinity is not a finite number"),
        (json.dumps(table).replace("1", "1" * 5000, 1), "not JSON"),
        ("[" * 100_000, "hundreds deep"),
    ):
        manifest.write_text(text)
        with pytest.raises(InputError, match=words):
            Dataset.open(opened.path)


def test_a_lock_that_cannot_be_had_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> int:
        raise OSError(errno.EDQUOT, "Disk quota exceeded", str(folder / ".lock"))

    monkeypatch.setattr(locks, "hold", refuse)
    with pytest.raises(OutputError, match=r"[Qq]uota"), dataset.create(tmp_path / "run"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_and_leaves_nothing(full_disk: Path) -> None:
    many = pl.concat([visits(*({} for _ in range(1000)))] * 200).with_columns(
        visit=pl.int_range(200_000, dtype=pl.UInt64).hash()
    )
    with pytest.raises(OutputError, match="the disk is full"), dataset.create(full_disk / "run") as writer:
        writer.write_table("visits", many)
    assert list(full_disk.iterdir()) == []


def test_missing_permission_is_said(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text("time,place,metric,value\n")
    (tmp_path / "samples.csv").chmod(0o000)
    tmp_path.chmod(0o555)
    assert "permission to write there is missing" in _said_to_nobody(lambda: _create(tmp_path / "run"))
    assert "permission to read it is missing" in _said_to_nobody(lambda: readers.read(tmp_path / "samples.csv"))


def _create(path: Path) -> None:
    with dataset.create(path):
        pass


def _said_to_nobody(work: Callable[[], object]) -> str:
    """The error for a user without rights. Root has all rights, so the test drops them in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            work()
            os.write(writing, b"it worked")
        except BaseException as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
