"""What tools of the command line print: the same two seconds of one machine, by hand, in the form of each tool."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from polars.testing import assert_frame_equal

from spans_singly import framed
from tailrace import readers
from tailrace.errors import InputError
from tailrace.readers import room
from tailrace.units import SECOND, parse_moment

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FILES = Path(__file__).parents[1] / "golden" / "readers"
T = parse_moment("2026-11-20T16:49:00Z")
BUSY = [(T + SECOND, 0.2), (T + 2 * SECOND, 0.5)]


def values(path: Path | str, metric: str, place: str = "app1") -> list[tuple[int, float]]:
    samples = readers.read(path).samples().with_columns(pl.col("metric", "place").cast(pl.String)).collect()
    found = samples.filter((pl.col("metric") == metric) & (pl.col("place") == place))
    return [(time, value) for time, value in found.select("time", pl.col("value").round(6)).rows()]


@pytest.mark.parametrize(
    "name", ["sar-u", "sar-iso", "mpstat", "pidstat", "pidstat-hH", "iostat-t", "iostat-pm", "iostat-iso", "vmstat-t"]
)
def test_each_tool_shows_the_same_two_seconds(name: str) -> None:
    tool = "vmstat" if name == "vmstat-t" else "sysstat_text"
    path = f"app1={FILES / tool / name}.txt"
    assert values(path, "cpu_busy") == BUSY
    if "pidstat" not in name:
        assert values(path, "cpu_iowait") == [(T + SECOND, 0.04), (T + 2 * SECOND, 0.0)]
        assert values(path, "cpu_steal") == [(T + SECOND, 0.01), (T + 2 * SECOND, 0.0)]
    if "iostat" in name:
        assert values(path, "disk_busy") == [(T + SECOND, 0.625), (T + 2 * SECOND, 0.03)]
    if name == "vmstat-t":
        assert values(path, "run_queue") == [(T + SECOND, 3.0), (T + 2 * SECOND, 9.0)]
    if name == "mpstat":
        assert values(path, "cpu_busy", "app1/cpu0") == [(T + SECOND, 0.4)]


def test_times_before_and_after_noon() -> None:
    midnight, one = parse_moment("2026-11-20T00:00:00Z"), parse_moment("2026-11-20T13:00:01Z")
    assert values(FILES / "sysstat_text" / "sar-pm.txt", "cpu_busy") == [(midnight, 0.2), (one, 0.5)]


def test_a_recording_past_midnight(tmp_path: Path) -> None:
    text = (FILES / "sysstat_text" / "sar-u.txt").read_text()
    (tmp_path / "sar.txt").write_text(text.replace("16:49:01", "23:59:59").replace("16:49:02", "00:00:00"))
    end = parse_moment("2026-11-21T00:00:00Z")
    assert values(tmp_path / "sar.txt", "cpu_busy") == [(end - SECOND, 0.2), (end, 0.5)]


def test_the_busiest_disk_of_sar_counts() -> None:
    assert values(FILES / "sysstat_text" / "sar-d.txt", "disk_busy") == [(T + SECOND, 0.004)]


def test_csv_of_dstat() -> None:
    """The first row has the means since the machine started."""
    late = T + SECOND + 120_000_000
    assert values(FILES / "dstat" / "dstat.csv", "cpu_busy") == [(late, 0.75)]
    assert values(FILES / "dstat" / "dstat.csv", "cpu_iowait") == [(late, 0.05)]


def test_csv_of_dool_with_dates_that_have_no_year() -> None:
    begin = parse_moment("2026-11-27T02:39:12Z")
    recorded = FILES / "dstat" / "recorded-dool.csv"
    assert values(recorded, "cpu_busy") == [(begin, 0.96446), (begin + SECOND, 0.99498)]
    columns = FILES / "dstat" / "recorded-dool-columns.csv"
    early = parse_moment("2026-11-27T03:04:47.428Z")
    assert values(columns, "cpu_busy", "app1/cpu0") == [(early, 1.0), (early + SECOND, 0.98)]
    assert values(columns, "disk_busy") == [(early, 0.088), (early + SECOND, 0.072)]


@pytest.mark.parametrize(
    ("stamps", "read"),
    [
        (("31-12 23:59:59", "01-01 00:00:00"), "2027-01-01T00:00:00Z"),
        (("Dec-31 23:59:59", "Jan-01 00:00:00.250"), "2027-01-01T00:00:00.25Z"),
        (("12-31 23:59:59", "01-01 00:00:00"), "2027-01-01T00:00:00Z"),
        (("2026/12/31 23:59:59", "2027/01/01 00:00:00"), "2027-01-01T00:00:00Z"),
    ],
)
def test_the_date_of_dstat_may_lack_the_year(tmp_path: Path, stamps: tuple[str, str], read: str) -> None:
    lines = [
        '"Dstat 0.7.4 CSV output"',
        '"Host:","app1",,,,"User:","root"',
        '"Cmdline:","dstat -tc --output cpu.csv 1 3",,,,"Date:","31 Dec 2026 23:59:58 CET"',
        '"system","total cpu usage",,,,,',
        '"time","usr","sys","idl","wai","hiq","siq"',
        f"{stamps[0]},12.5,3.5,80.0,4.0,0.0,0.0",
        f"{stamps[1]},50.0,25.0,20.0,5.0,0.0,0.0",
        "99-99 00:00:01,50.0,25.0,20.0,5.0,0.0,0.0",
    ]
    (tmp_path / "cpu.csv").write_text("\n".join(lines) + "\n")
    run = readers.read(tmp_path / "cpu.csv")
    assert values(tmp_path / "cpu.csv", "cpu_busy") == [(parse_moment(read), 0.75)]
    assert any("in CET and are taken as UTC" in note for note in run.manifest.notes)
    assert run.lost() == {"cpu.csv: damaged lines": 1}


@pytest.mark.parametrize(("name", "place"), [("rates", "host"), ("extended-counters", "app1")])
def test_csv_of_pmrep(name: str, place: str) -> None:
    """Two CPUs: what is busy, of all their milliseconds. Counters give the same as rates."""
    file = FILES / "pmrep" / f"{name}.csv"
    assert values(file, "cpu_busy", place) == [(T + SECOND, 0.195), (T + 2 * SECOND, 0.49)]
    assert values(file, "cpu_busy", f"{place}/cpu0") == [(T + SECOND, 0.25), (T + 2 * SECOND, 0.7)]
    assert values(file, "cpu_iowait", f"{place}/cpu0") == []
    assert values(file, "disk_busy", place) == [(T + SECOND, 0.0684), (T + 2 * SECOND, 0.7)]
    assert values(file, "context_switches", place) == [(T + SECOND, 471.0), (T + 2 * SECOND, 900.0)]
    assert values(file, "run_queue", place) == [(T, 2.0), (T + SECOND, 3.0), (T + 2 * SECOND, 5.0)]


def test_pmrep_in_seconds_without_cpus_or_without_dates(tmp_path: Path) -> None:
    lines = (FILES / "pmrep" / "rates.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines[1:]]

    def written(cells: list[list[str]], head: str = lines[0]) -> Path:
        (tmp_path / "p.csv").write_text("\n".join([head, *map(",".join, cells)]) + "\n")
        return tmp_path / "p.csv"

    seconds = [[row[0], *(f"{float(cell) / 1000}" if cell else "" for cell in row[1:])] for row in rows]
    assert values(written(seconds), "disk_busy", "host") == values(FILES / "pmrep" / "rates.csv", "disk_busy", "host")
    disks = [[row[0], row[10], row[12]] for row in rows]
    alone = written(disks, 'Time,"kernel.all.runnable","disk.dev.avactive-sda"')
    assert values(alone, "disk_busy", "host") == []
    with pytest.raises(InputError, match="whose time has a date"):
        readers.read(written([[row[0][11:], *row[1:]] for row in rows]))
    with pytest.raises(InputError, match="rates or counters"):
        readers.read(written(rows[1:]))


def test_the_report_since_the_start_of_the_machine_is_left_out() -> None:
    """These were recorded at once; the first report of each tool covers eleven hours."""
    busy = values(FILES / "sadf" / "iostat.json", "cpu_busy", "vm")
    assert busy == values(FILES / "sysstat_text" / "recorded-iostat.txt", "cpu_busy", "vm")
    assert busy[0] == (parse_moment("2026-11-26T04:22:49Z"), 0.995)
    assert values(FILES / "atop" / "atop.txt", "cpu_busy", "vm")[0] == busy[0]
    assert values(FILES / "sadf" / "mpstat.json", "cpu_busy", "vm")[0] == busy[0]


def test_a_tool_that_prints_no_host_has_the_place_host() -> None:
    assert values(FILES / "vmstat" / "vmstat-t.txt", "cpu_busy", "host") == BUSY


@pytest.mark.parametrize("packed", ["", "zstd", "json", "frames"])
def test_metrics_of_otlp_in_messages_show_the_same_as_lines_of_json(packed: str, tmp_path: Path) -> None:
    lines = (FILES / "otlpmetrics" / "metrics.jsonl").read_text().splitlines()
    messages = [ParseDict(json.loads(line), MetricsData()).SerializeToString() for line in lines]
    if packed == "frames":
        messages = [zstd.compress(b"") + zstd.compress(m[:9]) + zstd.compress(m[9:]) for m in messages]
    elif packed:
        messages = [
            zstd.compress(line.encode() if packed == "json" else m) for line, m in zip(lines, messages, strict=True)
        ]
    (tmp_path / "metrics.otlp").write_bytes(framed([*messages, b"\x0a\x05ab", b"\x28\xb5\x2f\xfdx"]))
    run, expected = (
        readers.read(path) for path in (tmp_path / "metrics.otlp", FILES / "otlpmetrics" / "metrics.jsonl")
    )
    assert_frame_equal(run.samples().collect(), expected.samples().collect())
    assert run.lost()["metrics.otlp: damaged elements"] == 2


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("prometheus/node.json", "10.0.0.3:9100"),
        ("openmetrics/node.txt", "10.0.0.3:9100"),
        ("influx/telegraf.lp", "app1"),
        ("influx/telegraf.json", "app1"),
        ("otlpmetrics/metrics.jsonl", "app1"),
    ],
)
def test_counters_of_each_monitoring_system_show_the_same_two_seconds(file: str, place: str) -> None:
    path = FILES / file
    assert values(path, "cpu_busy", place) == BUSY
    assert values(path, "cpu_busy", f"{place}/cpu0") == [(T + SECOND, 0.3), (T + 2 * SECOND, 0.75)]
    assert values(path, "cpu_iowait", place) == [(T + SECOND, 0.04), (T + 2 * SECOND, 0.0)]
    assert values(path, "cpu_steal", place) == [(T + SECOND, 0.01), (T + 2 * SECOND, 0.0)]
    assert values(path, "disk_busy", place) == [(T + SECOND, 0.625), (T + 2 * SECOND, 0.03)]
    if "otlp" in file:
        assert values(path, "gc_share", place) == [(T + SECOND, 0.25), (T + 2 * SECOND, 0.05)]
    else:
        assert values(path, "run_queue", place) == [(T, 6.0), (T + SECOND, 3.0), (T + 2 * SECOND, 9.0)]
        assert values(path, "listen_drops", place) == [(T + SECOND, 0.0), (T + 2 * SECOND, 12.0)]
        assert values(path, "syn_retransmits", place) == [(T + SECOND, 0.0), (T + 2 * SECOND, 2.0)]
        assert values(path, "context_switches", place) == [(T + SECOND, 1000.0), (T + 2 * SECOND, 2000.0)]


def test_a_counter_that_was_reset_gives_no_sample_there(tmp_path: Path) -> None:
    lines = [f"node_context_switches_total {value} {1795193340 + i}" for i, value in enumerate((10, 30, 5, 9))]
    (tmp_path / "metrics.txt").write_text("\n".join([*lines, ""]))
    assert values(tmp_path / "metrics.txt", "context_switches", "prometheus") == [
        (T + SECOND, 20.0),
        (T + 3 * SECOND, 4.0),
    ]


def test_the_periods_in_which_a_container_was_throttled(tmp_path: Path) -> None:
    lines = [
        f'container_cpu_cfs_{name}periods_total{{pod="app-1",container="app"}} {value * (i + 1)} {1795193340 + 15 * i}'
        for name, value in (("", 150), ("throttled_", 30))
        for i in range(2)
    ]
    (tmp_path / "metrics.txt").write_text("\n".join([*lines, ""]))
    assert values(tmp_path / "metrics.txt", "cpu_throttled", "app-1") == [(T + 15 * SECOND, 0.2)]


def test_a_header_with_a_million_spaces_takes_no_time(tmp_path: Path) -> None:
    text = (FILES / "sysstat_text" / "sar-u.txt").read_text()
    (tmp_path / "sar.txt").write_text(text + "Linux 6.1 (app1) 11/20/26 " + " " * 900_000 + "x\n")
    assert values(tmp_path / "sar.txt", "cpu_busy") == BUSY


def test_events_and_disks_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "samples", lambda: 64)
    line = "{s}.000000 app1 kernel: nf_conntrack: nf_conntrack: table full, dropping packet\n"
    (tmp_path / "kernel").write_text("".join(line.format(s=1795193340 + n) for n in range(9)))
    run = readers.read(tmp_path / "kernel")
    assert run.manifest.rows["events"] == 2
    disk = "DSK app1 {s} 2026/11/20 16:49:00 1 vda 625 0 0 0 0\n"
    (tmp_path / "atop").write_text("".join(disk.format(s=1795193340 + n) for n in range(99)))
    assert readers.read(tmp_path / "atop").manifest.rows["samples"] == 16


@pytest.mark.parametrize(
    "lines",
    [
        ["node_context_switches_total {n}0 {s}"],
        ["kernel,host=app1 context_switches={n}0i {s}000000000"],
        ["{s}", "TcpExtListenDrops {n} 0.0"],
    ],
)
def test_values_of_counters_are_bounded_and_a_note_says_so(
    lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "samples", lambda: 64)
    text = "\n".join(line.format(n=n, s=1795193340 + n) for n in range(1, 50) for line in lines)
    (tmp_path / "values").write_text(text)
    run = readers.read(tmp_path / "values")
    assert run.manifest.rows["samples"] == 15, "of the growth between 16 values"
    assert any("16 values were read" in note for note in run.manifest.notes)


def test_percentages_of_telegraf_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "samples", lambda: 64)
    line = "cpu,cpu=cpu-total,host=app1 usage_idle=75 {s}000000000"
    (tmp_path / "cpu").write_text("\n".join(line.format(s=1795193340 + n) for n in range(99)))
    run = readers.read(tmp_path / "cpu")
    assert run.manifest.rows["samples"] == 66, "of 22 lines"
    assert any("64 samples were read" in note for note in run.manifest.notes)


@pytest.mark.parametrize(("suffix", "metric"), [("/cpu0", "cpu_busy"), ("", "cpu_busy"), ("", "disk_busy")])
def test_counters_that_jump_by_damage_show_no_full_cpu_or_disk(tmp_path: Path, suffix: str, metric: str) -> None:
    lines = []
    for second in range(4):
        jump = 10**9 if second == 2 else 0
        for core in ("0", "1"):
            lines += [
                f'node_cpu_seconds_total{{cpu="{core}",mode="user"}} {second * 0.5 + jump} {1795193340 + second}',
                f'node_cpu_seconds_total{{cpu="{core}",mode="idle"}} {second * 0.5} {1795193340 + second}',
            ]
        lines.append(f'node_disk_io_time_seconds_total{{device="sda"}} {second * 0.5 + jump} {1795193340 + second}')
    (tmp_path / "node.txt").write_text("# TYPE node_cpu_seconds_total counter\n" + "\n".join(lines) + "\n# EOF\n")
    found = values(f"app={tmp_path / 'node.txt'}", metric, f"app{suffix}")
    assert [value for _, value in found] == [0.5]


def test_seconds_of_all_cpus_together_are_shares_of_their_whole(tmp_path: Path) -> None:
    """`sum by (mode)` of four CPUs: 3 busy seconds of 4 in each second."""
    lines = [
        f'node_cpu_seconds_total{{mode="{mode}"}} {second * rate} {1795193340 + second}'
        for second in range(3)
        for mode, rate in (("user", 2.5), ("system", 0.5), ("idle", 0.8), ("iowait", 0.2))
    ]
    (tmp_path / "node.txt").write_text("# TYPE node_cpu_seconds_total counter\n" + "\n".join(lines) + "\n# EOF\n")
    found = values(f"app={tmp_path / 'node.txt'}", "cpu_busy", "app")
    assert [value for _, value in found] == [0.75, 0.75]


SAR_OF_GERMANY = """Linux 6.1.0 (app1) \t20.11.2026 \t_x86_64_\t(2 CPU)

