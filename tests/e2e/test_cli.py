"""The command line from a user's view: answers, exit codes, and the files that remain after errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "demo"
FILES = [str(DEMO / name) for name in ("packets.pcap.zst", "samples.csv")] + [f"app={DEMO / 'gc.log'}"]
NAMES = ["web=10.77.0.3:80", "app=10.77.0.4:8009", "db=10.77.0.5:3306", "neighbour=10.77.0.6:3306"]
SERVERS = [word for name in NAMES for word in ("--server", name)]
CONTROL = str(ROOT / "tests/golden/recordings/sync-control/packets.pcap.zst")
NOBODY = 65534


def tailrace(*words: str, stdin: bytes | None = None, user: int | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tailrace", *words], input=stdin, capture_output=True, timeout=300, user=user
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def writing_into(folder: Path) -> list[str]:
    return ["read", CONTROL, "-o", str(folder / "run")]


def test_the_answer_as_json() -> None:
    done = tailrace("diagnose", *FILES, *SERVERS, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["vlrt"] > 100
    assert found["explained"] == pytest.approx(1.0, abs=0.02)
    [first, *_] = found["summary"]
    assert (first["dropper"], first["origin"], first["cause"], first["ctqo"]) == ("web", "app", "neighbour", "upstream")
    assert [finding["step"] for finding in found["episodes"][0]["findings"]] == [
        "vlrt",
        "drops",
        "overflow",
        "millibottleneck",
        "cause",
    ]


def test_the_demo_explains_the_recording_that_comes_with_the_package(tmp_path: Path) -> None:
    report = tmp_path / "demo.html"
    done = tailrace("demo", "--report", str(report), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    [only] = found["summary"]
    assert (only["dropper"], only["origin"], only["cause"], only["ctqo"]) == ("web", "app", "neighbour", "upstream")
    assert found["vlrt"] == 315
    assert "web" in report.read_text()


def test_without_names_the_servers_carry_their_addresses() -> None:
    found = json.loads(tailrace("diagnose", FILES[0], "--json").stdout)
    assert {row["dropper"] for row in found["summary"]} == {"10.77.0.3:80"}
    assert {row["origin"] for row in found["summary"]} == {"10.77.0.4:8009"}


def test_without_samples_the_chain_reaches_step_three_and_says_what_is_missing() -> None:
    found = json.loads(tailrace("diagnose", FILES[0], *SERVERS, "--json").stdout)
    for episode in found["episodes"]:
        verdicts = {finding["step"]: finding["verdict"] for finding in episode["findings"]}
        assert (verdicts["vlrt"], verdicts["drops"], verdicts["overflow"]) == ("found", "found", "found")
        assert verdicts["cause"] == "unknown"
    assert "cpu" in json.dumps(found["unknown"]).lower()


def test_a_quiet_recording_claims_nothing() -> None:
    done = tailrace("diagnose", CONTROL, "--json", "--fail-on-vlrt")
    found = json.loads(done.stdout)
    assert (done.returncode, found["vlrt"], found["summary"], found["episodes"]) == (0, 0, [], [])


def test_vlrt_fail_only_with_the_option(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    done = tailrace("read", FILES[0], "-o", run)
    assert done.returncode == 0, done.stderr
    assert tailrace("diagnose", run).returncode == 0
    assert tailrace("diagnose", run, "--fail-on-vlrt").returncode == 1


def test_read_info_report_and_perfetto(tmp_path: Path) -> None:
    run, page, trace = tmp_path / "run", tmp_path / "page.html", tmp_path / "run.pftrace"
    assert tailrace("read", *FILES, *SERVERS, "-o", str(run)).returncode == 0
    told = json.loads(tailrace("info", str(run), "--json").stdout)
    assert {server["name"] for server in told["servers"]} >= {"web", "app", "db"}
    assert told["missing"] == []
    done = tailrace("report", str(run), "-o", str(page), "--perfetto", str(trace))
    assert done.returncode == 0, done.stderr
    assert "<script" in page.read_text()
    assert trace.stat().st_size > 10_000
    assert not list(tmp_path.glob("*.tmp*"))


def test_out_keeps_the_run_with_its_report(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert tailrace("diagnose", FILES[0], "-o", str(run)).returncode == 0
    assert {"report.html", "diagnosis.json", "manifest.json", "visits.parquet"} <= {p.name for p in run.iterdir()}
    again = tailrace("diagnose", FILES[0], "-o", str(run))
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert "--overwrite" in again.stderr


def test_standard_input() -> None:
    done = tailrace("diagnose", "-", "--json", stdin=Path(CONTROL).read_bytes())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["requests"] > 1000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["diagnose", "no-such-file.pcap"], "no such file"),
        (["diagnose", str(ROOT / "Makefile")], "Makefile"),
        (["diagnose", str(ROOT)], "not a run folder"),
        (["diagnose", CONTROL, "--server", "web"], "expected NAME=IP:PORT"),
        (["diagnose", CONTROL, "--server", "web=10.0.0.1"], "10.0.0.1"),
        (["diagnose", CONTROL, "--window", "5"], "not a duration"),
        (["diagnose", CONTROL, "--window", "1h"], "10 s"),
        (["diagnose", CONTROL, "--bogus"], "No such option"),
        (["info", str(ROOT / "docs")], "not a run folder"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_two(words: list[str], sentence: str) -> None:
    done = tailrace(*words)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.touch()
    done = tailrace("diagnose", str(empty))
    assert done.returncode == 2
    assert "empty" in done.stderr


def test_a_truncated_capture_gives_what_was_read_and_says_what_was_lost(tmp_path: Path) -> None:
    whole = Path(FILES[0]).read_bytes()
    cut = tmp_path / "cut.pcap.zst"
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    done = tailrace("read", str(cut), "-o", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["tables"]["requests"]["rows"] > 1000
    assert "byte" in json.dumps([told["lost"], told["notes"]])


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, tailrace.readers, tailrace.report.info, tailrace.cli.commands\nfrom tailrace import cli\n"
            f"os.setuid({NOBODY}); cli.main()",
            *writing_into(closed),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2, done.stderr
    assert "permission" in done.stderr


def test_a_full_disk(full_disk: Path) -> None:
    (full_disk / "filler").write_bytes(bytes(900_000))
    done = tailrace("read", FILES[0], "-o", str(full_disk / "run"))
    assert done.returncode == 2
    assert "disk is full" in done.stderr
    assert [path.name for path in full_disk.iterdir()] == ["filler"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_leaves_nothing_half_written(tmp_path: Path, how: signal.Signals) -> None:
    words = [sys.executable, "-m", "tailrace", "read", "-", "-o", str(tmp_path / "run")]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=False)
    assert process.stdin
    assert process.stderr
    process.stdin.write(Path(FILES[0]).read_bytes()[:1_000_000])
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("run.tmp-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(how)
    process.stdin.close()
    error = process.stderr.read().decode()
    assert process.wait(60) == 130, error
    assert "interrupted" in error
    assert list(tmp_path.iterdir()) == []


EXPERIMENT = str(ROOT / "experiments/rpc-vs-async/base")


def test_an_experiment_is_run_and_diagnosed(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    done = tailrace("run", EXPERIMENT, "-o", run, "--set", "duration=35s", "--seed", "5", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["drops"].keys() == {"web"}
    assert told["over_1s"] > 50
    found = json.loads(tailrace("diagnose", run, "--json").stdout)
    assert found["vlrt"] == told["over_1s"]
    assert {row["dropper"] for row in found["summary"]} == {"web"}
    again = tailrace("run", EXPERIMENT, "-o", run)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    shown = tailrace("run", EXPERIMENT, "-o", run, "--overwrite", "--set", "duration=5s").stdout
    assert "requests" in shown
    assert f"tailrace diagnose {run}" in shown


def test_a_workload_without_requests_is_reported(tmp_path: Path) -> None:
    """A batch after 15 s, of a run of 3 s."""
    batch = "workloads.crowd={kind='batch', walk='browse-only', entry='web'}"
    words = ["experiments/rpc-vs-async/base", "--add", "--set", batch, "--set", "duration=3s", "--set", "stalls=[]"]
    done = tailrace("run", *words, "-o", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "workloads.crowd sent no request: it begins at 15 s, after the end of the run" in done.stdout


def test_a_run_says_that_it_counts_what_was_lost_in_the_ramp(tmp_path: Path) -> None:
    full = ["run", EXPERIMENT, "--set", "workloads={many={kind='poisson', rate=3000, entry='web'}}"]
    full += ["--set", "duration=1s", "--set", "tiers.web.workers=1", "-o", str(tmp_path / "run")]
    for ramp, said in (("1s", "dropped, ramp included: web "), ("0s", "dropped: web ")):
        assert said in tailrace(*full, "--set", f"ramp={ramp}", "--overwrite").stdout


def test_a_run_without_answers_has_no_mean_response(tmp_path: Path) -> None:
    nobody = ["run", EXPERIMENT, "--set", "workloads={few={kind='poisson', rate=1e-9, entry='web'}}"]
    nobody += ["--set", "duration=1s", "-o", str(tmp_path / "run"), "--overwrite"]
    assert tailrace(*nobody).stdout.startswith("0 requests, 0 answered a second\n0 answers took over 1 s")
    assert json.loads(tailrace(*nobody, "--json").stdout)["response_ns_mean"] is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no-such-folder"], "no such file"),
        ([EXPERIMENT, "--set", "workloads.steady.clents=3"], "did you mean 'clients'?"),
        ([EXPERIMENT, "--set", "clients"], "expected key.path=value"),
        ([EXPERIMENT, "--engine", "testbet"], "testbet"),
        ([EXPERIMENT, "--seed", "-1"], "seed must be"),
    ],
)
def test_a_wrong_experiment_is_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    done = tailrace("run", *words, "-o", str(tmp_path / "run"))
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_schema_of_experiments_is_json() -> None:
    assert "tiers" in json.loads(tailrace("run", "--schema").stdout)["properties"]


def test_an_interrupted_simulation_leaves_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tailrace", "run", EXPERIMENT, "-o", str(tmp_path / "run"), "--set", "duration=5h"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("run.tmp-*/visits*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.stderr
    error = process.stderr.read().decode()
    assert process.wait(60) == 130, error
    assert "interrupted" in error
    assert list(tmp_path.iterdir()) == []


def test_help_teaches() -> None:
    text = tailrace("diagnose", "--help").stdout
    assert "Examples" in text
    assert "--server" in text
    assert tailrace("--version").stdout.startswith("tailrace 0.")
