"""Resources and events that other recorders print: Performance Co-Pilot, atop, perf, Java's Flight Recorder, pods."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.readers import jfr
from tailrace.units import MILLISECOND, SECOND, parse_moment

FILES = Path(__file__).parents[1] / "golden" / "readers"


def samples(run: Dataset, metric: str, place: str) -> list[tuple[int, float]]:
    found = run.samples().with_columns(pl.col("metric", "place").cast(pl.String)).collect()
    found = found.filter((pl.col("metric") == metric) & (pl.col("place") == place))
    return list(found.select("time", "value").rows())


def text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def test_rates_and_counters_of_one_archive_agree() -> None:
    rates, counters = (readers.read(FILES / "pcp" / name) for name in ("recorded.json", "raw.json"))
    switches = samples(rates, "context_switches", "app1")
    assert [time for time, _ in switches] == [time for time, _ in samples(counters, "context_switches", "app1")]
    grown = [value for _, value in samples(counters, "context_switches", "app1")]
    assert [value for _, value in switches] == pytest.approx(grown, abs=1)
    for (_, one), (_, other) in zip(
        samples(rates, "cpu_busy", "app1"), samples(counters, "cpu_busy", "app1"), strict=True
    ):
        assert one == pytest.approx(other, abs=0.03)  # the counters lack three of the modes


def test_what_pcp2json_wrote_until_it_was_killed_is_read(tmp_path: Path) -> None:
    whole = (FILES / "pcp" / "recorded.json").read_text()
    (tmp_path / "cut.json").write_text(whole[: whole.rindex('"@timestamp"')])
    run = readers.read(tmp_path / "cut.json")
    assert len(samples(run, "cpu_busy", "app1")) == 2
    assert any("damaged elements" in what for what in run.manifest.lost)
    (tmp_path / "else.json").write_text(
        '{"@pcp": {"@hosts": [{"@host": "a", "@metrics": [{"@timestamp": "2026-11-20"}]}]}}'
    )
    with pytest.raises(InputError, match="no metric of CPUs"):
        readers.read(tmp_path / "else.json")


def test_atop_shows_the_same_in_both_forms(tmp_path: Path) -> None:
    lines, first = list[str](), True
    for line in (FILES / "atop" / "recorded.json").read_text().splitlines():
        moment = json.loads(line)
        cpu = moment["CPU"]
        ticks = " ".join(
            str(cpu[key]) for key in ("stime", "utime", "ntime", "itime", "wtime", "Itime", "Stime", "steal", "guest")
        )
        head = f"app1 {moment['timestamp']} 2026/11/26 12:00:00 {moment['elapsed']}"
        lines += ["RESET"] if first else []
        lines += [
            f"CPU {head} {cpu['hertz']} {cpu['nrcpu']} {ticks} 1 1",
            f"CPL {head} 2 1 1 1 {moment['CPL']['csw']} 1",
        ]
        lines += ["SEP"]
        first = False
    (tmp_path / "atop.txt").write_text("\n".join(lines))
    parsed, printed = readers.read(tmp_path / "atop.txt"), readers.read(FILES / "atop" / "recorded.json")
    for metric in ("cpu_busy", "context_switches"):
        assert samples(parsed, metric, "app1") == samples(printed, metric, "app1")
        assert len(samples(printed, metric, "app1")) == 3


def test_switches_and_their_summary_show_the_same_use_of_the_cpus(tmp_path: Path) -> None:
    switches, summary = (
        readers.read(f"app1={FILES / 'sched' / name}.txt.gz", began=("2026-11-20T00:00:00Z",))
        for name in ("perf-script", "timehist")
    )
    assert switches.manifest.rows["samples"] > 30
    for place in ("app1", "app1/cpu0", "app1/cpu1", "process python", "process rustc"):
        one, other = samples(switches, "cpu_busy", place), samples(summary, "cpu_busy", place)
        assert [value for _, value in one] == pytest.approx([value for _, value in other], abs=0.1)
        assert all(time > parse_moment("2026-11-20T00:00:00Z") for time, _ in one)
    lines = text(FILES / "sched" / "ftrace.txt.gz").splitlines()
    (tmp_path / "lost.txt").write_text("\n".join([*lines[:400], "CPU:1 [LOST 77 EVENTS]", *lines[400:]]))
    lost = readers.read(tmp_path / "lost.txt")
    assert lost.manifest.lost["lost.txt: switches that the kernel lost"] == 77
    whole = readers.read(FILES / "sched" / "ftrace.txt.gz")
    assert lost.manifest.rows["samples"] < whole.manifest.rows["samples"]


def test_each_cpu_is_as_busy_as_its_tasks(tmp_path: Path) -> None:
    def switch(ms: int, cpu: int, before: str, after: str) -> str:
        state = "S" if before != "dd-1" else "R"
        (one, first), (other, second) = before.rsplit("-", 1), after.rsplit("-", 1)
        return (
            f"  {one}-{first}  [{cpu:03}] d..2. 5.{ms:03}000: sched_switch: prev_comm={one} prev_pid={first} "
            f"prev_prio=120 prev_state={state} ==> next_comm={other} next_pid={second} next_prio=120"
        )

    idle = "swapper/0-0"
    lines = [switch(0, 0, idle, "dd-1"), switch(0, 1, "dd-1", idle), switch(75, 0, "dd-1", idle)]
    lines += [switch(100, 1, idle, "my app-7"), switch(120, 1, "my app-7", idle), switch(150, 0, idle, idle)]
    lines += [switch(150, 1, idle, idle)]
    (tmp_path / "trace.txt").write_text("\n".join([*lines, ""]))
    run = readers.read(f"app1={tmp_path / 'trace.txt'}", began=("1000000000",))
    at = [(1_000_000_005 * SECOND) + step * 50 * MILLISECOND for step in (1, 2, 3)]
    assert samples(run, "cpu_busy", "app1/cpu0") == list(zip(at, (1.0, 0.5, 0.0), strict=True))
    assert samples(run, "cpu_busy", "app1/cpu1") == list(zip(at, (0.0, 0.0, 0.4), strict=True))
    assert samples(run, "cpu_busy", "app1") == list(zip(at, (0.5, 0.25, 0.2), strict=True))
    assert samples(run, "cpu_busy", "process my app") == list(zip(at, (0.0, 0.0, 0.4), strict=True))


def test_histograms_without_times_are_refused_with_advice(tmp_path: Path) -> None:
    lines = (FILES / "runqlat" / "bcc.txt").read_text().splitlines()
    (tmp_path / "runqlat.txt").write_text("\n".join(line for line in lines if "16:49" not in line))
    with pytest.raises(InputError, match=r"no times.*runqlat -T 1"):
        readers.read(tmp_path / "runqlat.txt")


def recording(*events: dict[str, Any]) -> str:
    return json.dumps({"recording": {"events": [*events]}})


def event(kind: str, begin: str, length: str, **values: Any) -> dict[str, Any]:
    return {"type": f"jdk.{kind}", "values": {"startTime": f"2026-11-20T16:49:{begin}Z", "duration": length, **values}}


def test_a_flight_recording_counts_each_stop_once(tmp_path: Path) -> None:
    file = tmp_path / "app.json"
    file.write_text(
        recording(
            event("SafepointBegin", "01.000", "PT0.002S", safepointId=1),
            event("ExecuteVMOperation", "01.002", "PT0.301S", safepointId=1, safepoint=True, operation="G1Collect"),
            event("GarbageCollection", "01.002", "PT0.3S", gcId=1, name="G1New", cause="pause", sumOfPauses="PT0.3S"),
            event("GCPhasePause", "01.002", "PT0.3S", gcId=1),
            event("ExecuteVMOperation", "02.000", "PT0.050S", safepointId=2, safepoint=True, operation="Deoptimize"),
            event("ExecuteVMOperation", "02.500", "PT0.004S", safepointId=3, safepoint=True, operation="Cleanup"),
            event("ExecuteVMOperation", "02.600", "PT0.9S", safepointId=0, safepoint=False, operation="Handshake"),
            event("GarbageCollection", "03.000", "PT0.2S", gcId=2, name="Full", cause="", sumOfPauses="PT0.2S"),
            event("GarbageCollection", "04.000", "PT2S", gcId=3, name="ZGC", cause="", sumOfPauses="PT0.001S"),
            event("ThreadPark", "05.000", "PT1M0.5S", eventThread={"javaName": "pool-1"}),
            event("GCPhasePause", "?", "PT1S", gcId=4),
        )
    )
    run = readers.read(f"app={file}")
    found = (
        run.events().with_columns(pl.col("kind", "place").cast(pl.String), pl.col("detail").cast(pl.String)).collect()
    )
    shown = [
        (kind, (begin - parse_moment("2026-11-20T16:49:00Z")) // MILLISECOND, (end - begin) // MILLISECOND, detail)
        for kind, begin, end, detail in found.sort("begin").select("kind", "begin", "end", "detail").rows()
    ]
    assert shown == [
        ("gc", 1000, 303, "G1New (pause)"),
        ("safepoint", 2000, 50, "Deoptimize"),
        ("gc", 3000, 200, "Full"),
        ("park", 5000, 60_500, "pool-1"),
    ]
    assert set(found["place"]) == {"app"}
    assert any("1 collections have no event GCPhasePause" in note for note in run.manifest.notes)
    assert run.manifest.lost == {"app.json: events without a time": 1}


def test_a_flight_recording_without_stops_says_what_to_print(tmp_path: Path) -> None:
    (tmp_path / "app.json").write_text(recording(event("ThreadSleep", "01.000", "PT1S")))
    with pytest.raises(InputError, match=r"jfr print --json --events jdk\.GarbageCollection,jdk\.GCPhasePause"):
        readers.read(tmp_path / "app.json")
    assert jfr.duration("PT-2562047788015215H-30M-8S") is None
    assert jfr.duration("PT2H1M0.5S") == 7260 * SECOND + SECOND // 2


def test_pods_show_how_their_containers_ended() -> None:
    run = readers.read(FILES / "kubernetes" / "pods.json")
    found = run.events().with_columns(pl.col("kind", "place").cast(pl.String)).collect()
    ended = parse_moment("2026-11-20T16:49:01Z")
    assert found.sort("begin").select("place", "kind", "begin", "end").row(0) == (
        *("app-7d4b9", "k8s OOMKilled"),
        *(ended, ended + 3 * SECOND),
    )
