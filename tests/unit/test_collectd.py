"""Files of collectd's csv plugin beyond those of its CPUs, by hand; damaged ones, too."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.units import SECOND, parse_moment

T = parse_moment("2026-11-20T16:49:00Z")
START = 1795193340


def write(folder: Path, name: str, header: str, *rows: str) -> Path:
    """A file of which row n ends n seconds after T."""
    path = folder / "app1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"epoch,{header}\n" + "".join(f"{START + n}.000,{row}\n" for n, row in enumerate(rows)))
    return path


def values(run: Dataset, metric: str, place: str = "app1") -> list[tuple[int, float]]:
    samples = run.samples().with_columns(pl.col("metric", "place").cast(pl.String)).collect()
    found = samples.filter((pl.col("metric") == metric) & (pl.col("place") == place)).sort("time")
    return [((time - T) // SECOND, value) for time, value in found.select("time", "value").rows()]


def test_counters_as_they_are_and_rates_give_the_same_samples(tmp_path: Path) -> None:
    counters = [
        write(tmp_path / "raw", "contextswitch/contextswitch-2026-11-20", "value", "5000", "5600", "6800"),
        write(
            tmp_path / "raw", "disk-vda/disk_io_time-2026-11-20", "io_time,weighted_io_time", "10,0", "260,9", "760,9"
        ),
        write(
            tmp_path / "raw", "disk-vdb/disk_io_time-2026-11-20", "io_time,weighted_io_time", "0,0", "300,9", "310,9"
        ),
        write(tmp_path / "raw", "cpu-0/cpu-idle-2026-11-20", "value", "900000", "900080", "900130"),
        write(tmp_path / "raw", "cpu-0/cpu-wait-2026-11-20", "value", "100", "105", "105"),
    ]
    rates = [
        write(tmp_path / "rate", "contextswitch/contextswitch-2026-11-20", "value", "nan", "600.0", "1200.0"),
        write(
            tmp_path / "rate",
            "disk-vda/disk_io_time-2026-11-20",
            "io_time,weighted_io_time",
            "1.0,0",
            "250.0,0",
            "500.0,9",
        ),
        write(
            tmp_path / "rate",
            "disk-vdb/disk_io_time-2026-11-20",
            "io_time,weighted_io_time",
            "1.0,0",
            "300.0,0",
            "10.0,9",
        ),
        write(tmp_path / "rate", "cpu-0/cpu-idle-2026-11-20", "value", "nan", "80.0", "50.0"),
        write(tmp_path / "rate", "cpu-0/cpu-wait-2026-11-20", "value", "nan", "5.0", "0.0"),
    ]
    run = readers.read(*counters)
    assert values(run, "context_switches") == [(1, 600.0), (2, 1200.0)]
    assert values(run, "disk_busy") == [(1, 0.3), (2, 0.5)]
    assert values(run, "cpu_busy", "app1/cpu0") == [(1, 0.15), (2, 0.5)]
    rated = readers.read(*rates)
    assert values(rated, "context_switches") == [(2, 1200.0)]
    assert values(rated, "disk_busy") == [(1, 0.3), (2, 0.5)]
    assert values(rated, "cpu_busy", "app1/cpu0") == [(1, 0.15), (2, 0.5)]


def test_the_run_queue_faults_and_drops(tmp_path: Path) -> None:
    run = readers.read(
        write(tmp_path, "processes/ps_state-running-2026-11-20", "value", "3.000000", "7.000000"),
        write(tmp_path, "vmem/vmpage_faults-2026-11-20", "minflt,majflt", "900,5", "999,8"),
        write(tmp_path, "protocols-TcpExt/protocol_counter-ListenDrops-2026-11-20", "value", "100", "112"),
        write(tmp_path, "protocols-TcpExt/protocol_counter-TCPSynRetrans-2026-11-20", "value", "7", "9"),
        write(tmp_path, "load/load-2026-11-20", "shortterm,midterm,longterm", "1.0,1.0,1.0"),
    )
    assert values(run, "run_queue") == [(0, 3.0), (1, 7.0)]
    assert [values(run, name) for name in ("major_faults", "listen_drops", "syn_retransmits")] == [
        [(1, 3.0)],
        [(1, 12.0)],
        [(1, 2.0)],
    ]
    assert any("left out: load/load" in note for note in run.manifest.notes)


def test_damaged_files(tmp_path: Path) -> None:
    """Times without order, a counter that falls, numbers without end, columns too many, and a cut line."""
    path = write(tmp_path, "contextswitch/contextswitch-2026-11-20", "value", "100", "150")
    with path.open("a") as file:
        file.write(f"{START + 4}.000,20\n{START + 3}.000,10\n{START + 5}.000,{'9' * 400}\n{START + 6}.000,1,2\n17951")
    run = readers.read(path)
    assert values(run, "context_switches") == [(1, 50.0), (4, 10.0)]
    assert run.lost() == {
        "contextswitch-2026-11-20: damaged lines": 2,
        "contextswitch-2026-11-20: last lines that were cut off": 1,
    }


def test_a_cut_file_of_iowait_makes_no_cpu_busy(tmp_path: Path) -> None:
    run = readers.read(
        write(tmp_path, "cpu-0/percent-idle-2026-11-20", "value", "90.0", "20.0"),
        write(tmp_path, "cpu-0/percent-wait-2026-11-20", "value", "5.0"),
    )
    assert values(run, "cpu_busy", "app1/cpu0") == [(0, 0.05)]
    assert sum(run.lost().values()) == 1


def test_another_column_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no usable value in it"):
        readers.read(write(tmp_path, "disk-vda/disk_io_time-2026-11-20", "read,write", "1,2", "2,3"))
