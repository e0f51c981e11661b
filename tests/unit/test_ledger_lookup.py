"""Queries for names that had no answer: captures of a server that asks for the address of app before it connects."""

from __future__ import annotations

import ipaddress
import random
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from packets import ACK, PSH, Capture, Connection, End
from plans import made
from tailrace import diagnose, readers
from tailrace.diagnosis import Diagnosis
from tailrace.diagnosis.serialise import as_dict
from tailrace.errors import InputError
from tailrace.experiment import from_table
from tailrace.score import score
from tailrace.units import SECOND

WEB, APP, DNS, OTHER = "10.0.0.2", "10.0.0.3", "10.0.0.53", "10.0.0.7"
QUESTION = b"\3app\5local\0" + struct.pack(">HH", 1, 1)
COUNT, EVERY = 600, 0.05


def datagram(capture: Capture, at: float, ends: tuple[End, End], data: bytes) -> None:
    (source, port), (destination, to_port) = ends
    head = struct.pack(">HHHH", port, to_port, 8 + len(data), 0)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(data), len(capture.packets) % 2**16, 0, 64, 17, 0)
    ip += ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    capture.packets.append((at, bytes(12) + b"\x08\0" + ip + head + data))


def look_up(capture: Capture, at: float, number: int, host: str, *, again: bool) -> float:
    """Ask for the address of app, and 5 s later once more if there was no answer. Returns when the answer came."""
    asks, end = (host, 20_000 + number), at + 5 * again + 0.0008
    for begin in (at, at + 5)[: 1 + again]:
        query = struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + QUESTION
        datagram(capture, begin, (asks, (DNS, 53)), query)
    answer = struct.pack(">HHHHHH", number, 0x8180, 1, 1, 0, 0) + QUESTION + b"\xc0\x0c"
    answer += struct.pack(">HHIH", 1, 1, 0, 4) + ipaddress.ip_address(APP).packed
    datagram(capture, end, ((DNS, 53), asks), answer)
    return end


def diagnosis(path: Path, again: Collection[int] = (), slow: Collection[int] = (), elsewhere: int = 0) -> Diagnosis:
    """Of requests whose query for a name was sent `again`, and of those for which app was `slow` for 5 s. Meanwhile,
    another host sends so many queries again."""
    capture, rng = Capture(), random.Random(3)
    for number in range(COUNT):
        at = 1 + number * EVERY
        client = Connection(capture, at, (f"10.0.1.{number % 20}", 10_000 + number), (WEB, 80)).open()
        client.wait(0.0001).up(PSH | ACK, b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n")
        known = look_up(capture, client.at + 0.0003, number, WEB, again=number in again)
        call = Connection(capture, known + 0.0002, (WEB, 30_000 + number), (APP, 8080)).open()
        call.get(5.0 if number in slow else 0.004 + rng.random() * 0.002).close()
        client.at = call.at + 0.0005
        client.down(PSH | ACK, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").close()
    for number in range(elsewhere):
        look_up(capture, 5 + number, 1000 + number, OTHER, again=True)
    names = {"web": f"{WEB}:80", "app": f"{APP}:8080", "dns": f"{DNS}:53"}
    return diagnose(readers.read(capture.save(path / "web.pcap"), servers=names))


def causes(found: Diagnosis) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in found.summary:
        counts[row.cause] = counts.get(row.cause, 0) + row.vlrt
    return counts


def test_a_query_that_was_sent_again_is_why_its_request_waited(tmp_path: Path) -> None:
    found = diagnosis(tmp_path, again=range(150, 550, 50))
    assert found.vlrt == 8
    assert causes(found)["dns"] == 8
    text = " ".join(found.answer)
    assert "queries for names" in text or "names whose queries were sent again" in text
    assert "had no answer and were sent again from web to dns" in text
    told = next(episode for episode in found.episodes if episode.cause == "dns")
    assert told.origin is None
    assert "from web to dns, 1 of 1 very long request" in told.findings[4].sentence


def test_a_slow_server_is_no_query_without_an_answer(tmp_path: Path) -> None:
    found = diagnosis(tmp_path, slow=range(150, 550, 50))
    assert found.vlrt == 8
    assert "dns" not in causes(found)


def test_queries_of_others_that_were_sent_again_meanwhile_are_not_charged(tmp_path: Path) -> None:
    found = diagnosis(tmp_path, slow=range(150, 550, 50), elsewhere=20)
    assert "dns" not in causes(found)


def shop(*stalls: dict[str, Any]) -> dict[str, Any]:
    """For each page, the web server asks for the address of app before it calls app."""
    return {
        "seed": 5,
        "duration": "30 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "kernel": {"syn": "linux-6.5"},
        "tiers": {
            "web": {"workers": 60, "backlog": 30, "calls": {"names": {}, "app": {"kept": False, "pool": 0}}},
            "names": {"kind": "async", "protocol": "dns"},
            "app": {"workers": 60, "backlog": 60},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.4 ms", "calls": {"A app": 1, "servlet": 1}}}},
            "A app": {"at": {"names": {"compute": "0.1 ms"}}},
            "servlet": {"at": {"app": {"compute": "1 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 100, "interaction": "page", "entry": "web"}},
        "stalls": [{"at": "8 s", "for": "300 ms", **stall} for stall in stalls],
    }


def test_a_simulated_resolver_asks_again_after_5_s_and_gives_up_after_10(tmp_path: Path) -> None:
    run = made(shop({"kind": "dns", "place": "names", "for": "6 s", "share": 0.3}), tmp_path / "run")
    asked = run.visits().filter(pl.col("server") == "names", pl.col("data_drops") == 1).collect()
    assert set((asked["departure"] - asked["sent"]) // SECOND) == {5}
    failed = run.requests().filter(pl.col("status") != "ok").collect()
    assert set((failed["end"] - failed["sent"]) // SECOND) == {10}


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_a_simulated_query_without_an_answer_is_right_by_simulating_without(share: float, tmp_path: Path) -> None:
    run = made(shop({"kind": "dns", "place": "names", "share": share, "for": f"{0.3 / share} s"}), tmp_path / "run")
    found = score(run, as_dict(diagnose(run)))
    assert found.vlrt > 10
    assert found.causes["dns"]["right"] == found.vlrt
    assert found.wrong == 0


@pytest.mark.parametrize(
    "stall",
    [
        {"kind": "freeze", "place": "names", "for": "1.5 s"},
        {"kind": "freeze", "place": "app", "for": "1.5 s"},
        {"kind": "packet-loss", "place": "app"},
    ],
    ids=["the server of names stops", "app stops", "the path to app loses packets"],
)
def test_what_delays_a_page_otherwise_is_no_query_without_an_answer(stall: dict[str, Any], tmp_path: Path) -> None:
    found = diagnose(made(shop(stall), tmp_path / "run"))
    assert found.vlrt > 10
    assert causes(found) == {stall["kind"]: found.vlrt}


def test_only_a_server_of_names_leaves_queries_without_an_answer() -> None:
    with pytest.raises(InputError, match="stalls"):
        from_table(shop({"kind": "dns", "place": "app"}))
