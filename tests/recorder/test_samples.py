"""The recorder on this host, as a user runs it: its samples, its end, and the result of a kill."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import termios
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

import polars as pl
import pytest

from recorders import MISSING, SECOND, TAILRACE, end, recording, refused
from tailrace import read
from tailrace.dataset import Dataset
from tailrace.testbed.cgroup import Group, mounted


def values(run: Dataset, place: str, metric: str) -> pl.DataFrame:
    wanted = (pl.col("place") == place) & (pl.col("metric") == metric)
    return run.samples().filter(wanted).collect()


def test_the_host_is_sampled_until_told_to_stop(tmp_path: Path) -> None:
    out = tmp_path / "run"
    me = os.getpid()
    with recording(out, "--interval", "20ms", "--process", f"me={me}") as process:
        busy_until = time.process_time() + 0.5
        while time.process_time() < busy_until:
            pass
        assert "explain it with" in end(process)[0]
    run = Dataset.open(out)
    run.validate(checksums=True)
    assert not (tmp_path / "run.recording").exists()
    mine = values(run, "me", "cpu_busy")
    used = (mine["value"] * mine["interval_ns"]).sum() / SECOND
    assert used == pytest.approx(0.5, abs=0.1)
    assert values(run, "host", "cpu_busy")["value"].is_between(0, 1).all()
    # The intervals of one metric leave no hole: each begins where the one before ended.
    assert mine["interval_ns"][1:].to_list() == pytest.approx(mine["time"].diff()[1:].to_list(), abs=1_000_000)


def test_a_terminal_that_ends_ends_the_recording_well(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ours, its = os.openpty()

    def take_it() -> None:
        fcntl.ioctl(its, termios.TIOCSCTTY, 0)

    words = (*TAILRACE, "record", "-o", str(out))
    with subprocess.Popen(
        words, stdin=its, stdout=its, stderr=its, start_new_session=True, preexec_fn=take_it
    ) as recorder:
        os.close(its)
        assert b"recording" in os.read(ours, 1000)
        os.close(ours)  # the kernel sends SIGHUP, and whatever is written from now on fails
        recorder.send_signal(signal.SIGHUP)  # the shell does, too
        assert recorder.wait(60) == 0
    Dataset.open(out).validate(checksums=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_round_is_read_in_parts_that_let_others_run_between_them(tmp_path: Path) -> None:
    with recording(tmp_path / "run") as process:
        time.sleep(1.5)
        end(process)
    run = Dataset.open(tmp_path / "run")
    cpu, pages = (values(run, "host", metric)["time"].to_list() for metric in ("cpu_iowait", "dirty_bytes"))
    assert len(cpu) > 20
    apart = [min(abs(one - other) for other in pages) for one in cpu]
    # Two files of the kernel that stand side by side in a round; read at once they would be some 0.1 ms apart.
    assert median(apart) > 1_000_000


def test_a_full_accept_queue_and_its_drops_are_seen(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=4) as server:
        port = server.getsockname()[1]
        out = tmp_path / "run"
        with recording(out, "--server", f"web=127.0.0.1:{port}") as process:
            asking = []
            for _ in range(9):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
                asking.append(client)
            time.sleep(1.5)  # the first repetition of the lost SYNs, which are lost again
            end(process)
            for client in asking:
                client.close()
    run = Dataset.open(out)
    place = f"host:{port}"
    assert run.topology.place_to_server(place) is not None
    assert values(run, place, "accept_queue_limit")["value"].unique().to_list() == [4]
    # The kernel refuses when the queue is longer than its limit: one more gets in.
    assert values(run, place, "accept_queue")["value"].max() == 5
    assert values(run, "host", "listen_drops")["value"].sum() >= 4
    assert values(run, "host", "listen_overflows")["value"].sum() >= 4


def test_a_killed_recorder_loses_at_most_a_second(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with recording(out) as process:
        time.sleep(3.5)
        killed = time.time_ns()
        process.kill()
        process.wait()
    assert not out.exists()
    left = tmp_path / "run.recording"
    assert "it holds an unfinished recording" in refused("-o", str(out), "--duration", "1s")
    run = read(left)
    last = values(run, "host", "cpu_busy")["time"].max()
    assert isinstance(last, int)
    # The segment that was open lasted a second at most; a busy machine may add a little to when it was to be closed.
    assert 0 <= killed - last < 1.3 * SECOND
    assert any("killed" in what for what in run.manifest.lost)
    assert any("ends at" in note for note in run.manifest.notes)


@pytest.mark.skipif(MISSING, reason="needs root")
def test_a_removed_control_group_is_reported_once(tmp_path: Path) -> None:
    group = Group(mounted(), f"tailrace-test-{os.getpid()}").make("0")
    with recording(tmp_path / "run", "--node", f"box=cgroup:{group.path}") as process:
        try:
            time.sleep(0.5)
        finally:
            group.remove()
        time.sleep(0.5)
        _, err = end(process)
    assert err.count(f"the control group {group.path} of box is gone") == 1
    assert err.count("it is not sampled until it is there again") == 1
    box = Dataset.open(tmp_path / "run").samples().filter(pl.col("place").cast(pl.String) == "box").collect()
    assert box.height > 5


def test_a_damaged_segment_is_left_out_and_reported(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with recording(out) as process:
        time.sleep(2.5)
        process.kill()
    left = tmp_path / "run.recording"
    first, *_ = sorted(left.glob("*.parquet"))
    first.write_bytes(first.read_bytes()[:100])
    run = read(left)
    assert run.manifest.lost["segments that could not be read"] == 1
    assert run.samples().collect().height > 0


def test_a_full_disk_keeps_what_was_recorded_and_says_how_to_go_on(tmp_path: Path) -> None:
    small = ("mount", "-t", "tmpfs", "-o", "size=32k", "tailrace-test", str(tmp_path))
    if MISSING or subprocess.run(small, capture_output=True).returncode != 0:
        pytest.skip("mounts nothing")
    try:
        words = ("record", "-o", str(tmp_path / "run"), "--interval", "10ms", "--duration", "3s")
        done = subprocess.run([*TAILRACE, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2
        kept = f"{tmp_path}/run.recording"
        why, how = done.stderr.splitlines()[-2:]
        assert "the disk is full" in why
        assert (
            f"{kept}: the recording is kept; once that is mended, make a run folder of it with `tailrace read {kept}"
            in how
        )
        subprocess.run(["mount", "-o", "remount,size=4m", str(tmp_path)], check=True)
        run = read(tmp_path / "run.recording", out=tmp_path / "run")
        assert run.manifest.lost or run.manifest.notes
        assert run.samples().collect().height > 0
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_what_a_disk_loses_that_is_full_to_the_end_is_counted(tmp_path: Path) -> None:
    small = ("mount", "-t", "tmpfs", "-o", "size=1m", "tailrace-test", str(tmp_path))
    if MISSING or subprocess.run(small, capture_output=True).returncode != 0:
        pytest.skip("mounts nothing")
    try:
        filler = tmp_path / "filler"
        with recording(tmp_path / "run") as process:
            time.sleep(1.5)
            with suppress(OSError), filler.open("wb", buffering=0) as full:
                while True:
                    full.write(bytes(4096))
            time.sleep(1.5)
            process.terminate()
            assert "the disk is full" in process.communicate(timeout=60)[1]
        filler.unlink()
        run = read(tmp_path / "run.recording", out=tmp_path / "run")
        lost = [count for what, count in run.manifest.lost.items() if what.startswith("rows of samples.parquet")]
        assert sum(lost) > run.samples().collect().height / 3, run.manifest.lost
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_ring_keeps_only_the_last(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with recording(out, "--keep", "2s") as process:
        time.sleep(5)
        end(process)
    times = Dataset.open(out).samples().select(pl.col("time").min(), pl.col("time").max().alias("end")).collect()
    begin, finish = times.row(0)
    assert SECOND < finish - begin < 4.5 * SECOND


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--interval", "1ms"], "samples are 5 ms to 10 s apart"),
        (["--node", "web=netns:/run/netns/never-there"], "node web: netns /run/netns/never-there: No such file"),
        (
            ["--node", "web=cgroup:never/there"],
            "node web: cgroup never/there: it is in none of the mounted",
        ),
        (["--node", "host=cgroup:/"], "two nodes are called host"),
        (["--node", "web=/run/netns/web"], "expected NAME=netns:PATH,cgroup:PATH"),
        (["--process", "web=999999999"], "process web=999999999: there is no such process"),
        (["--server", "web=80"], "the address must have the form ip:port"),
    ],
)
def test_what_cannot_be_recorded_is_refused_and_leaves_no_files(words: list[str], said: str, tmp_path: Path) -> None:
    assert said in refused("-o", str(tmp_path / "run"), *words)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_recording_is_reported(tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(Exception, match=r"recording\.json: closed: a recorder did not write this"):
        read(tmp_path)
