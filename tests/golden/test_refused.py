"""Files that no reader reads: the errors, and a test that the commands in them make samples."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError
from tailrace.units import SECOND, parse_moment

FILES = Path(__file__).parent / "refused"
T = parse_moment("2026-11-20T16:49:00Z")
BUSY = [(T + SECOND, 0.2), (T + 2 * SECOND, 0.5)]
# The output of atop and sadf for these commands, on a machine with two processors.
ATOP = (
    "RESET\n"
    "CPU app1 1795193340 2026/11/20 16:49:00 4207 100 2 70298 404494 346796 16553 533 0 665 1444 0 5192 100 0 0\nSEP\n"
    "CPU app1 1795193341 2026/11/20 16:49:01 1 100 2 14 24 1 150 8 0 1 2 0 5192 100 0 0\nSEP\n"
    "CPU app1 1795193342 2026/11/20 16:49:02 1 100 2 20 80 0 100 0 0 0 0 0 5192 100 0 0\nSEP\n"
)
SADF = (
    "# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n"
    "app1;1;1795193341;-1;12.50;0.50;7.00;4.00;1.00;75.00\napp1;1;1795193342;-1;40.00;0.00;10.00;0.00;0.00;50.00\n"
)


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        readers.read(f"app1={path}")
    return caught.value


def converted(error: InputError, folder: Path, *, programs: dict[str, str] | None = None) -> pl.DataFrame:
    """The samples that the two commands of an error make, with stand-ins for programs that may be missing here."""
    for name, output in (programs or {}).items():
        (folder / f"{name}.txt").write_text(output)
        (folder / name).write_text(f"#!/bin/sh\ncat {shlex.quote(str(folder / name))}.txt\n")
        (folder / name).chmod(0o755)
    search = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    convert, read = error.commands
    subprocess.run(convert, shell=True, cwd=folder, check=True, env=search)
    [_, _, file, *_] = shlex.split(read)
    place, _, name = file.rpartition("=")
    samples = readers.read(f"{place}{'=' if place else ''}{folder / name}").samples().collect()
    return samples.with_columns(pl.col("metric", "place").cast(pl.String))


def values(samples: pl.DataFrame, metric: str) -> list[tuple[int, float]]:
    rows = samples.filter(pl.col("metric") == metric).select("time", pl.col("value").round(6)).rows()
    return [(time, value) for time, value in rows]


def test_the_command_makes_samples_of_what_top_prints(tmp_path: Path) -> None:
    error = refusal(FILES / "top.txt")
    assert "this is what top -b prints: '" in str(error)
    assert "a table of time, place, metric and value" in str(error)
    samples = converted(error, tmp_path)
    assert values(samples, "cpu_busy") == BUSY
    assert set(samples.get_column("place")) == {"app1"}
    assert values(samples, "cpu_iowait") == [(T + SECOND, 0.04), (T + 2 * SECOND, 0.0)]
    assert values(samples, "cpu_steal") == [(T + SECOND, 0.01), (T + 2 * SECOND, 0.0)]


@pytest.mark.parametrize(
    ("magic", "program", "output"), [(b"\x96\xd5u!", "sadf", SADF), (b"\xef\xbe\xed\xfe\x08", "atop", ATOP)]
)
def test_files_of_sar_and_atop(magic: bytes, program: str, output: str, tmp_path: Path) -> None:
    (tmp_path / "it's a file").write_bytes(magic + b"\x00" * 500)
    error = refusal(tmp_path / "it's a file")
    samples = converted(error, tmp_path, programs={program: output})
    assert values(samples, "cpu_busy") == BUSY
    assert set(samples.get_column("interval_ns")) == {SECOND}


def test_a_table_with_a_column_for_each_metric(tmp_path: Path) -> None:
    error = refusal(FILES / "wide.csv")
    assert "its columns are timestamp, host, fans, doors, one for each metric" in str(error)
    samples = converted(error, tmp_path)
    assert samples.select("time", "metric", "value").rows() == [
        (T, "fans", 0.25),
        (T, "doors", 3.0),
        (T + SECOND, "fans", 0.5),
    ]


@pytest.mark.parametrize(
    ("name", "said", "command"),
    [
        ("iostat.txt", "record with -t", "iostat -xt 1 60 > disks.txt"),
        ("vmstat.txt", "record with -t", "vmstat -nt 1 60 > vmstat.txt"),
        ("access.log", "an access log without durations", "log_format timed '$remote_addr"),
        ("metrics.prom", "the history is in Prometheus", "curl -G http://localhost:9090/api/v1/query_range"),
        ("spans.json", "a trace in a form of JSON that Tailrace does not read", ""),
        ("packets.txt", "packets as text", "tcpdump"),
        ("openj9.xml", "of OpenJ9", ""),
        ("app.log", r"it begins with '2026-11-20 16:49:00 WARN [main] o.e.shop.Basket - slow'", ""),
    ],
)
def test_the_errors_for_other_files(name: str, said: str, command: str) -> None:
    error = refusal(FILES / name)
    assert said in str(error)
    assert "\n".join(error.commands).startswith(command)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04\x14\x00\x00", "a zip archive"),
        (b"\xfd7zXZ\x00\x00", "compressed with xz"),
        (b"FLR\x00\x00\x02", "Flight Recorder"),
        (b"name" + b"\x00" * 253 + b"ustar\x00", "a tar archive"),
        (b"\x00\x01\x02", "neither a capture"),
        (b"a,b,c\n1,2,3\n", "its columns are a, b, c; Tailrace reads .* none of these has the name of a time"),
        (b'\n{"a": 1, "b": 2}\n{"a": 3, "b": 4}\n', "it begins with"),
        (b"Tracing SYN backlog size. Ctrl-C to end.\n^C\n", "tcpsynbl .* it has no times"),
        (b"Running 10s test @ http://x\n  2 threads and 10 connections\n", "the summary of a load test"),
        (b"Type,Name,Request Count,Failure Count\nGET,/,10,0\n", "the summary of a Locust test"),
        (b"\x1b]0;gone\x07 all fine\n", r"it begins with '\\u001b\]0;gone\\u0007 all fine'"),
        (b"x" * 100_000, "it begins with 'x{120}…'"),
    ],
)
def test_what_is_seen_is_safe_to_show_and_short(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        readers.read(tmp_path / "file")
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "# Collectl: V4.3.1-1\n#######\n>>> 1795612932.801 <<<\ncpu  201101 31398\n",
            r"collectl -p .*file -P -om -f \.",
        ),
        ("# Collectl: V3.6.9\n#UTC PID User PR PPID\n1795615340.001 950 mysql 20 1\n", "rows of processes"),
        ("#Date Time PID User PR PPID\n20261125 18:17:32 1 root 20 0\n", "rows of processes"),
        ("#Date Time SlabName ObjInUse\n20261125 18:17:32 dentry 10\n", "rows of slabs"),
        (
            "waiting for 1 second sample...\n#<--------CPU--------><--Disks-->\n#cpu sys\n 100 10\n",
            "terminal format, .* -P -om",
        ),
        (
            "waiting\n\n### RECORD    1 >>> vm <<< (1795630623.505) ###\n\n# CPU SUMMARY (INTR)\n",
            "terminal format, .* -P -om",
        ),
    ],
)
def test_what_collectl_writes_beside_its_plot_format(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(content)
    error = refusal(tmp_path / "file")
    assert re.search(said, "\n".join([str(error), *error.commands]), re.DOTALL)
