"""`read()`: the kind of a file, its server, and one run folder from many files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from builders import T0, run, samples, visits
from tailrace import dataset, readers
from tailrace.errors import InputError, TailraceError, UsageError
from tailrace.readers import assembly, capture
from tailrace.readers.source import Source
from tailrace.topology import Call, Node, Server, Topology

CSV = "time,interval,place,metric,value\n" + "".join(
    f"{1795193376 + i / 20:.6f},0.05,web,cpu_busy,0.{i}\n" for i in range(1, 10)
)
GC = "[2026-11-20T16:49:37.000+0000][info][gc] GC(5) Pause Young (Allocation Failure) 150M->14M(494M) 4.859ms\n"


def test_samples_and_a_log_become_one_run_folder(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text(CSV)
    (tmp_path / "gc.log").write_text(GC)
    opened = readers.read(tmp_path / "samples.csv", f"app={tmp_path / 'gc.log'}", out=tmp_path / "run")
    opened.validate(checksums=True)
    assert opened.samples().collect()["value"].to_list()[:2] == [0.1, 0.2]
    assert opened.events().collect().select("place", "kind", "end").rows() == [("app", "gc", 1795193377_000_000_000)]


def test_servers_can_be_named_without_a_capture(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text(CSV)
    opened = readers.read(tmp_path / "samples.csv", servers={"web": "10.0.0.3:80"}, places={"tomcat": "10.0.0.3:80"})
    assert opened.topology.places == {"tomcat": "web"}


def test_without_out_the_run_is_temporary(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text(CSV)
    opened = readers.read(tmp_path / "samples.csv")
    assert opened.path.is_dir()
    assert not opened.path.is_relative_to(tmp_path)


def test_a_run_folder_is_opened_as_it_is_and_can_be_added_to(tmp_path: Path) -> None:
    first = run(tmp_path / "run", visits=visits({}), samples=samples({"value": 0.5}))
    assert readers.read(tmp_path / "run").path == first.path
    with pytest.raises(UsageError, match="already been read and named"):
        readers.read(tmp_path / "run", servers={"web": "10.0.0.3:80"})
    (tmp_path / "more.csv").write_text(CSV)
    both = readers.read(tmp_path / "run", tmp_path / "more.csv", out=tmp_path / "both")
    assert both.samples().collect().height == 10
    assert both.visits().collect().height == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.pcap", b"", "the file is empty"),
        ("cat.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" * 50, "neither a capture"),
        ("notes.txt", b"dear diary\n" * 20, "neither a capture"),
        ("table.csv", b"name,age\nanna,3\n", "its columns are name, age; Tailrace reads a table of time"),
        ("samples.parquet", b"PAR1garbage", "not a readable Parquet file"),
        ("samples.csv", b"time,place,metric,value\n", "there is no sample in it"),
        ("half.csv.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "reading stopped at decompressed byte 0"),
    ],
)
def test_a_file_of_a_wrong_kind_is_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        readers.read(tmp_path / name, out=tmp_path / "run")
    assert name in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to read"):
        readers.read()
    with pytest.raises(InputError, match="no such file"):
        readers.read(tmp_path / "none.pcap")
    (tmp_path / "samples.csv").write_text(CSV)
    with pytest.raises(UsageError, match="ip:port"):
        readers.read(tmp_path / "samples.csv", servers={"web": "web.example:80"})
    with pytest.raises(UsageError, match="has two names"):
        readers.read(tmp_path / "samples.csv", servers={"a": "10.0.0.1:80", "b": "10.0.0.1:80"})
    with pytest.raises(UsageError, match="no server, node or address has the name 10"):
        readers.read(tmp_path / "samples.csv", places={"web": "10.9.9.9"})


REPORT = {
    "servers": [
        {"name": "web", "address": "10.0.0.3:80", "host": "10.0.0.3", "protocol": "http"},
        {"name": "app", "address": "10.0.0.4:8009", "host": "10.0.0.4", "protocol": "ajp"},
        {"name": "db", "address": "10.0.0.5:3306", "host": "10.0.0.5", "protocol": "mysql"},
        {"name": "cache", "address": "10.0.0.5:6379", "host": "10.0.0.5", "protocol": "redis"},
    ],
    "files": [{"path": "a.pcap", "lost_bytes": 7, "losses": [{"offset": 9, "bytes": 7, "reason": "cut short"}]}],
    "counts": {"gap_bytes": 11},
}


def test_the_call_graph_and_the_tiers_follow_from_the_visits() -> None:
    rows = [
        {"server": "web", "caller": "10.0.0.2"},
        {"server": "web", "caller": "10.0.0.2"},
        {"server": "app", "caller": "web"},
        {"server": "db", "caller": "10.0.0.4"},  # the only server on that host
        {"server": "db", "caller": "app"},
        {"server": "cache", "caller": "web"},
        {"server": "cache", "caller": "10.0.0.5"},  # db or the cache itself: not guessed
    ]
    topology = capture.topology_of(REPORT, visits(*rows).lazy())
    assert [(call.caller, call.callee, call.visits_mean) for call in topology.calls] == [
        ("app", "db", 2.0),
        ("web", "app", 0.5),
        ("web", "cache", 0.5),
    ]
    assert {server.name: server.tier for server in topology.servers} == {"web": 1, "app": 2, "cache": 2, "db": 3}
    assert topology.node("10.0.0.5") == Node(name="10.0.0.5", address="10.0.0.5")


def test_the_engines_call_graph_goes_before_counting_callers() -> None:
    edges = [
        {"caller": "web", "callee": "app", "calls_mean": 0.75, "observed": True},
        {"caller": "app", "callee": "db", "calls_mean": 0.0, "observed": False},
    ]
    topology = capture.topology_of({**REPORT, "graph": {"edges": edges}}, None)
    assert [(call.callee, call.visits_mean) for call in topology.calls] == [("app", 0.75), ("db", None)]


def test_servers_that_call_each_other_still_have_tiers() -> None:
    rows = [{"server": "web", "caller": "x"}, {"server": "app", "caller": "web"}, {"server": "web", "caller": "app"}]
    topology = capture.topology_of(REPORT, visits(*rows).lazy())
    assert all(server.tier is not None for server in topology.servers)


def test_losses_and_notes_say_what_the_decoder_could_not_read() -> None:
    assert capture.losses(REPORT) == {
        "a.pcap: bytes that could not be read": 7,
        "bytes missing in holes of the capture": 11,
    }
    assert capture.notes(REPORT) == ["a.pcap: at byte 9: cut short (7 bytes lost)"]
    drifting = {"files": [{"path": "b.pcap", "clock": {"basis": "matched", "offset_ns": 5, "drift_ppm": 2.04}}]}
    assert capture.notes(drifting) == ["b.pcap: its clock drifts by 2.0 ppm, which was corrected"]


INFERRED = Topology(
    nodes=(Node(name="10.0.0.3", address="10.0.0.3"),),
    servers=(Server(name="web", address="10.0.0.3:80", node="10.0.0.3", tier=1, protocol="http"),),
)


def test_a_given_topology_adds_to_what_was_inferred() -> None:
    given = Topology(
        nodes=(Node(name="host7", address="10.0.0.3", cores=4),),
        servers=(Server(name="web", workers=150, queue_max=278),),
    )
    merged = assembly.complete_topology(INFERRED, given, {"cgroup": "10.0.0.3"})
    web = merged.server("web")
    assert web == Server(
        name="web", address="10.0.0.3:80", node="host7", tier=1, protocol="http", workers=150, queue_max=278
    )
    assert merged.places == {"cgroup": "host7"}


@pytest.mark.parametrize(
    ("name", "servers", "place"),
    [
        ("app-gc.log", [("web", "http"), ("app", "http")], "app"),
        ("gc.log", [("web", "http"), ("tomcat", "ajp"), ("db", "mysql")], "tomcat"),
        ("gc.log", [("web", "http"), ("tomcat", "http"), ("db", "mysql")], "tomcat"),
        ("gc.log", [("web", "http")], "jvm"),
        ("gc.log", [("web", "http"), ("a", "ajp"), ("b", "ajp")], "jvm"),
        ("gc.log", [], "jvm"),
    ],
)
def test_the_server_of_a_log(name: str, servers: list[tuple[str, str]], place: str) -> None:
    topology = Topology(
        servers=tuple(Server(name=server, protocol=protocol) for server, protocol in servers),
        calls=tuple(Call(caller=a[0], callee=b[0]) for a, b in pairwise(servers)),
    )
    found, note = assembly.jvm_place(Source(Path(name)), topology)
    assert found == place
    assert (note is None) == (name == "app-gc.log"), "a choice of Tailrace is reported"


def test_an_error_after_reading_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "packets.pcap").write_bytes(b"\xd4\xc3\xb2\xa1")
    with pytest.raises((TailraceError, ImportError)):
        readers.read(tmp_path / "packets.pcap", out=tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packets.pcap"]


def test_content_decides_which_reader_reads_a_file(tmp_path: Path) -> None:
    for content, name in ((CSV, "samples"), (GC, "JVM garbage collection log")):
        sniffing = [reader.name for reader in readers.READERS if reader.sniff("file", content.encode())]
        assert sniffing == [name]
    assert dataset.is_run(run(tmp_path / "run", visits=visits({"departure": T0 + 1})).path)
