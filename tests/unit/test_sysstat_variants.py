"""What sar, sadf, pidstat and vmstat print with less usual options."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers

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
