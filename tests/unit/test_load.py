"""The load generator against small servers: its requests, their times, and its handling of bad answers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from servers import PAGE, forgets, forgets_half, late_to_accept, serving
from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.errors import TailraceError, UsageError
from tailrace.experiment import from_table
from tailrace.load import paths, plain, ports
from tailrace.load.lowering import Settings, Share, plan
from tailrace.load.outcome import Outcome
from tailrace.load.running import load
from tailrace.load.targets import Target, aim

SECOND = 10**9
QUICK = {"duration": "0.3 s", "clients": 4, "think": "20 ms"}


def ask(url: str, out: Path, settings: Settings | None = None, workers: int = 1, **options: Any) -> Outcome:
    asked, targets = plain.experiment({**QUICK, **options}, aim([url], own=False))
    return load(asked, targets, out, settings=settings or Settings(drain=SECOND), share=Share(workers=workers))


def requests(out: Path) -> pl.DataFrame:
    run = Dataset.open(out)
    run.validate(checksums=True)
    return run.requests().collect()


def statuses(out: Path) -> set[str]:
    return set(requests(out)["status"].cast(pl.String))


def test_every_request_has_a_row_and_every_row_was_a_request(tmp_path: Path) -> None:
    with serving() as (url, seen):
        outcome = ask(f"{url}/page?x=1", tmp_path / "run")
    rows = requests(tmp_path / "run")
    assert len(seen) == rows.height == outcome.requests > 10
    assert set(seen) == {"GET /page?x=1 HTTP/1.1\r\n"}
    assert outcome.statuses == {"ok": rows.height}
    assert rows["request"].n_unique() == rows.height
    for earlier, later in [
        ("intended", "sent"),
        ("sent", "connected"),
        ("connected", "first_byte"),
        ("first_byte", "end"),
    ]:
        assert (rows[earlier] <= rows[later]).all(), (earlier, later)
    assert rows["bytes"].unique().to_list() == [len(PAGE)]
    assert rows["client"].unique().sort().to_list() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/chunked", "ok"),
        ("/old", "ok"),
        ("/drip", "ok"),
        ("/busy", "503"),
        ("/truncated", "error-truncated"),
        ("/nothing", "error-truncated"),
        ("/too-long", "error-malformed"),
        ("/huge-head", "error-malformed"),
        ("/not-http", "error-malformed"),
        ("/reset", "reset"),
    ],
)
def test_each_outcome_has_its_status(path: str, status: str, tmp_path: Path) -> None:
    with serving() as (url, _):
        ask(url + path, tmp_path / "run")
    assert statuses(tmp_path / "run") == {status}


def test_an_unanswered_request_is_given_up_by_the_client_or_at_the_end(tmp_path: Path) -> None:
    with serving() as (url, seen):
        ask(f"{url}/hang", tmp_path / "patient", Settings(drain=SECOND // 5))
        assert len(seen) == 4
        ask(f"{url}/hang", tmp_path / "impatient", timeout="50 ms")
        assert len(seen) > 8
    assert statuses(tmp_path / "patient") == statuses(tmp_path / "impatient") == {"abandoned"}
    waited = requests(tmp_path / "impatient").select(pl.col("end") - pl.col("sent"))["end"]
    assert waited.min() >= 50_000_000  # type: ignore[operator]


def test_a_refused_client_waits_before_it_repeats(tmp_path: Path) -> None:
    outcome = ask("http://127.0.0.1:1/", tmp_path / "run", think="0")
    assert statuses(tmp_path / "run") == {"refused"}
    assert outcome.requests <= 4 * 4, "a client that got no answer waits 0.1 s"


def test_lost_connection_attempts_are_counted_from_the_kernel(tmp_path: Path) -> None:
    table = {
        "duration": "0.3 s",
        "ramp": "0",
        "tiers": {"server": {}},
        "interactions": {"/": {"at": {"server": {}}}},
        "workloads": {"burst": {"kind": "batch", "size": 8, "first": "0.1 s", "interaction": "/"}},
    }
    with late_to_accept(0.5) as url:
        load(from_table(table), aim([url], False), tmp_path / "run", settings=Settings(drain=20 * SECOND))
    rows = requests(tmp_path / "run").with_columns(took=pl.col("end") - pl.col("sent"))
    assert rows.height == 8
    lost = rows.filter(pl.col("drops") > 0)
    assert 1 <= lost.height <= 7, "the accept queue holds one, and had room for another while it was looked at"
    # the first repetition is sent 1 s after the first SYN, and the accept queue of one holds its equal
    assert (lost["took"] >= lost["drops"].cast(pl.Int64) * 900_000_000).all()
    assert (rows.filter(pl.col("drops") == 0)["took"] < 900_000_000).all()


def test_connections_are_kept_when_they_are_to_be(tmp_path: Path) -> None:
    with serving(kept=True) as (url, _):
        ask(url, tmp_path / "run", kept=True)
    rows = requests(tmp_path / "run")
    assert rows.height > 10
    assert rows["connected"].is_not_null().sum() == 4


def test_a_connection_that_the_server_closed_is_made_anew(tmp_path: Path) -> None:
    with serving(kept=False) as (url, _):
        outcome = ask(url, tmp_path / "run", kept=True)
    assert outcome.statuses == {"ok": outcome.requests}
    assert requests(tmp_path / "run")["connected"].is_not_null().all()


def test_a_kept_connection_that_is_closed_under_a_request_is_made_anew_once(tmp_path: Path) -> None:
    with serving(kept=True, again=forgets) as (url, seen):
        outcome = ask(url, tmp_path / "run", kept=True)
    rows = requests(tmp_path / "run")
    assert outcome.statuses == {"ok": outcome.requests}
    # the first request of each client arrived once, all others twice: on a connection that closed, and on the next
    assert len(seen) == 2 * rows.height - rows["client"].n_unique()
    assert rows["connected"].is_not_null().all()
    assert (rows["sent"] <= rows["connected"]).all()


def test_a_first_request_and_one_half_answered_are_not_sent_again(tmp_path: Path) -> None:
    with serving(kept=True, again=forgets_half) as (url, seen):
        outcome = ask(url, tmp_path / "half", kept=True)
        assert set(outcome.statuses) == {"ok", "error-truncated"}
        assert len(seen) == outcome.requests
        seen.clear()
        outcome = ask(f"{url}/nothing", tmp_path / "nothing", kept=True)
        assert set(outcome.statuses) == {"error-truncated"}
        assert len(seen) == outcome.requests


def test_a_walk_asks_for_pages_with_values_of_the_board(tmp_path: Path) -> None:
    with serving() as (url, seen):
        ask(
            f"{url}/board/",
            tmp_path / "run",
            Settings(sizes={"old_stories": 7, "stories": 1}),
            walk="browse-only",
            think="5 ms",
        )
    assert {line.split()[1].split("?")[0] for line in seen} >= {"/board/StoriesOfTheDay", "/board/ViewStory"}
    assert {line for line in seen if "/ViewStory" in line} == {"GET /board/ViewStory?storyId=8 HTTP/1.1\r\n"}
    assert "ViewStory" in requests(tmp_path / "run")["interaction"].cast(pl.String)


def test_images_follow_a_page_that_came_and_failures_are_tried_again(tmp_path: Path) -> None:
    once = {"clients": 1, "think": "1000 s", "think_max": "0", "start": "at once"}
    table = {
        "duration": "0.2 s",
        "ramp": "0",
        "tiers": {"web": {}},
        "interactions": {"/busy": {"at": {"web": {}}}},
        "workloads": {
            "page": {**once, "walk": "browse-only", "embedded": ["logo"]},
            "busy": {**once, "interaction": "/busy", "retries": 2, "retry_pause": "10 ms", "embedded": ["logo"]},
        },
    }
    with serving() as (url, seen):
        load(from_table(table), aim([url], False), tmp_path / "run")
    assert Counter(line.split()[1] for line in seen) == {"/StoriesOfTheDay": 1, "/logo.png": 1, "/busy": 3}
    assert set(requests(tmp_path / "run")["server"].cast(pl.String)) == {"web"}


def test_workers_share_a_load_and_equal_seeds_intend_equal_moments_and_pages(tmp_path: Path) -> None:
    table = {
        "duration": "0.5 s",
        "ramp": "0",
        "tiers": {"web": {}},
        "workloads": {"open": {"kind": "poisson", "rate": 400, "walk": "read-write"}},
    }
    system: dict[str, Any] = {"tiers": {"web": {"calls": ["app"]}, "app": {"calls": ["db"]}, "db": {}}}
    sim.simulate(from_table(table | system), tmp_path / "simulated")
    with serving() as (url, _):
        for name, workers in (("one", 1), ("three", 3)):
            load(from_table(table), aim([url], False), tmp_path / name, share=Share(workers=workers))
    one, three = (requests(tmp_path / name) for name in ("one", "three"))
    assert one["request"].n_unique() == one.height
    assert three["request"].n_unique() == three.height == one.height
    moments = [run["intended"].sort() - run["intended"].min() for run in (one, three)]
    assert moments[0].to_list() == moments[1].to_list()
    asked = [run.sort("intended")["interaction"].cast(pl.String).to_list() for run in (one, three)]
    simulated = requests(tmp_path / "simulated").sort("sent")["interaction"].cast(pl.String).to_list()
    assert asked == [simulated, simulated]
    assert {"ViewStory", "StoreComment"} < set(simulated)


def test_a_limited_number_of_requests_is_kept(tmp_path: Path) -> None:
    with serving() as (url, seen):
        ask(url, tmp_path / "run", Settings(requests=7), workers=2, duration="60 s")
    assert len(seen) == requests(tmp_path / "run").height == 7


def test_ctrl_c_ends_a_load_with_its_rows_and_a_killed_load_can_be_recovered(tmp_path: Path) -> None:
    with serving() as (url, seen):
        for number, end in enumerate((signal.SIGINT, signal.SIGHUP, signal.SIGKILL)):
            out = tmp_path / f"run{number}"
            command = [sys.executable, "-m", "tailrace", "load", url, "--clients=4", "--think=5ms", "--duration=60s"]
            seen.clear()
            process = subprocess.Popen([*command, f"--out={out}", "--json"], stdout=subprocess.PIPE, text=True)
            while len(seen) < 300:
                time.sleep(0.01)
            process.send_signal(end)
            said, _ = process.communicate(timeout=20)
            if end == signal.SIGKILL:
                [left] = wait_for_logs(tmp_path)
                recovered = subprocess.run(
                    [sys.executable, "-m", "tailrace", "load", "--recover", left, f"--out={out}", "--json"],
                    stdout=subprocess.PIPE, text=True, check=True,
                )  # fmt: skip
                said = recovered.stdout
            assert json.loads(said)["requests"] == requests(out).height
            assert 100 <= requests(out).height <= len(seen)
    for ended in ("run0", "run1"):
        assert any("stopped after" in note for note in Dataset.open(tmp_path / ended).manifest.notes)


def test_a_full_disk_ends_a_load_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    """The largest size of a file: room for 500 rows and for the tables of them, or not even for those."""
    out = tmp_path / "run"
    for room, seen in ((40_000, " requests up to then are in"), (2_500, "load --recover")):
        with serving() as (url, _):
            command = (sys.executable, "-m", "tailrace", "load", url, "--rate=2000", "--duration=30s", "--overwrite")
            full = subprocess.run(
                ["prlimit", f"--fsize={room}", *command, f"--out={out}"], capture_output=True, text=True, timeout=60
            )
        assert full.returncode == 2
        assert seen in full.stderr
    assert 450 <= requests(out).height <= 499, "a late stretch takes a row, too"
    assert any("ended early" in note for note in Dataset.open(out).manifest.notes)
    [left] = wait_for_logs(tmp_path)
    recover = (sys.executable, "-m", "tailrace", "load", "--recover", left, f"--out={tmp_path / 'other'}")
    subprocess.run(recover, capture_output=True, check=True)
    assert 20 <= requests(tmp_path / "other").height <= 31


def wait_for_logs(folder: Path) -> list[Path]:
    """The folders of killed loads, once their workers have noticed and written all their rows."""
    while True:
        found = list(folder.glob("run*.tmp-*"))
        sizes = [log.stat().st_size for left in found for log in left.glob("*.log")]
        time.sleep(0.5)
        if sizes and sizes == [log.stat().st_size for left in found for log in left.glob("*.log")]:
            return found


def test_a_process_that_did_not_run_marks_the_time_as_invalid(tmp_path: Path) -> None:
    with serving() as (url, seen):
        out = tmp_path / "run"
        command = [sys.executable, "-m", "tailrace", "load", url, "--clients=4", "--think=5ms", "--duration=1.5s"]
        process = subprocess.Popen([*command, f"--out={out}", "--json"], stdout=subprocess.PIPE, text=True)
        while len(seen) < 50:
            time.sleep(0.01)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGSTOP)
        time.sleep(0.3)
        os.kill(int(children[0]), signal.SIGCONT)
        said, _ = process.communicate(timeout=20)
    outcome = json.loads(said)
    assert outcome["late_windows"] >= 6
    late = Dataset.open(out).events().filter(pl.col("kind") == "load_late").collect()
    assert (late["end"] - late["begin"]).max() >= 280_000_000  # type: ignore[operator]


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("https://127.0.0.1/", "https is not supported"),
        ("http://8.8.8.8/", "is not this machine"),
        ("http://127.0.0.1:99999/", "not a URL"),
        ("http:///x", "not a URL"),
        ("http://127.0.0.1/a b", "not a URL"),
        ("http://no.such.host.invalid/", "cannot be found"),
    ],
)
def test_bad_targets_are_refused(url: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        aim([url], own=False)


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("224.0.0.1", "a multicast address"),
        ("239.255.255.250", "a multicast address"),
        ("[ff02::1]", "a multicast address"),
        ("[ff02::1%lo]", "a multicast address"),
        ("[::ffff:224.0.0.1]", "a multicast address"),
        ("255.255.255.255", "a broadcast address"),
        ("[::ffff:255.255.255.255]", "a broadcast address"),
        ("127.255.255.255", "a broadcast address"),
        ("0xffffffff", "a broadcast address"),
        ("0.0.0.0", "not the address of a server"),
        ("[::]", "not the address of a server"),
        ("[::ffff:0.0.0.0]", "not the address of a server"),
        ("many.test", "a multicast address"),
    ],
)
def test_an_address_that_is_not_one_servers_is_refused_from_its_owner_too(
    host: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo

    def answers(name: str, *more: Any, **options: Any) -> Any:
        return look_up("224.0.0.251" if name == "many.test" else name, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", answers)
    for own in (True, False):
        with pytest.raises(UsageError, match=sentence):
            aim([f"http://{host}:80/"], own)


def test_an_ipv4_address_that_is_written_as_ipv6_is_the_same_server() -> None:
    assert aim(["http://[::ffff:127.0.0.1]:80/"], own=False)[0].address == "127.0.0.1:80"


def test_a_target_that_is_owned_may_be_anywhere() -> None:
    assert aim(["web=http://8.8.8.8:8080/x?y=1"], own=True) == (
        Target("web", "8.8.8.8:8080", "8.8.8.8:8080", "/x?y=1"),
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "how much"),
        ({"rate": 5, "clients": 3}, "open arrivals"),
        ({"rate": -1}, "rate must be"),
        ({"clients": 0}, "clients must be"),
        ({"clients": 3, "walk": "nowhere"}, "walk must be"),
        ({"clients": 3, "interaction": "ViewStoree"}, "ViewStory"),
        ({"clients": 3, "think": "soon"}, "think must be"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TailraceError, match=sentence):
        plain.experiment(options, aim(["http://127.0.0.1/"], own=False))


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [("/x?y={storry}", "storry"), ("/x?y={9..3}", "9..3"), ("/x y", "percent-encode")],
)
def test_bad_paths_are_refused(pattern: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        paths.class_of("Page", pattern, paths.ranges({}))


def test_a_value_that_a_path_has_twice_is_drawn_once() -> None:
    found = paths.class_of("Login", "/?name=user{user}&password=password{user}", paths.ranges({"users": 9}))
    assert found["draws"] == [(1, 9)]
    assert [piece for piece in found["path"] if "number" in piece] == [{"number": 0}] * 2


def test_every_page_of_rubbos_has_a_path() -> None:
    from tailrace.experiment import rubbos

    patterns = paths.read(None)
    assert set(patterns) == {*rubbos.states(), rubbos.LOGO}
    for name, pattern in patterns.items():
        paths.class_of(name, pattern, paths.ranges({}))


def test_burstiness_of_one_process_is_not_divided_among_workers(tmp_path: Path) -> None:
    bursty, targets = plain.experiment({"clients": 1000, "think": "7 s"}, aim(["http://127.0.0.1/"], own=False))
    workload = bursty.workloads["load"].model_copy(update={"index_of_dispersion": 100.0})
    bursty = bursty.model_copy(update={"workloads": {"load": workload}})
    with pytest.raises(UsageError, match="client_processes"):
        load(bursty, targets, tmp_path / "run", share=Share(workers=2))
    [lowered] = plan(bursty, targets, Settings())["workloads"]
    assert lowered["arrivals"]["closed"]["chain"]["chains"] == 1


def test_missing_ports_are_reported_before_and_after(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ranges = tmp_path / "range"
    ranges.write_text("40000\t40099\n")
    monkeypatch.setattr(ports, "RANGE", ranges)
    many, _ = plain.experiment({"clients": 1000}, aim(["http://127.0.0.1/"], own=False))
    [warning] = ports.warnings(many, Share(), targets=1, sources=0)
    assert "1,000 clients" in warning
    assert "40000 to 40099" in warning
    assert "--source" in warning
