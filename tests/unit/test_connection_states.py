"""Every possible packet can be represented; failed attempts are distinguished from requests."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from packets import ACK, RST, SYN, Capture, Connection, End
from tailrace import readers
from tailrace.dataset import Dataset

WEB = ("10.0.0.2", 80)


def read(capture: Capture, folder: Path) -> Dataset:
    return readers.read(capture.save(folder / "packets.pcap"), out=folder / "run")


def requests(capture: Capture, count: int = 20, begin: float = 0.0) -> None:
    for number in range(count):
        Connection(capture, begin + 0.1 * number, ("10.0.0.1", 40000 + number), WEB).open().get().close()


def test_a_packet_to_port_0_costs_nothing(tmp_path: Path) -> None:
    capture = Capture()
    requests(capture)
    for sender in ("10.66.0.1", "10.66.0.2"):
        Connection(capture, 0.5, (sender, 0), ("10.0.0.2", 0)).ask((1.0, 2.0)).accept().get().close()
    capture.tcp(0.7, (("10.66.0.3", 0), WEB), 7, 0, SYN)
    run = read(capture, tmp_path)
    assert run.topology.server("10.0.0.2:0") is not None
    assert run.manifest.rows["requests"] == 22


def scan(capture: Capture, begin: float, ports: range, answer: int | None = None, sender: str = "203.0.113.9") -> None:
    for number, port in enumerate(ports):
        ends: tuple[End, End] = ((sender, 50000), (WEB[0], port))
        capture.tcp(begin + number / 1000, ends, 77 * port, 0, SYN)
        if answer is not None:
            capture.tcp(begin + number / 1000 + 0.0001, (ends[1], ends[0]), 9, 77 * port + 1, answer)


def test_a_scan_and_a_flood_are_no_requests_and_lost_attempts_in_their_midst_are(tmp_path: Path) -> None:
    capture = Capture()
    requests(capture)
    scan(capture, 0.2, range(1000, 2000))
    for number in range(3000):  # three senders, from many ports, to the port that is served
        sender = (f"203.0.113.{number % 3}", 1024 + number)
        capture.tcp(0.5 + number / 1000, (sender, WEB), number * 12345, 0, SYN)
    for number in range(3):
        Connection(capture, 1.0 + number, ("10.0.0.1", 41000 + number), WEB).open((1.0,)).get().close()
    run = read(capture, tmp_path)
    found = run.requests().collect()
    assert (len(found), found["drops"].sum()) == (23, 3)
    [crowd] = run.manifest.connections.apart
    assert (crowd.state, crowd.attempts, crowd.senders, crowd.endpoints) == ("unanswered", 4000, 4, 1001)
    assert crowd.to["10.0.0.2:80"] == 3000
    assert [server.name for server in run.topology.servers] == ["10.0.0.2:80"]
    assert run.manifest.connections.servers["10.0.0.2:80"].attempts == 23


def test_a_refused_scan_is_distinguished_from_a_server_that_refuses(tmp_path: Path) -> None:
    capture = Capture()
    requests(capture, 10)
    scan(capture, 0.0, range(1000, 1100), RST | ACK)
    for number in range(40):  # the server has ended
        ends: tuple[End, End] = (("10.0.0.1", 42000 + number), WEB)
        capture.tcp(5 + number / 100, ends, 7, 0, SYN)
        capture.tcp(5 + number / 100 + 0.0001, (ends[1], ends[0]), 0, 8, RST | ACK)
    run = read(capture, tmp_path)
    statuses = run.requests().collect()["status"].cast(pl.String).value_counts().rows()
    assert dict(statuses) == {"ok": 10, "refused": 40}
    assert run.manifest.connections.servers["10.0.0.2:80"].refused == 40
    [crowd] = run.manifest.connections.apart
    assert (crowd.state, crowd.attempts, crowd.senders, crowd.endpoints) == ("refused", 100, 1, 100)


def test_a_server_without_answers_for_a_while_is_still_reported(tmp_path: Path) -> None:
    capture = Capture()
    requests(capture, 10)
    for number in range(20):  # each of another host, which gives up
        Connection(capture, 5 + number / 100, (f"10.0.1.{number}", 40000), WEB).ask((1.0, 2.0, 4.0))
    requests(capture, 10, begin=60.0)
    found = read(capture, tmp_path).requests().collect()
    assert len(found.filter(found["status"].cast(pl.String) == "abandoned")) == 20
    assert len(found) == 40


def test_requests_and_attempts_without_an_end_are_counted(tmp_path: Path) -> None:
    capture = Capture()
    Connection(capture, 0.0, ("10.0.0.1", 39999), WEB).open().up(0x18, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    requests(capture, 10, begin=290.0)
    Connection(capture, 299.9, ("10.0.0.1", 41000), WEB).ask()
    capture.tcp(300.0, (("10.0.0.1", 41000), ("10.0.0.9", 9)), 1, 1, ACK)
    run = read(capture, tmp_path)
    assert run.manifest.rows["requests"] == 10
    counts = run.manifest.connections.servers["10.0.0.2:80"]
    assert (counts.under_way, counts.attempts_under_way, counts.unanswered) == (1, 1, 0)
    assert counts.under_way_longest_ns == 300_000_000_000


def test_incomplete_handshakes_are_no_losses(tmp_path: Path) -> None:
    capture = Capture()
    requests(capture, 10)
    for number in range(100):
        flood = Connection(capture, 1 + number / 100, (f"203.0.113.{number}", 4000), WEB).up(SYN)
        for wait in (0.0001, 1.0, 2.0):
            flood.ack = 5000
            flood.wait(wait).down(SYN | ACK)
    run = read(capture, tmp_path)
    assert (run.manifest.rows["requests"], run.manifest.rows.get("events", 0)) == (10, 0)
    assert run.manifest.connections.servers["10.0.0.2:80"].half_open == 100
    assert [crowd.state for crowd in run.manifest.connections.apart] == ["half-open"]
