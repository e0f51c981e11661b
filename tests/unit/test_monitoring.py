"""What monitoring exports: an answer of Prometheus, and a table with a column for each metric."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError
from tailrace.readers import room
from tailrace.units import SECOND, parse_moment

FILES = Path(__file__).parents[1] / "golden" / "readers"
T = parse_moment("2026-11-20T16:49:00Z")


def rows(samples: pl.DataFrame) -> list[tuple[object, ...]]:
    return sorted(samples.with_columns(pl.col("time") - T, pl.col("place", "metric").cast(pl.String)).rows())


def test_an_answer_of_prometheus_is_named_by_its_file(tmp_path: Path) -> None:
    answer = FILES / "prometheus" / "cpu_busy.json"
    assert rows(readers.read(answer).samples().collect()) == [
        (0, SECOND, "10.0.0.3:9100", "cpu_busy", 0.25),
        (0, SECOND, "10.0.0.4:9100", "cpu_busy", 0.125),
        (SECOND, SECOND, "10.0.0.3:9100", "cpu_busy", 0.5),
    ]
    (tmp_path / "answer.json").write_bytes(answer.read_bytes())
    with pytest.raises(InputError, match="call the file by what it holds"):
        readers.read(tmp_path / "answer.json")


def test_lines_that_victoriametrics_exports() -> None:
    samples = readers.read(FILES / "prometheus" / "export.jsonl").samples().collect()
    busy = [row for row in rows(samples) if row[3] == "cpu_busy"]
    assert busy == [
        (15 * SECOND, 15 * SECOND, "10.0.0.3:9100", "cpu_busy", 0.5),
        (30 * SECOND, 15 * SECOND, "10.0.0.3:9100", "cpu_busy", 0.5),
    ]


def test_the_name_of_a_series_is_its_metric(tmp_path: Path) -> None:
    text = (FILES / "prometheus" / "cpu_busy.json").read_text()
    (tmp_path / "answer.json").write_text(text.replace('"instance"', '"__name__":"procs_running","instance"'))
    run = readers.read(f"app={tmp_path / 'answer.json'}")
    assert set(run.samples().collect()["metric"].cast(pl.String)) == {"run_queue"}
    assert set(run.samples().collect()["place"].cast(pl.String)) == {"app"}


def test_reading_an_answer_ends_at_the_bound_and_counts_what_was_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "samples", lambda: 2)
    named = '"metric": {"__name__": "up", "instance": "a"}'
    series = [
        f'{{{named}, "values": [[1795193340, 1.2.3]]}}',
        f'{{{named}, "values": [[1795193340, "1"], [1795193341, "2"], [1795193342, "3"]]}}',
        '{"metric": {}, "values": []}',  # it has no name, which would be an error
    ]
    answer = tmp_path / "answer.json"
    answer.write_text(f'{{"status": "success", "data": {{"resultType": "matrix", "result": [{", ".join(series)}]}}}}')
    run = readers.read(answer)
    assert [value for *_, value in rows(run.samples().collect())] == [1.0, 2.0]
    assert run.lost()["answer.json: damaged elements"] == 1
    assert any("2 samples" in note for note in run.manifest.notes)


def test_a_table_with_a_column_for_each_metric() -> None:
    run = readers.read(FILES / "wide" / "wide.csv")
    assert rows(run.samples().collect()) == [
        (0, SECOND, "app1", "cpu_busy", 0.25),
        (0, 2 * SECOND, "app1", "run_queue", 3.0),
        (SECOND, SECOND, "app1", "cpu_busy", 0.5),
        (2 * SECOND, SECOND, "app1", "cpu_busy", 0.75),
        (2 * SECOND, 2 * SECOND, "app1", "run_queue", 9.0),
    ]
    assert run.lost() == {"wide.csv: damaged lines": 1, "wide.csv: samples without a value": 1}


def test_a_table_without_places_needs_a_name(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("time,cpu_percent\n1795193340,25\n1795193341,50\n")
    with pytest.raises(InputError, match="name the server or node"):
        readers.read(tmp_path / "wide.csv")
    samples = readers.read(f"app={tmp_path / 'wide.csv'}").samples().collect()
    assert rows(samples) == [(0, SECOND, "app", "cpu_busy", 0.25), (SECOND, SECOND, "app", "cpu_busy", 0.5)]


@pytest.mark.parametrize("kind", ["vector", "scalar"])
def test_values_of_one_moment_are_refused_with_what_asks_for_more(kind: str, tmp_path: Path) -> None:
    result = '[{"metric": {"__name__": "node_procs_running"}, "value": [1795193340, "3"]}]'
    path = tmp_path / "now.json"
    path.write_text(f'{{"status": "success", "data": {{"resultType": "{kind}", "result": {result}}}}}')
    with pytest.raises(InputError, match="the values of one moment") as caught:
        readers.read(path)
    assert any("query_range" in command for command in caught.value.commands)
