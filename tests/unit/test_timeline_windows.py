"""The exact reduction seen from Python: against ten naive lines, a sweep over events, and DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import T0, requests, run, visits
from tailrace import timeline

MS = 1_000_000
WINDOW = 50 * MS
SUMS = ["arrivals", "departures", "queue_start", "queue_area_ns", "response_ns_sum", "vlrt", "drops"]


def written(path: Path, frame: pl.DataFrame) -> Path:
    frame.write_parquet(path)
    return path


def many(count: int = 4000) -> pl.DataFrame:
    """Visits of three servers, 0.3 ms apart, with stalls, from a linear congruence."""
    state, rows = 7, []
    for i in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        draw = state >> 33
        length = 1_200 * MS + draw % MS if draw % 97 == 0 else draw % (7 * MS)
        departure = T0 + i * 300_000 + draw % 90_000
        arrival = departure - length
        sent = arrival - (1_000 * MS if draw % 53 == 0 else 200_000)
        server, interaction = ("web", "app", "db")[draw % 3], ("read", "write", None)[draw % 5 % 3]
        drops = int(draw % 53 == 0)
        times = {"sent": sent, "arrival": arrival, "departure": departure}
        rows.append({"server": server, "interaction": interaction, "drops": drops, **times})
    return visits(*rows)


def naive(rows: list[dict[str, int]], windows: list[int]) -> list[tuple[float | None, ...]]:
    """The definition, window by window."""
    out: list[tuple[float | None, ...]] = []
    for s in windows:
        e = s + WINDOW
        arrived = [v for v in rows if s <= v["arrival"] < e]
        done = [v["departure"] - v["arrival"] for v in rows if s <= v["departure"] < e]
        area = sum(max(0, min(v["departure"], e) - max(v["arrival"], s)) for v in rows)
        late = sum(v["departure"] - v["sent"] >= 1_000 * MS for v in arrived)
        before = sum(v["arrival"] < s <= v["departure"] for v in rows)
        mean = sum(done) / len(done) if done else None
        drops = sum(v["drops"] for v in arrived)
        out.append((len(arrived), len(done), before, area, area / WINDOW, mean, late, drops))
    return out


def test_equals_naive_python_to_the_last_bit(tmp_path: Path) -> None:
    frame = many()
    got = timeline.windows(written(tmp_path / "visits.parquet", frame), WINDOW)
    columns = [
        "arrivals",
        "departures",
        "queue_start",
        "queue_area_ns",
        "queue_mean",
        "response_ns_mean",
        "vlrt",
        "drops",
    ]
    assert got.get_column("vlrt").sum() > 20
    for (server,), mine in got.group_by("server"):
        rows = frame.filter(pl.col("server") == server).to_dicts()
        assert mine.select(columns).rows() == naive(rows, mine.get_column("window").to_list())


def test_duckdb_computes_the_same(tmp_path: Path) -> None:
    path = written(tmp_path / "visits.parquet", many())
    got = timeline.windows(path, WINDOW, by="interaction").filter((pl.col("arrivals") > 0) | (pl.col("departures") > 0))
    oracle = duckdb.sql(f"""
        with visit as (select server, interaction, arrival, departure, sent, drops from '{path}'),
        event as (
            select server, interaction, arrival // {WINDOW} * {WINDOW} as "window", 1 as a, 0 as d,
                arrival // {WINDOW} * {WINDOW} + {WINDOW} - arrival as area, 0 as response,
                (departure - sent >= 1000000000)::int as vlrt, drops from visit
            union all
            select server, interaction, departure // {WINDOW} * {WINDOW}, 0, 1,
                departure - departure // {WINDOW} * {WINDOW} - {WINDOW}, departure - arrival, 0, 0 from visit),
        cell as (
            select server, interaction, "window", sum(a)::bigint as arrivals, sum(d)::bigint as departures,
                sum(area)::bigint as area, sum(response) / nullif(sum(d), 0) as response_ns_mean,
                sum(vlrt)::bigint as vlrt, sum(drops)::bigint as drops from event group by all),
        run as (
            select *, (coalesce(sum(arrivals - departures) over (partition by server, interaction order by "window"
                rows between unbounded preceding and 1 preceding), 0))::bigint as queue_start from cell)
        select server, interaction, "window", arrivals, departures, queue_start,
            (queue_start * {WINDOW} + area)::bigint as queue_area_ns, response_ns_mean, vlrt, drops
        from run order by server, interaction nulls first, "window" """).pl()
    keys = ["server", "interaction", "window"]
    names = [pl.col("server").cast(pl.String), pl.col("interaction").cast(pl.String)]
    mine = got.with_columns(names).select(oracle.columns).sort(keys)
    assert mine.equals(oracle.with_columns(names).sort(keys))


@given(
    st.lists(st.tuples(st.integers(-30, 60), st.integers(0, 25), st.sampled_from(["a", "b"])), min_size=1, max_size=40),
    st.integers(1, 9),
)
def test_queue_max_equals_a_sweep(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, str]], ms: int
) -> None:
    times = [{"server": s, "sent": a * MS, "arrival": a * MS, "departure": (a + n) * MS} for a, n, s in rows]
    path = tmp_path_factory.mktemp("sweep") / "visits.parquet"
    got = timeline.windows(written(path, visits(*times)), ms * MS)
    for server, window, queue_max in got.select(pl.col("server").cast(pl.String), "window", "queue_max").rows():
        mine = [v for v in times if v["server"] == server]
        instants = list(range(window, window + ms * MS, MS)) + [
            t for v in mine for t in (v["arrival"], v["departure"]) if window <= t < window + ms * MS
        ]
        assert queue_max == max(sum(v["arrival"] <= t < v["departure"] for v in mine) for t in instants)


def test_laws_hold(tmp_path: Path) -> None:
    frame = many()
    got = timeline.windows(written(tmp_path / "visits.parquet", frame), WINDOW)
    spent = frame.select((pl.col("departure") - pl.col("arrival")).sum()).item()
    assert got.get_column("queue_area_ns").sum() == spent
    change = pl.col("queue_start").shift(-1).over("server") - pl.col("queue_start")
    assert got.select((pl.col("arrivals") - pl.col("departures") == change).drop_nulls().all()).item()


def test_any_split_of_the_files_gives_the_same(tmp_path: Path) -> None:
    frame = many()
    whole = timeline.windows(written(tmp_path / "whole", frame), WINDOW, threads=1)
    parts = [written(tmp_path / f"part{i}", frame.gather_every(3, i)) for i in range(3)]
    assert timeline.windows(parts, WINDOW, threads=3).equals(whole)
    assert timeline.windows(parts[::-1], WINDOW).equals(whole)


def test_reads_a_run_folder_however_it_is_named(tmp_path: Path) -> None:
    dataset = run(tmp_path / "run", visits=visits({}, {"server": "db", "departure": T0 + 120 * MS}))
    got = timeline.windows(dataset)
    assert got.equals(timeline.windows(tmp_path / "run"))
    assert got.get_column("server").to_list() == ["db"] * 3 + ["web"] * 3
    assert got.get_column("complete").to_list() == [None] * 6


def test_windows_after_the_first_unfinished_arrival_are_not_complete(tmp_path: Path) -> None:
    path = written(tmp_path / "visits.parquet", visits({}, {"departure": T0 + 120 * MS}))
    got = timeline.windows(path, WINDOW, open_from=T0 - T0 % WINDOW + WINDOW)
    assert got.get_column("complete").to_list() == [True, False, False]


def test_errors_say_what_is_wrong(tmp_path: Path) -> None:
    path = written(tmp_path / "visits.parquet", visits({}))
    with pytest.raises(ValueError, match="1 ms to 10 s, got 999 ns"):
        timeline.windows(path, 999)
    with pytest.raises(ValueError, match="begin must be before end"):
        timeline.windows(path, begin=5, end=5)
    with pytest.raises(FileNotFoundError):
        timeline.windows(tmp_path / "absent.parquet")
    with pytest.raises(ValueError, match="drops must be UInt8, is Int64"):
        timeline.windows(written(tmp_path / "odd.parquet", visits({}).with_columns(pl.col("drops").cast(pl.Int64))))


def test_vlrt_are_counted_when_they_were_sent() -> None:
    frame = requests({}, {"end": T0 + 1_000 * MS}, {"sent": T0 + 60 * MS, "end": T0 + 3_060 * MS})
    start = T0 - T0 % WINDOW
    got = timeline.vlrt_by_sent(frame)
    assert got.rows() == [(start, 2, 1), ((T0 + 60 * MS) // WINDOW * WINDOW, 1, 1)]
    assert timeline.vlrt_by_sent(frame, 1_000 * MS, 2_000 * MS).get_column("vlrt").sum() == 1
    before_epoch = requests({"sent": -1, "end": 1})
    assert timeline.vlrt_by_sent(before_epoch).get_column("window").to_list() == [-WINDOW]