16:48:59        CPU     %user     %nice   %system   %iowait    %steal     %idle
16:49:00        all     19,50      0,00      0,50      4,00      1,00     75,00
Durchschn.:     all     12,50      0,00      7,50      4,00      1,00     75,00
"""


@pytest.mark.parametrize(
    "text",
    [
        SAR_OF_GERMANY,
        "".join(
            f"app1\t1\t2026-11-20 16:49:00 UTC\t{device}\t{column}\t{value}\n"
            for device, column, value in (
                *(("all", "%user", "19.50"), ("all", "%system", "0.50"), ("all", "%idle", "80.00")),
                *(("cpu0", "%user", "99.00"), ("-", "runq-sz", "3"), ("sda", "%util", "12.00")),
            )
        ),
        "time;host;cpu_busy\n1795193340;app1;0,2\n1795193341;app1;0,3\n",
        "time;place;metric;value\n1795193340;app1;cpu_busy;0,2\n1795193341;app1;cpu_busy;0,3\n",
    ],
    ids=["sar", "sadf-p", "wide", "samples"],
)
def test_decimal_commas_and_a_line_for_each_value(tmp_path: Path, text: str) -> None:
    (tmp_path / "samples.txt").write_text(text)
    assert values(tmp_path / "samples.txt", "cpu_busy")[0] == (1_795_193_340 * SECOND, 0.2)
    if "\t-\t" in text:
        assert values(tmp_path / "samples.txt", "disk_busy") == [(1_795_193_340 * SECOND, 0.12)]
        assert values(tmp_path / "samples.txt", "cpu_busy", "app1/cpu0") == [(1_795_193_340 * SECOND, 0.99)]


def test_pressure_of_sadf_is_that_of_the_interval(tmp_path: Path) -> None:
    head = "# hostname;interval;timestamp;%scpu-10;%scpu-60;%scpu-300;%scpu\n"
    (tmp_path / "psi.csv").write_text(head + "app1;1;2026-11-20 16:49:00 UTC;90.00;80.00;70.00;20.00\n")
    assert values(tmp_path / "psi.csv", "psi_cpu") == [(1_795_193_340 * SECOND, 0.2)]
