"""An error of the engine becomes one sentence, and no half-written file remains."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from builders import visits
from tailrace import _core, readers
from tailrace.errors import InputError, OutputError, TailraceError, UsageError
from tailrace.readers import capture
from tailrace.readers.decoding import PROTOCOLS
from tailrace.readers.segments import PACKETS as SEGMENT
from tailrace.units import SECOND

PCAP = b"\xd4\xc3\xb2\xa1\2\0\4\0" + bytes(9) + b"\1\0\0\1\0\0\0"
Engine = Callable[..., str]


@pytest.fixture
def packets(tmp_path: Path) -> Path:
    path = tmp_path / "packets.pcap"
    path.write_bytes(PCAP)
    return path


def replace_engine(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    monkeypatch.setattr(_core, "decode", engine, raising=False)


def test_the_report_becomes_topology_clocks_losses_and_notes(
    packets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []

    def engine(paths: list[str], out: str, options: str, progress: object) -> str:
        told.append(json.loads(options))
        visits({"server": "web", "caller": "10.0.0.2"}).write_parquet(Path(out) / "visits.parquet")
        clock = {"basis": "matched", "offset_ns": -5, "bound_ns": 7}
        files = [{"path": path, "lost_bytes": 3, "clock": clock} for path in paths]
        servers = [{"name": "web", "address": "10.0.0.3:80", "host": "10.0.0.3", "protocol": "http"}]
        return json.dumps({"files": files, "servers": servers, "notes": ["a note"]})

    replace_engine(monkeypatch, engine)
    second = tmp_path / "more.pcap"
    second.write_bytes(PCAP)
    run = readers.read(packets, second, servers={"web": "10.0.0.3:80", "db": "10.0.0.9:1"}, out=tmp_path / "run")
    assert told == [{"servers": {"web": "10.0.0.3:80", "db": "10.0.0.9:1"}, "segment": SEGMENT}]
    server = run.topology.server("web")
    assert server is not None
    assert (server.tier, server.protocol, server.node) == (1, "http", "10.0.0.3")
    assert [clock.offset_ns for clock in run.topology.clocks] == [-5, -5]
    assert run.manifest.notes == ("a note", "no packet of db (10.0.0.9:1) is in the captures")
    assert set(run.manifest.lost.values()) == {3}


def test_a_server_at_a_loopback_address_is_on_its_machine() -> None:
    servers = [
        {"name": "web", "address": "10.0.0.3:80", "host": "10.0.0.3", "protocol": "http"},
        {"name": "app", "address": "127.0.0.1:5000", "host": "127.0.0.1", "protocol": "http"},
    ]
    edges = [{"caller": "web", "callee": "app", "calls_mean": 1.0, "observed": True}]
    graph = {"edges": edges, "machines": {"app": "10.0.0.3"}}
    topology = capture.topology_of({"servers": servers, "graph": graph}, None)
    assert [(node.name, node.address) for node in topology.nodes] == [("10.0.0.3", "10.0.0.3")]
    assert [(server.name, server.node, server.tier) for server in topology.servers] == [
        ("web", "10.0.0.3", 1),
        ("app", "10.0.0.3", 2),
    ]


def test_what_a_port_speaks_can_be_said(packets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    def engine(paths: list[str], out: str, options: str, progress: object) -> str:
        told.append(json.loads(options))
        return json.dumps({})

    replace_engine(monkeypatch, engine)
    readers.read(packets, protocols={9000: "fastcgi"}, out=tmp_path / "run")
    readers.read(packets, keep_queries=True, out=tmp_path / "kept")
    ports, queries = {"protocols": {"9000": "fastcgi"}}, {"keep_queries": True}
    assert told == [{"servers": {}, "segment": SEGMENT} | each for each in (ports, queries)]
    for protocols in ({9000: "gopher"}, {0: "http"}, {65536: "http"}):
        with pytest.raises(UsageError, match="--protocol"):
            readers.read(packets, protocols=protocols, out=tmp_path / "other")


def test_tls_is_decrypted_with_its_keys(tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "golden" / "captures"
    closed = readers.read(golden / "tls.pcap", out=tmp_path / "closed")
    opened = readers.read(golden / "tls.pcap", keys=golden / "tls.keys", out=tmp_path / "opened")
    within = readers.read(golden / "tls-secrets.pcapng", out=tmp_path / "within")
    protocols = {server.address: server.protocol for server in opened.topology.servers}
    assert set(protocols.values()) == {"http", "mysql", "postgres"}
    assert {server.protocol for server in within.topology.servers} == {"http"}
    assert "127.0.0.1:8443: 6 TLS connections to shop.test (http/1.1)" in closed.manifest.notes
    assert any("encrypted (TLS)" in note for note in closed.manifest.notes)
    assert not any("change of direction" in note for note in opened.manifest.notes)


def test_notes_name_quic_that_is_not_read() -> None:
    report = {"files": [{"path": "a.pcap", "not_tcp": {"QUIC handshake": 7, "UDP": 9}, "quic_connections": 2}]}
    (note,) = capture.notes(report)
    assert note.startswith("7 packets of QUIC handshakes are not read")


def test_quic_with_and_without_its_secrets(tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "golden/captures"
    opened = readers.read(golden / "quic.pcap", keys=golden / "quic.keys", out=tmp_path / "opened")
    visits = opened.visits().select("interaction", "status", "drops", "data_drops").collect()
    assert (visits.height, visits["drops"].sum(), visits["data_drops"].sum()) == (19, 1, 1)
    assert sorted(opened.events().collect()["kind"].cast(str)) == ["data_drop", "drop"]
    closed = readers.read(golden / "quic.pcap", out=tmp_path / "closed")
    assert closed.visits().collect().height == 0
    notes = [note for note in closed.manifest.notes if note.startswith("QUIC")]
    assert "6 connections, 6 of them with a whole handshake" in notes[0]
    assert "1 of which the server wanted a token first (Retry)" in notes[0]
    assert "sent their first packet again 1 times" in notes[1]
    assert any("the requests in 6 connections are not read" in note for note in notes)
    assert not any("not read" in note for note in opened.manifest.notes)


def test_notes_name_lookups_that_were_sent_again(tmp_path: Path) -> None:
    run = readers.read(Path(__file__).parents[1] / "golden/captures/dns.pcap", out=tmp_path / "run")
    assert [note for note in run.manifest.notes if "DNS" in note] == [
        "1 DNS queries over UDP were sent again, of 3; the slowest answer came after 5 s. A client waits for a name "
        "before it connects, and the visit of the server that it then calls does not contain this wait"
    ]
    lost = run.visits().filter(pl.col("data_drops") > 0).collect()
    assert [(row["departure"] - row["sent"]) // SECOND for row in lost.iter_rows(named=True)] == [5]
    assert run.events().collect().height == 1
    report = {"lookups": {"queries": 7, "repeated": 0, "unanswered": 2}}
    assert capture.notes(report) == ["2 of 7 DNS queries over UDP have no answer in the captures, and make no visit"]


def test_a_key_log_that_cannot_be_one_is_refused(packets: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"no keys\n\xff" * 100)
    with pytest.raises(TailraceError, match="SSLKEYLOGFILE"):
        readers.read(packets, keys=text, out=tmp_path / "run")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(TailraceError, match="must be a file"):
            readers.read(packets, keys=path, out=tmp_path / "run")
    with pytest.raises(TailraceError, match="missing"):
        readers.read(packets, keys=tmp_path / "missing", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_engine_reads_the_protocols_that_can_be_said(packets: Path, tmp_path: Path) -> None:
    def engine(protocol: str) -> str:
        return _core.decode([str(packets)], str(tmp_path), json.dumps({"protocols": {"80": protocol}}))

    with pytest.raises(ValueError, match="none of " + ", ".join(PROTOCOLS)):
        engine("gopher")
    for protocol in PROTOCOLS:
        engine(protocol)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            lambda packets, out: OSError(errno.EACCES, "no", str(packets)),
            InputError,
            "packets.pcap: permission to read",
        ),
        (lambda packets, out: OSError(errno.ENOSPC, "no", f"{out}/visits.parquet"), OutputError, "the disk is full"),
        (lambda packets, out: ValueError(f"{out}/visits.parquet: (os error 28)"), OutputError, "the disk is full"),
        (
            lambda packets, out: ValueError(f"{packets}: at byte 24: x; y"),
            TailraceError,
            "packets.pcap: at byte 24: x; y",
        ),
        (lambda packets, out: KeyboardInterrupt(), KeyboardInterrupt, ""),
    ],
)
def test_an_error_of_the_engine_is_one_sentence_and_leaves_no_files(
    packets: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Callable[[Path, str], BaseException],
    kind: type[BaseException],
    words: str,
) -> None:
    def engine(paths: list[str], out: str, options: str, progress: object) -> str:
        (Path(out) / "visits.parquet").write_bytes(b"half")
        raise error(packets, out)

    replace_engine(monkeypatch, engine)
    with pytest.raises(kind) as caught:
        readers.read(packets, out=tmp_path / "run")
    assert words in str(caught.value)
    assert str(caught.value).count("packets.pcap") <= 1
    assert [path.name for path in tmp_path.iterdir()] == ["packets.pcap"]
