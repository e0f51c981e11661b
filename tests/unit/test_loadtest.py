"""Load tests: times, lost attempts and closed loops, computed by hand from the files in tests/golden/readers/loadtest.

jmeter.jtl, k6.json, k6.csv and oha.csv contain the same forty requests of four clients, of which two lost a SYN.
hey.csv and ab.tsv are of real runs against a server that stopped accepting for 1.3 s."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.errors import InputError, UsageError
from tailrace.readers import loadtest
from tailrace.readers.loadtests.closed_loop import closed_loop
from tailrace.units import MILLISECOND, SECOND, parse_moment

FILES = Path(__file__).parents[1] / "golden" / "readers" / "loadtest"
T = parse_moment("2026-11-20T16:49:00Z")


def read(*names: str | Path) -> Dataset:
    run = readers.read(*(FILES / name for name in names))
    run.validate()
    return run


def requests(run: Dataset) -> list[tuple[int, int, int]]:
    """Begin and end in ms after the start of the test, and lost attempts."""
    found = run.requests().filter(pl.col("status").cast(pl.String) != "refused").sort("sent", "end").collect()
    start = found["sent"].min()
    assert isinstance(start, int)
    ms = (found.select("sent", "end") - start) // MILLISECOND
    return pl.concat([ms, found.select("drops")], how="horizontal").rows()


@pytest.mark.parametrize("name", ["jmeter.jtl", "k6.json", "oha.csv"])
def test_the_same_requests_are_read_from_each_format(name: str) -> None:
    found = requests(read(name))
    free, expected = [0, 1, 2, 3], []
    for n in range(40):
        lost = n in (9, 22)
        took = 20 + n % 3 + 1003 * lost
        expected.append((free[n % 4], free[n % 4] + took, int(lost)))
        free[n % 4] += took + 1
    assert sorted(found) == sorted(expected)


def test_lines_of_k6_with_spaces(tmp_path: Path) -> None:
    text = (FILES / "k6.json").read_text()
    (tmp_path / "k6.json").write_text(text.replace('":', '": ').replace(',"', ', "').replace("http: //", "http://"))
    assert readers.read(tmp_path / "k6.json").requests().collect().equals(read("k6.json").requests().collect())


def test_whole_seconds_of_k6_keep_response_times_and_connect_times() -> None:
    run = read("k6.csv")
    took = run.requests().select((pl.col("end") - pl.col("sent")) // MILLISECOND).collect().to_series().sort()
    assert took.to_list()[-2:] == [20 + 9 % 3 + 1003, 20 + 22 % 3 + 1003]
    assert run.requests().select(pl.col("drops").sum()).collect().item() == 2


def test_statuses_and_names() -> None:
    run = read("jmeter.jtl")
    statuses = run.requests().select(pl.col("status").cast(pl.String)).collect().to_series().value_counts()
    assert dict(statuses.rows()) == {"ok": 39, "503": 1, "refused": 1}
    assert run.lost() == {"jmeter.jtl: damaged lines": 1}
    assert [(server.name) for server in run.topology.servers] == ["10.0.0.3:8080"]
    names = read("jmeter.xml").requests().select(pl.col("interaction").cast(pl.String)).collect().to_series()
    assert names.unique().to_list() == ["item {id}"]


def test_jmeter_without_the_names_of_its_columns(tmp_path: Path) -> None:
    whole = (FILES / "jmeter.jtl").read_text().split("\n", 1)[1]
    (tmp_path / "jmeter.jtl").write_text(whole)
    run = readers.read(tmp_path / "jmeter.jtl", out=tmp_path / "run")
    assert run.requests().collect().equals(read("jmeter.jtl").requests().collect())
    (tmp_path / "other.csv").write_text(whole.replace(",true,", ",yes,").replace(",false,", ",no,"))
    with pytest.raises(InputError):
        readers.read(tmp_path / "other.csv", out=tmp_path / "other")


def test_samples_inside_a_sample_are_no_requests_and_a_transaction_is_none() -> None:
    run = read("jmeter.xml")
    assert run.requests().collect().height == 24
    assert "samples of transactions contain other samples and are left out (1)" in " ".join(run.manifest.notes)


def test_a_closed_loop_is_recognised_and_its_hidden_requests_are_counted() -> None:
    [said] = [note for note in read("jmeter.jtl").manifest.notes if "usual pace" in note]
    # Each of the two requests of 1,023 and 1,024 ms hides 1,023 // 22 - 1 = 45 at a request each 22 ms.
    assert "one request in 22 ms, about 90 more" in said
    assert "closed loop of 16 clients" in " ".join(read("hey.csv").manifest.notes)


@pytest.mark.parametrize("name", ["vegeta.csv", "vegeta.json"])
def test_a_paced_generator_is_no_closed_loop(name: str) -> None:
    assert "closed loop" not in " ".join(read(name).manifest.notes)


def test_independent_clients_and_paced_ones_are_no_closed_loop() -> None:
    random = np.random.default_rng(1)
    begins = np.cumsum(random.exponential(1e6, 4000)).astype(np.int64)
    took = random.exponential(5e6, 4000).astype(np.int64)
    assert closed_loop(begins, begins + took, None) is None
    paced = np.arange(4000, dtype=np.int64) * 10 * MILLISECOND
    assert closed_loop(paced, paced + 5 * MILLISECOND, None) is None
    one = np.cumsum(took)
    loop = closed_loop(one - took, one, None)
    assert loop is not None
    assert loop.clients == 1
    assert closed_loop(begins, begins + took, np.arange(4000) % 3) is None


def test_real_runs_show_the_attempts_that_their_server_lost() -> None:
    for name, drops in (("hey.csv", 10), ("ab.tsv", 11)):
        run = read(name)
        assert run.requests().collect().height == 240
        slow = run.requests().filter(pl.col("drops") > 0).collect()
        assert slow.height == drops
        assert (slow["end"] - slow["sent"]).min() >= SECOND  # type: ignore[operator]


def test_times_from_the_start_of_the_test_need_the_start_beside_other_files(tmp_path: Path) -> None:
    run = read("hey.csv")
    assert "dated 2000-01-01. Pass --began hey.csv=MOMENT" in " ".join(run.manifest.notes)
    samples = tmp_path / "samples.csv"
    samples.write_text("time,place,metric,value\n1795193340.5,web,cpu_busy,0.5\n")
    with pytest.raises(UsageError, match="cannot be joined with other files") as caught:
        readers.read(FILES / "hey.csv", samples)
    assert "--began hey.csv=" in str(caught.value)
    dated = readers.read(FILES / "hey.csv", samples, began=["hey.csv=2026-11-20T16:49:00Z"])
    first = dated.requests().select(pl.col("sent").min()).collect().item()
    assert T <= first < T + SECOND


def test_several_generators_of_one_test_are_read_together() -> None:
    assert read("jmeter.jtl", "k6.json").requests().collect().height == 41 + 40


def test_the_requests_of_clients_count_before_those_of_a_server(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text('a - - [20/Nov/2026:16:49:01 +0000] "GET / HTTP/1.1" 200 5 "-" "-" msec=1795193341.100 rt=0.020\n')
    run = readers.read(f"web={log}", f"web={FILES / 'jmeter.jtl'}")
    assert run.requests().collect().height == 41
    assert run.visits().collect().height == 1


def test_stamps_at_the_end_of_samples_are_recognised_by_their_threads(tmp_path: Path) -> None:
    head, *lines = (FILES / "jmeter.jtl").read_text().splitlines()[:41]
    moved = [line.split(",") for line in lines if line.count(",") == 16]
    file = tmp_path / "ends.jtl"
    rows = [[str(int(row[0]) + int(row[1])), *row[1:]] for row in moved]
    file.write_text("\n".join([head, *(",".join(row) for row in rows)]) + "\n")
    run = readers.read(file)
    assert run.requests().select(pl.col("sent").min()).collect().item() == T
    assert "its stamps are the ends of the samples" in " ".join(run.manifest.notes)


def test_a_file_that_was_sorted_by_begins_keeps_them(tmp_path: Path) -> None:
    """Each thread sends once, so nothing shows that the stamps are ends."""
    rows = [(i, 1030 if i in (10, 11, 12) else 12) for i in range(40)]
    lines = [f"{T // 10**6 + 100 * i},{took},a,200,tg 1-{i},true" for i, took in rows]
    file = tmp_path / "sorted.jtl"
    file.write_text("\n".join(["timeStamp,elapsed,label,responseCode,threadName,success", *lines]) + "\n")
    run = readers.read(file)
    assert run.requests().select(pl.col("sent").min()).collect().item() == T
    assert "they were sorted, or the stamps are ends" in " ".join(run.manifest.notes)


def test_an_xml_file_with_entities_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.jtl"
    file.write_text('<testResults version="1.2"><!-- --></testResults>'.replace("<!-- -->", "<sample/>"))
    with pytest.raises(InputError, match="no request in it"):
        readers.read(file)
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    file.write_text(f'<?xml version="1.0"?><testResults/>\n<!DOCTYPE t [<!ENTITY e0 "ha">{entities}]><t>&e11;</t>')
    with pytest.raises(InputError):
        readers.read(file)
    file.write_text(f'<?xml version="1.0"?><!-- x --><testResults><sample t="1" ts="1795193340000"/>{"<a>" * 100_000}')
    with pytest.raises(InputError, match="nested more than 64 deep"):
        readers.read(file)


def test_reformatted_json_of_vegeta_is_the_same(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (FILES / "vegeta.json").read_text().splitlines()]
    (tmp_path / "vegeta.json").write_text("\n".join(json.dumps(line) for line in lines))
    again = readers.read(tmp_path / "vegeta.json")
    assert_frame_equal(
        again.requests().collect(),
        read("vegeta.json").requests().collect(),
        categorical_as_str=True,
        check_dtypes=False,
    )


@pytest.mark.parametrize(("query", "lost"), [("0.0001", 1), ("1.0000", 0)])
def test_a_slow_query_for_a_name_is_no_lost_attempt(query: str, lost: int, tmp_path: Path) -> None:
    """hey counts the time to connect from the query on."""
    header = (FILES / "hey.csv").read_text().partition("\n")[0]
    lines = [f"0.0050,0.0005,0.0001,0,0.0045,0,200,{n / 10:.4f}" for n in range(30)]
    (tmp_path / "hey.csv").write_text("\n".join([header, *lines, f"1.0065,1.0015,{query},0,0.005,0,200,3.1\n"]))
    run = read(tmp_path / "hey.csv")
    assert run.requests().collect()["drops"].sum() == lost


def test_of_many_requests_the_first_show_a_closed_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loadtest, "_EXAMINED", 30)
    run = read("jmeter.jtl")
    assert run.requests().collect().height == 41
    [said] = [note for note in run.manifest.notes if "usual pace" in note]
    assert said.endswith("of the first 30 requests")


def test_times_to_connect_that_fit_no_schedule_exclude_no_lost_attempt(tmp_path: Path) -> None:
    """Attempts of some requests were lost, as their times show. What times elsewhere mean is unknown, not absent."""
    head = (FILES / "jmeter.jtl").read_text().splitlines()[0]
    start, slow = T // MILLISECOND, {1000: (1010, 1003), 6000: (1410, 1400)}
    lines = []
    for number in range(1000):
        at = 10 * number
        begin = next((first for first in slow if first <= at < first + 100), None)
        took, connect = (6, 1) if begin is None else slow[begin]
        lines.append(f"{start + at},{took},a,200,OK,t 1-{number},text,true,,5,5,1,1,http://web/a,{took},0,{connect}")
    (tmp_path / "test.jtl").write_text("\n".join([head, *lines]))
    first, second = diagnose(read(tmp_path / "test.jtl")).episodes
    assert "got no answer" in first.findings[1].sentence
    assert second.findings[1].verdict == "unknown"
    assert second.findings[1].missing is not None
    assert "packet capture" in second.findings[1].missing
