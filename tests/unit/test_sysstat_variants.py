"""What sar, sadf, pidstat and vmstat print with less usual options."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError

HEADER = "Linux 6.1.0 (app1) \t11/20/26 \t_x86_64_\t(2 CPU)\n\n"


def values(path: Path, text: str) -> dict[tuple[str, str], list[float]]:
    path.write_text(text)
    run = readers.read(f"app={path}")
    frame = run.samples().collect().with_columns(pl.col("place", "metric").cast(pl.String)).sort("time")
    assert not run.lost()
    return {
        (str(key[0]), str(key[1])): part["value"].to_list()
        for key, part in frame.group_by("place", "metric", maintain_order=True)
    }


def test_threads_of_pidstat_count_in_their_process(tmp_path: Path) -> None:
    text = HEADER + (
        "16:49:00      UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command\n"
        "16:49:01        0        15        15    0.00    1.00    0.00    0.00    1.00     0  (rcu)__rcu\n"
        "16:49:01        0     25495         -   59.00    0.00    0.00    0.00   59.00     1  python run.py a b\n"
        "16:49:01        0         -     27631   34.00    0.00    0.00    0.00   34.00     1  |__python\n"
        "16:49:01        0         -     27632   25.00    0.00    0.00    0.00   25.00     0  |__python\n"
    )
    assert values(tmp_path / "pidstat.txt", text) == {("app", "cpu_busy"): [0.3]}


def test_rates_of_sar_are_counts_of_their_interval(tmp_path: Path) -> None:
    text = HEADER + (
        "16:49:00       proc/s   cswch/s\n16:49:02        27.72   4000.00\n16:49:04         1.00   5000.00\n\n"
        "16:49:00     pgpgin/s pgpgout/s   fault/s  majflt/s\n16:49:02 0.0 0.0 0.0 1.5\n16:49:04 0.0 0.0 0.0 0.0\n\n"
        "16:49:00     %scpu-10  %scpu-60 %scpu-300     %scpu\n16:49:02 86.0 76.0 73.0 92.0\n16:49:04 1.0 1.0 1.0 2.0\n"
    )
    assert values(tmp_path / "sar.txt", text) == {
        ("app", "context_switches"): [8000.0, 10000.0],
        ("app", "major_faults"): [3.0, 0.0],
        ("app", "psi_cpu"): [0.92, 0.02],
    }


def test_percent_signs_of_sar(tmp_path: Path) -> None:
    text = HEADER + (
        "16:49:00        CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
        "16:49:01        all     19.7%      0.0%     12.3%      4.0%      0.0%     64.0%\n"
        "16:49:02        all     10.0%      0.0%     10.0%      0.0%      0.0%     80.0%\n"
    )
    found = values(tmp_path / "sar.txt", text)
    assert found["app", "cpu_busy"] == pytest.approx([0.32, 0.2])
    assert found["app", "cpu_iowait"] == [0.04, 0.0]


def test_cpus_side_by_side_and_columns_for_each_cpu(tmp_path: Path) -> None:
    stamp = "app1;1;2026-11-20 16:49:0{} UTC"
    text = "# hostname;interval;timestamp;INTR;CPU*[...]\n"
    text += "".join(f"{stamp.format(i)};sum;100.00;60.00;40.00;1;2.00;1.00;1.00\n" for i in (1, 2))
    text += "# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle[...]\n"
    text += f"{stamp.format(1)};-1;20.00;0.00;10.00;0.00;0.00;70.00;0;30.00;0.00;10.00;0.00;0.00;60.00\n"
    found = values(tmp_path / "sar.csv", text)
    assert found["app", "cpu_busy"] == pytest.approx([0.3])
    assert found["app/cpu0", "cpu_busy"] == pytest.approx([0.4])


@pytest.mark.parametrize(
    ("head", "columns", "row", "stamp"),
    [
        (
            "--procs-- ---memory-- --io-- -----timestamp-----",
            "r b free in cs us sy id wa st gu UTC",
            "7 0 5 9 9 68 11 21 0 0 0",
            "",
        ),
        ("procs -----memory---- ---timestamp---", "r b free in cs us sy id wa st", "7 0 5 9 9 68 11 21 0 0", " UTC"),
    ],
)
def test_wide_and_old_reports_of_vmstat(tmp_path: Path, head: str, columns: str, row: str, stamp: str) -> None:
    rows = [f" {row} 2026-11-20 16:49:0{i}{stamp}" for i in range(3)]
    found = values(tmp_path / "vmstat.txt", "\n".join([head, f" {columns}", *rows]) + "\n")
    assert found["app", "cpu_busy"] == [0.79, 0.79]
    assert found["app", "run_queue"] == [7.0, 7.0]


def test_a_table_that_is_not_read_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    text = HEADER + (
        "16:49:00          tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util DEV\n"
        "16:49:10         4.81      4.81     16.04      0.00      4.33      0.06     15.33      6.42 sda\n\n"
        "16:49:00      rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil IFACE\n"
        "16:49:10        22.46      0.00      0.09      0.13      0.00      0.00      0.00     70.00 eth0\n"
        "16:49:10     LINUX RESTART      (2 CPU)\n16:49:10     COM all is well\n"
    )
    assert values(tmp_path / "sar.txt", text) == {("app", "disk_busy"): [0.0642]}


def test_tables_of_pidstat_without_cpu_time_are_left_out(tmp_path: Path) -> None:
    text = HEADER + (
        "16:49:00      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n"
        "16:49:01        0        15   20.00    4.00    0.00    0.00   24.00     0  java\n\n"
        "16:49:00      UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command\n"
        "16:49:01        0        15      3.07      7.00  723868   42156   0.52  java\n"
    )
    assert values(tmp_path / "pidstat.txt", text) == {("app", "cpu_busy"): [0.12]}


def test_the_columns_of_sar_say_when_the_first_interval_began(tmp_path: Path) -> None:
    text = HEADER + (
        "16:49:00     runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked\n"
        "16:49:10           3       100      0.10      0.10      0.10         0\n"
        "16:59:00     LINUX RESTART      (2 CPU)\n\n"
        "17:00:00     runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked\n"
        "17:00:20           4       100      0.10      0.10      0.10         0\n"
    )
    path = tmp_path / "sar.txt"
    path.write_text(text)
    found = readers.read(f"app={path}").samples().collect().sort("time")
    assert found["interval_ns"].to_list() == [10_000_000_000, 20_000_000_000]


def test_colours_of_a_terminal(tmp_path: Path) -> None:
    text = HEADER + (
        "16:49:00        CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
        "16:49:01   \x1b[32;22m     all\x1b[0m\x1b[34;1m     20.00\x1b[0m\x1b[36;22m      0.00\x1b[0m"
        "\x1b[34;1m     12.00\x1b[0m\x1b[34;1m      4.00\x1b[0m 0.00\x1b[34;1m     64.00\x1b[0m\n"
    )
    found = values(tmp_path / "sar.txt", text)
    assert found["app", "cpu_busy"] == pytest.approx([0.32])
    assert found["app", "cpu_iowait"] == [0.04]


def test_disks_of_pretty_iostat(tmp_path: Path) -> None:
    report = "     f/s f_await  aqu-sz  %util Device\n    0.00    0.00    0.01   {}% sda\n    0.0 0.0 0.0 1.0% sdb\n\n"
    stamps = ("11/20/26 16:49:00\n", "11/20/26 16:49:01\n")
    text = HEADER + stamps[0] + report.format("99.0") + stamps[1] + report.format("7.5")
    assert values(tmp_path / "iostat.txt", text) == {("app", "disk_busy"): [0.075]}


def test_json_of_iostat_without_times(tmp_path: Path) -> None:
    entry = '{"avg-cpu": {"user": 1.49, "nice": 0.0, "system": 1.67, "iowait": 0.94, "steal": 0.00, "idle": 95.9}}'
    path = tmp_path / "iostat.json"
    path.write_text(
        '{"sysstat": {"hosts": [{"nodename": "app1", "number-of-cpus": 2, "date": "11/20/26", '
        f'"statistics": [{entry}, {entry}]}}]}}}}'
    )
    with pytest.raises(InputError, match="none of its entries has a time"):
        readers.read(path)


def test_the_clock_of_sar_is_set_back_at_the_end_of_summer_time(tmp_path: Path) -> None:
    rows = [("02:40:00", 1), ("02:50:00", 2), ("02:00:00", 3), ("02:10:00", 4), ("02:50:00", 5)]
    lines = [f"{clock}  {queue}  100  0.10  0.10  0.10  0" for clock, queue in rows]
    text = HEADER + "02:30:00     runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked\n" + "\n".join([*lines, ""])
    path = tmp_path / "sar.txt"
    path.write_text(text)
    run = readers.read(f"app={path}")
    found = run.samples().collect().sort("time")
    assert found["value"].to_list() == [1, 2, 3, 4, 5]
    assert (found["time"].diff().drop_nulls() // 60_000_000_000).to_list() == [10, 10, 10, 40]
    assert any("set back by an hour" in note for note in run.manifest.notes)


def test_rows_of_a_table_without_zone_are_not_moved_if_they_are_only_unordered(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    clocks = ("02:59:58", "02:00:00", "02:59:59", "02:00:01")
    path.write_text("time,host,run_queue\n" + "".join(f"2026-10-25 {clock},app,1\n" for clock in clocks))
    run = readers.read(path)
    assert run.samples().collect()["time"].max() == 1_792_897_199_000_000_000
    assert not any("set back" in note for note in run.manifest.notes)
