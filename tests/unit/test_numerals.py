"""Numbers of other countries in tables of samples: each column decides what its commas and points mean."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError
from tailrace.readers.numerals import Column, Form, forms


def form_of(*texts: str, others: tuple[str, ...] = ()) -> Form:
    columns = {"one": Column(), "other": Column()}
    for name, of in (("one", texts), ("other", others)):
        for text in of:
            columns[name].add(text)
    return forms(columns)[0]["one"]


@pytest.mark.parametrize(
    ("texts", "others", "text", "value"),
    [
        (["12,345", "0,5"], [], "12,345", 12.345),
        (["12,345", "1,234,567"], [], "12,345", 12345.0),
        (["12,345", "7.25"], [], "12,345", 12345.0),
        (["12,345", "0,123"], [], "12,345", 12.345),
        (["12,345", "1234,567"], [], "12,345", 12.345),
        (["12,345"], ["0,5"], "12,345", 12.345),
        (["12,345"], ["0.5"], "12,345", 12345.0),
        (["12,345"], [], "12,345", None),
        (["12,345"], ["0.5", "0,5"], "12,345", None),
        (["12.345"], [], "12.345", 12.345),
        (["12.345", "1.234,56"], [], "12.345", 12345.0),
        (["12.345"], ["0,5"], "12.345", 12345.0),
        (["1.234,56"], [], "1.234,56", 1234.56),
        (["1.234.567"], [], "1.234.567", 1234567.0),
        (["1,234.56"], [], "1,234.56", 1234.56),
        (["1 234"], [], "1 234", 1234.0),
        (["1\u00a0234,5"], [], "1\u00a0234,5", 1234.5),
        (["1'234.5"], [], "1'234.5", 1234.5),
        (["1\u2019234"], [], "1\u2019234", 1234.0),
        (["-1,5"], [], "-1,5", -1.5),
        (["\u22121,5"], [], "\u22121,5", -1.5),
        (["1,5E+03"], [], "1,5E+03", 1500.0),
        (["12,5 %"], [], "12,5 %", 12.5),
        (["1,23,456"], [], "1,23,456", None),
        (["12 34"], [], "12 34", None),
        (["1,5 MB"], [], "1,5 MB", None),
    ],
)
def test_a_number_means_what_its_column_and_its_file_show(
    texts: list[str], others: list[str], text: str, value: float | None
) -> None:
    assert form_of(*texts, others=tuple(others)).value(text) == value


def wide(path: Path, *rows: str, head: str = "time;host;cpu_busy;context_switches;rss") -> Path:
    lines = [f"2026-11-20 16:49:0{i},500;app1;{row}" for i, row in enumerate(rows)]
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def values(run: readers.Dataset) -> dict[str, list[float]]:
    frame = run.samples().collect().with_columns(pl.col("metric").cast(pl.String)).sort("time")
    return {str(key[0]): part["value"].to_list() for key, part in frame.group_by("metric", maintain_order=True)}


def test_a_column_of_a_wide_table_decides(tmp_path: Path) -> None:
    run = readers.read(wide(tmp_path / "wide.csv", "0,5;12,345;1.234,5", "0,125;9,876;2.000"))
    assert values(run) == {
        "cpu_busy": [0.5, 0.125],
        "context_switches": [12.345, 9.876],
        "rss_bytes": [1234.5, 2000.0],
    }
    assert any("decimal comma: cpu_busy, context_switches, rss" in note for note in run.manifest.notes)


def test_commas_that_nothing_decides_are_unknown_and_named(tmp_path: Path) -> None:
    run = readers.read(wide(tmp_path / "wide.csv", "1;12,345;7", "0;9,876;8"))
    assert values(run) == {"cpu_busy": [1.0, 0.0], "rss_bytes": [7.0, 8.0]}
    assert any("'12,345' may be 12.345 or 12345" in note for note in run.manifest.notes)
    assert sum(run.lost().values()) == 2


def test_shares_are_never_in_the_thousands(tmp_path: Path) -> None:
    run = readers.read(wide(tmp_path / "wide.csv", "12,345;12,345;7", "99,125;9,876;8"))
    assert values(run)["cpu_busy"] == pytest.approx([0.12345, 0.99125])
    assert values(run)["context_switches"] == [12.345, 9.876]


def test_percent_signs_are_percentages(tmp_path: Path) -> None:
    rows = ("1 %;12345;7", "0,5 %;9876;8")
    assert values(readers.read(wide(tmp_path / "wide.csv", *rows)))["cpu_busy"] == pytest.approx([0.01, 0.005])
    quoted = tmp_path / "long.csv"
    quoted.write_text('time,host,metric,value\n1795193340,app1,cpu_busy,1%\n1795193341,app1,rss,"1,234.5"\n')
    assert values(readers.read(quoted)) == {"cpu_busy": [0.01], "rss_bytes": [1234.5]}


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_long_table_decides_as_a_whole(tmp_path: Path, delimiter: str) -> None:
    rows = [["time", "host", "metric", "value"], ["1795193340", "app1", "rss", "12,345"]]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(delimiter.join(row) for row in rows) + "\n")
    with pytest.raises(InputError, match=r"may be 12\.345 or 12345"):
        readers.read(path)
    path.write_text(path.read_text() + delimiter.join(["1795193341", "app1", "rss", "0,5"]) + "\n")
    assert values(readers.read(path)) == {"rss_bytes": [12.345, 0.5]}
    path.write_text(path.read_text().replace("0,5", "1.234,5"))
    assert values(readers.read(path)) == {"rss_bytes": [12.345, 1234.5]}


@pytest.mark.parametrize("head", ["time;host;cpu_busy;rss", "time;host;metric;value"])
@pytest.mark.parametrize(
    ("dates", "first"),
    [
        (["20.11.2026 16:49:01", "20.11.2026 16:49:02"], 0),
        (["20/11/2026 16:49:01,000", "20/11/2026 16:49:02,000"], 0),
        (["11/20/2026 4:49:01 PM", "11/20/2026 4:49:02 PM"], 0),
        (["05.11.2026 16:49:01", "05.11.2026 16:49:02"], -15 * 86_400),
        (["05/11/2026 16:49:01", "20/11/2026 16:49:02"], -15 * 86_400),
    ],
)
def test_dates_of_other_countries(tmp_path: Path, head: str, dates: list[str], first: int) -> None:
    cells = "app1;0.5;7" if "cpu_busy" in head else "app1;cpu_busy;0.5"
    path = tmp_path / "table.csv"
    path.write_text("\n".join([head, *(f"{date};{cells}" for date in dates)]) + "\n")
    run = readers.read(path)
    assert run.samples().collect()["time"].min() == (1_795_193_341 + first) * 10**9
    assert any("no time zone" in note for note in run.manifest.notes)


@pytest.mark.parametrize(
    "dates", [["11/10/2026 16:49:01", "11/10/2026 16:49:02"], ["13/11/2026 1:00", "11/13/2026 1:01"]]
)
def test_dates_whose_order_is_unknown_are_refused(tmp_path: Path, dates: list[str]) -> None:
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["time,host,cpu_busy", *(f"{date},app1,0.5" for date in dates)]) + "\n")
    with pytest.raises(InputError, match="whether the day or the month comes first"):
        readers.read(path)
