"""Windows in a notebook: they draw themselves, and stay a table."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import tailrace as tr
from doors import run_folder
from hostile import Outline, hidden
from tailrace.report.windows import HEIGHT, SERVERS_MAX, WIDTH, Windows
from tailrace.units import SECOND

README = Path(__file__).parents[2] / "README.md"


def table(queues: dict[str, list[int]], vlrt: dict[str, list[int]] | None = None) -> Windows:
    """Windows of a second: the longest queue in each, by server."""
    rows = [
        {"server": name, "window": at * SECOND, "queue_mean": one / 2, "queue_max": one, "vlrt": marked}
        for name, values in queues.items()
        for at, (one, marked) in enumerate(zip(values, (vlrt or {}).get(name, [0] * len(values)), strict=True))
    ]
    return Windows(rows)


def points(shown: str) -> list[list[tuple[float, float]]]:
    lines = re.findall(r"points='([^']*)'", shown)
    return [[(float(x), float(y)) for x, y in (one.split(",") for one in line.split())] for line in lines]


def test_the_python_of_the_readme_shows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    program = next(one for one in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL) if "windows" in one)
    monkeypatch.chdir(README.parent / "demo")
    names: dict[str, object] = {}
    exec(
        program.replace("tr.diagnose(run)", "found = tr.diagnose(run)").replace("tr.windows", "made = tr.windows"),
        names,
    )
    found, made = names["found"], names["made"]
    assert "VLRT" in found._repr_html_()  # type: ignore[attr-defined]
    shown = made._repr_html_()  # type: ignore[attr-defined]
    assert (shown.count("<svg"), "queue_mean" in shown) == (3, True)


def test_a_line_has_the_peaks_and_marks_where_they_belong() -> None:
    values = [0] * 5_000
    values[2_500] = 40
    [line] = points(table({"web": values})._repr_html_())
    assert len(line) == WIDTH
    [peak] = [x for x, y in line if y == 1]
    assert peak == pytest.approx(WIDTH / 2, abs=1)
    assert {y for x, y in line if x != peak} == {HEIGHT - 1}
    marked = table({"web": [1, 1, 1]}, {"web": [0, 7, 0]})._repr_html_()
    assert re.findall(r"M(\d+) ", marked) == [str((WIDTH - 1) // 2)]


def test_servers_with_vlrt_come_first_and_the_others_are_counted() -> None:
    many = {f"s{number}": [number] for number in range(SERVERS_MAX + 1)}
    shown = table({**many, "slow": [0]}, {"slow": [1]})._repr_html_()
    assert [one.split()[-1] for one in re.findall("Queue of [^']*", shown)][:2] == ["slow", f"s{SERVERS_MAX}"]
    assert "2 more servers are not drawn" in shown


def test_interactions_of_a_server_are_added() -> None:
    run = run_folder()
    whole, parts = (tr.windows(run, SECOND, by=by, queue_max=False) for by in ("server", "interaction"))
    assert points(parts._repr_html_()) == points(whole._repr_html_())


def test_what_is_no_table_of_windows_any_more_looks_like_any_other() -> None:
    windows = table({"web": [1, 2]})
    for other in (windows.clear(), windows.filter(pl.col("server") == "db"), windows.drop("queue_mean")):
        assert "<svg" not in other._repr_html_()
    assert windows.equals(pl.DataFrame(windows))


def test_names_of_strangers_are_text() -> None:
    shown = table({"<script>x</script>\u202e'\x1b": [1], "b": [2]})._repr_html_()
    assert "<script" not in shown
    assert hidden(shown.replace("\n", "")) == []
    assert "script" not in Outline(shown).tags
