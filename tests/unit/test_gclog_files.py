"""Several files of a JVM, several runs in a file, logs without a wall clock, and malicious lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError, UsageError
from tailrace.readers import gclog
from tailrace.readers.source import Found, Source
from tailrace.units import MILLISECOND, SECOND, parse_moment

START = parse_moment("2026-11-20T16:49:00Z")


def old(uptime: float, seconds: float) -> str:
    return f"{uptime:.3f}: [GC (Allocation Failure) [PSYoungGen: 9K->1K(9K)] 9K->1K(99K), {seconds:.7f} secs]\n"


def dated(second: int, seconds: float) -> str:
    return f"2026-11-20T16:49:{second:02d}.000+0000: " + old(second, seconds)


def unified(second: int, gc: int, ms: float) -> str:
    return f"[2026-11-20T16:49:{second:02d}.000+0000][gc] GC({gc}) Pause Young (Normal) 150M->14M(494M) {ms:.3f}ms\n"


def written(folder: Path, files: dict[str, str], began: tuple[int, ...] = ()) -> list[Source]:
    for name, text in files.items():
        (folder / name).write_text(text)
    return [Source(folder / name, None, began) for name in files]


def rows(found: Found) -> list[tuple[int, int]]:
    """Begin and length."""
    return [(begin, end - begin) for frame in found.events for _, begin, end, _ in frame.rows()]


def test_rotated_files_are_one_log_in_any_order_and_what_stands_twice_counts_once(tmp_path: Path) -> None:
    lines = [dated(second, second / 100) for second in range(1, 7)]
    files = {"gc.log.0": "".join(lines[:3]), "gc.log.1": "".join(lines[2:5]), "gc.log.2.current": "".join(lines[4:])}
    sources = written(tmp_path, files)
    assert len({gclog.together(source) for source in sources}) == 1
    right = [(START + second * SECOND, second * 10 * MILLISECOND) for second in range(1, 7)]
    for order in permutations(sources):
        assert rows(gclog.read(order)) == right


def test_equal_pauses_within_one_file_are_two(tmp_path: Path) -> None:
    line = unified(5, 1, 0.02)
    [source] = written(tmp_path, {"gc.log": line + line})
    assert [length for _, length in rows(gclog.read([source]))] == [20_000, 20_000]


def test_a_record_that_is_cut_between_two_files_is_whole(tmp_path: Path) -> None:
    text = dated(1, 0.5) + dated(2, 0.25)
    cut = text.index("9K->1K(99K), 0.25")
    files = {"gc.log.1": text[cut:], "gc.log.0": text[:cut]}
    sources = written(tmp_path, files)
    assert [length for _, length in rows(gclog.read(sources))] == [SECOND // 2, SECOND // 4]


def test_logs_of_two_jvms_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(unified(5, 1, 900.0))
    (tmp_path / "two.log").write_text(unified(5, 1, 800.0))
    run = readers.read(f"a={tmp_path / 'one.log'}", f"b={tmp_path / 'two.log'}", out=tmp_path / "run")
    assert sorted(run.events().collect().get_column("place").cast(pl.String).to_list()) == ["a", "b"]


def test_began_dates_a_log_that_counts_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "gc.log").write_text(old(33.703, 0.25) + old(40.0, 0.5))
    log = f"app={tmp_path / 'gc.log'}"
    for began in ("app=2026-11-20T16:49:00Z", "2026-11-20T17:49:00+01:00", "gc.log=1795193340"):
        run = readers.read(log, began=[began], out=tmp_path / "run", overwrite=True)
        begins = run.events().collect().get_column("begin").to_list()
        assert begins == [START + 33_703 * MILLISECOND, START + 40 * SECOND]
        assert any("2026-11-20T16:49:00.000Z from --began" in note for note in run.manifest.notes)
    with pytest.raises(InputError, match=r"pass it with --began app=.*, or log with"):
        readers.read(log, out=tmp_path / "other")
    with pytest.raises(UsageError, match=r"there is no JVM log and no load test of db; these are app, gc.log"):
        readers.read(log, began=["db=2026-11-20T16:49:00Z"])
    for wrong in ("yesterday", "1e30", "9999-01-01T00:00:00Z", "-1", "nan"):
        with pytest.raises(UsageError, match="expected the moment when it started"):
            readers.read(log, began=[f"app={wrong}"])


def test_each_run_of_a_jvm_without_a_wall_clock_has_a_start_of_its_own(tmp_path: Path) -> None:
    text = old(1.5, 0.1) + old(90.0, 0.2) + old(1.25, 0.3)
    second = START + 3600 * SECOND
    right = [START + 1500 * MILLISECOND, START + 90 * SECOND, second + 1250 * MILLISECOND]
    found = gclog.read(written(tmp_path, {"gc.log": text}, (START, second)))
    assert [begin for begin, _ in rows(found)] == right
    found = gclog.read(written(tmp_path, {"gc.log": text}, (START,)))
    assert [begin for begin, _ in rows(found)] == right[:2]
    assert found.lost == {"stops without a wall clock": 1}


def test_rotated_files_without_a_wall_clock_go_on_from_each_other(tmp_path: Path) -> None:
    first, second = old(10.0, 0.1) + old(20.0, 0.2), old(20.0, 0.2) + old(30.0, 0.3)
    found = gclog.read(written(tmp_path, {"gc.log.1": second, "gc.log.0": first}, (START,)))
    assert rows(found) == [(START + 10 * n * SECOND, n * 100 * MILLISECOND) for n in (1, 2, 3)]


def test_a_log_without_any_stamp_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no time stamp; log with -Xlog"):
        gclog.read(written(tmp_path, {"gc.log": "[GC 325407K->83000K(776768K), 0.2300771 secs]\n"}))


def test_a_stop_that_is_mostly_no_collection_is_a_safepoint(tmp_path: Path) -> None:
    text = (
        "[2026-11-20T16:49:05.000+0000][gc] GC(1) Pause Young (Normal) 150M->14M(494M) 20.000ms\n"
        '[2026-11-20T16:49:05.000+0000][safepoint] Safepoint "G1CollectForAllocation", Time since last: 1 ns, '
        "Reaching safepoint: 2980000000 ns, At safepoint: 20000000 ns, Total: 3000000000 ns\n"
    )
    found = gclog.read(written(tmp_path, {"gc.log": text}))
    [(kind, begin, end, detail)] = [row for frame in found.events for row in frame.rows()]
    assert (kind, end - begin, detail) == ("safepoint", 3 * SECOND, "Pause Young (Normal)")
    [note] = found.notes
    assert "add up to 20 ms, the stops of all threads that it reports to 3 s, 99 % apart" in note


def test_a_header_of_another_age_dates_nothing(tmp_path: Path) -> None:
    for date in ("9998-01-20 07:15:00", "0000-99-99 99:99:99"):
        text = f"{date} GC log file created gc.log.0\n" + old(3.5, 0.1)
        with pytest.raises(InputError, match="the log does not say when that was"):
            gclog.read(written(tmp_path, {"gc.log": text}))


def test_a_stop_without_a_known_time_is_counted_and_not_guessed(tmp_path: Path) -> None:
    stop = "Total time for which application threads were stopped: {} seconds\n"
    text = dated(5, 0.25) + stop.format("0.2503000") + stop.format("0.0400000") + dated(7, 0.25)
    found = gclog.read(written(tmp_path, {"gc.log": text}))
    assert [length for _, length in rows(found)] == [250_300_000, 250_000_000]
    assert found.lost == {"stops without a time stamp": 1}
    assert any("near which nothing else has one: 1, together 0.0400 s" in note for note in found.notes)


def test_collections_are_found_behind_what_an_application_server_prints(tmp_path: Path) -> None:
    text = "20-Nov-2026 16:49:00.000 INFO [main] org.apache.catalina.startup deployed\n" * 2000 + dated(5, 0.25)
    (tmp_path / "catalina.out").write_text(text)
    run = readers.read(f"app={tmp_path / 'catalina.out'}", out=tmp_path / "run")
    assert run.events().collect().get_column("begin").to_list() == [START + 5 * SECOND]


PREFIXED = {
    "kubectl logs --timestamps": "2026-11-20T16:49:09.123456789Z {}",
    "kubectl logs --prefix": "[pod/app-7d9f-x2/app] {}",
    "docker compose logs": "app-1  | {}",
    "docker's json-file": '{{"log":{json},"stream":"stdout","time":"2026-11-20T16:49:09.1Z"}}',
    "containerd": "2026-11-20T16:49:09.123456789Z stdout F {}",
    "journalctl": "Nov 20 16:49:09 host java[1234]: {}",
    "journalctl -o json": '{{"MESSAGE":{json},"_HOSTNAME":"host"}}',
    "syslog": "<134>1 2026-11-20T16:49:09.123Z host java 1234 - - {}",
    "fluentd": '2026-11-20 16:49:09 +0000 app.gc: {{"log":{json}}}',
    "Java Service Wrapper": "INFO   | jvm 1    | 2026/11/20 16:49:09 | {}",
    "a coloured terminal": "\x1b[36mapp-1  |\x1b[0m {}",
    "grep -n": "gc.log:7:{}",
}


@pytest.mark.parametrize("prefix", PREFIXED.values(), ids=PREFIXED)
def test_what_ships_a_log_changes_no_pause(prefix: str, tmp_path: Path) -> None:
    for number, line in enumerate((dated(5, 0.25), unified(5, 1, 250))):
        shipped = prefix.format(line[:-1], json=json.dumps(line)) + "\n"
        [source] = written(tmp_path, {f"{number}.log": shipped})
        begin = START + 5 * SECOND - number * 250 * MILLISECOND  # unified logging stamps the end
        assert rows(gclog.read([source])) == [(begin, 250 * MILLISECOND)]


def test_a_stall_of_one_thread_is_no_stop_of_the_application(tmp_path: Path) -> None:
    text = "[2026-11-20T16:49:05.000+0000][gc] Allocation Stall (worker [1] (a)) 51.000ms\n" + unified(6, 1, 1.0)
    found = gclog.read(written(tmp_path, {"gc.log": text}))
    assert [row[0] for frame in found.events for row in frame.rows()] == ["allocation_stall", "gc"]


def test_brackets_of_something_else_within_a_record_do_not_end_it(tmp_path: Path) -> None:
    text = (
        "2026-11-20T16:49:05.000+0000: 5.000: [Full GC (System.gc()) [Tenured: WARN [main that is left open\n"
        "[http-1] done] : 9K->1K(99K), 0.2500000 secs] 9K->1K(99K), 0.2600000 secs] [Times: user=0.26 real=0.26 secs]\n"
    )
    found = rows(gclog.read(written(tmp_path, {"gc.log": text + dated(7, 0.1)})))
    assert found == [(START + 5 * SECOND, 260 * MILLISECOND), (START + 7 * SECOND, 100 * MILLISECOND)]


@pytest.mark.parametrize(
    "piece",
    ["[a]", "[", "]", "[GC ", "[GC 1", "1.", "[0x", '{"a":', "GC(1) Pause A 1M->x", "[Pause Init ", "1: 1 1 ", "a "],
)
def test_a_long_line_takes_time_in_proportion(piece: str, tmp_path: Path) -> None:
    """A line of 120 kB, eight times: a regular expression with backtracking took hours."""
    line = piece * (120_000 // len(piece))
    (tmp_path / "gc.log").write_text((f"[GC {line} secs]\n{line}\n") * 4 + dated(5, 0.1))
    code = (
        "import sys, pathlib; from tailrace import readers\n"
        "source = readers.Source(pathlib.Path(sys.argv[1]), 'app')\n"
        "[reader.sniff('gc.log', source.head()) for reader in readers.READERS]\n"
        "from tailrace.readers import gclog; gclog.read([source])\n"
    )
    here = {**os.environ, "PYTHONPATH": str(Path(readers.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "gc.log")], check=True, timeout=120, env=here)
