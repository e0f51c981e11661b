"""A hub and its hosts: what is asked of whom, what is refused, and one incident of what two real recorders saw."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import IO

import pytest

from tailrace.dataset import Dataset
from tailrace.errors import UsageError
from tailrace.hub import Hub, reporting, wire
from tailrace.hub import desk as desk_module
from tailrace.hub.admission import Admission
from tailrace.hub.desk import DEAD_S, ROUND_S, STATE, SUFFIX, Desk
from tailrace.hub.explaining import Explaining
from tailrace.hub.reporting import Address, Reporter
from tailrace.hub.serving import Server
from tailrace.hub.wire import Message
from tailrace.units import SECOND
from tailrace.watch import incidents, listing
from tailrace.watch.serving import is_loopback, listen, shown

GOLDEN = Path(__file__).parents[1] / "golden" / "hub"
TOKEN = "0123456789abcdef0123"
NOW = 1_790_000_000 * SECOND
GENEROUS_S = 120


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's clock stands still."""
    monkeypatch.setattr(desk_module.time, "time_ns", lambda: NOW)


def said_by(host: str, *addresses: str, **more: object) -> Message:
    return Message(host, NOW, addresses, **more)  # type: ignore[arg-type]


def noticed(host: str, at: int = NOW, *, peers: tuple[str, ...] = (), addresses: tuple[str, ...] = ()) -> Message:
    return said_by(host, *addresses, begin=at - 10 * SECOND, end=at, peers=peers, reasons=("slow",))


def deliver(desk: Desk, name: str, host: str, peers: tuple[str, ...] = ()) -> HTTPStatus:
    place = desk.place(name, host, "recording.json", 2)
    assert isinstance(place, Path), place
    place.write_text("{}")
    return desk.done(name, host, said_by(host, peers=peers), 0)


def collected(desk: Desk, **neighbours: str) -> str:
    """The incident that web noticed and has sent; its neighbours, given with their addresses, are asked for theirs."""
    for host, address in neighbours.items():
        desk.poll(said_by(host, address), 0)
    name = desk.notice(noticed("web", peers=tuple(neighbours.values())), 0)
    assert isinstance(name, str)
    deliver(desk, name, "web")
    return name


@pytest.mark.usefixtures("still")
class TestDesk:
    def test_neighbours_in_the_call_graph_are_asked_one_after_the_other(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, 60, 10)
        for host, address in (("web", "10.0.0.3"), ("app", "10.0.0.4"), ("db", "10.0.0.5"), ("other", "10.0.0.9")):
            desk.poll(said_by(host, address), 0)
        name = desk.notice(noticed("web", peers=("10.0.0.4",)), 0)
        assert isinstance(name, str)
        assert [wanted.incident for wanted in desk.poll(said_by("app", "10.0.0.4"), 1)] == [name]
        assert desk.poll(said_by("db", "10.0.0.5"), 1) == []
        assert deliver(desk, name, "app", ("10.0.0.5", "10.0.0.3")) is HTTPStatus.OK
        assert desk.poll(said_by("app", "10.0.0.4"), 2) == []
        assert [wanted.incident for wanted in desk.poll(said_by("db", "10.0.0.5"), 2)] == [name]
        deliver(desk, name, "web")
        assert desk.due(3) == []
        deliver(desk, name, "db")
        [closed] = desk.due(5)
        assert (closed.delivered, desk.due(6)) == (["web", "app", "db"], [])
        assert desk.poll(said_by("other", "10.0.0.9"), 6) == []

    def test_a_neighbour_that_the_hub_meets_later_is_asked_then(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, 60, 10)
        name = desk.notice(noticed("web", peers=("10.0.0.4",)), 0)
        assert isinstance(name, str)
        deliver(desk, name, "web")
        assert desk.due(1) == []
        assert [wanted.incident for wanted in desk.poll(said_by("app", "10.0.0.4"), 2)] == [name]
        assert desk.due(ROUND_S + 1) == []
        deliver(desk, name, "app")
        assert [closed.delivered for closed in desk.due(ROUND_S + 1)] == [["web", "app"]]

    def test_notices_of_the_same_minutes_are_one_incident(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, 60, 10)
        first = desk.notice(noticed("web"), 0)
        assert desk.notice(noticed("app", NOW + 20 * SECOND), 1) == first
        later = desk.notice(noticed("web", NOW + 120 * SECOND), 2)
        assert later not in (None, first)
        [closed] = [one for one in desk.due(60) if one.name == first]
        desk.close(closed)
        assert desk.notice(noticed("db", NOW + 5 * SECOND), 61) is None

    def test_times_are_translated_to_the_clock_of_each_host(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, 60, 10)
        desk.poll(replace(said_by("late", "10.0.0.4"), now=NOW - 3_600 * SECOND), 0)
        desk.notice(noticed("web", peers=("10.0.0.4",)), 0)
        [wanted] = desk.poll(replace(said_by("late", "10.0.0.4"), now=NOW - 3_600 * SECOND), 1)
        assert (wanted.begin, wanted.end) == (NOW - 3_610 * SECOND, NOW - 3_600 * SECOND)

    def test_a_dead_host_is_not_waited_for_and_a_slow_one_has_a_deadline(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, 60, 10)
        collected(desk, dead="10.0.0.4", slow="10.0.0.5")
        desk.poll(said_by("slow", "10.0.0.5"), DEAD_S)
        assert desk.due(DEAD_S + 1) == []
        [closed] = desk.due(60)
        assert closed.delivered == ["web"]
        assert set(closed.answered) == {"web", "dead", "slow"}

        alone = Desk(tmp_path / "alone", 60, 10)
        alone.folder.mkdir()
        collected(alone, dead="10.0.0.4")
        assert alone.due(DEAD_S - 1) == []
        assert [closed.delivered for closed in alone.due(DEAD_S + 1)] == [["web"]]

    def test_a_host_that_is_sending_is_waited_for_although_it_asks_nothing(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, 60, 10)
        name = collected(desk, large="10.0.0.4")
        desk.sends("large", DEAD_S)
        assert desk.due(DEAD_S + 1) == []
        deliver(desk, name, "large")
        assert [closed.delivered for closed in desk.due(DEAD_S + 2)] == [["web", "large"]]

    def test_another_hub_goes_on_with_what_was_collected(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, 60, 10)
        name = collected(desk, app="10.0.0.4")
        (tmp_path / f"incident-damaged{SUFFIX}").mkdir()
        (tmp_path / f"incident-damaged{SUFFIX}" / STATE).write_text('{"begin": "x"')
        again = Desk(tmp_path, 60, 10)
        again.take_up(1_000)
        assert [wanted.incident for wanted in again.poll(said_by("app", "10.0.0.4"), 1_001)] == [name]
        assert again.place(name, "web", "recording.json", 2) is HTTPStatus.GONE
        deliver(again, name, "app")
        assert [closed.delivered for closed in again.due(1_010)] == [["web", "app"]]
        assert {path.name for path in tmp_path.iterdir()} == {f"{name}{SUFFIX}", f"incident-damaged{SUFFIX}"}

    def test_only_an_empty_folder_of_an_earlier_hub_is_removed(self, tmp_path: Path) -> None:
        empty, own, foreign = (tmp_path / f"incident-{name}{SUFFIX}" for name in ("empty", "own", "foreign"))
        for folder in (empty, own, foreign):
            folder.mkdir()
        (foreign / "notes.txt").write_text("mine")
        (own / STATE).write_text("{}")
        desk = Desk(tmp_path, 60, 10)
        desk.take_up(0)
        assert sorted(tmp_path.iterdir()) == sorted([own, foreign])
        assert (foreign / "notes.txt").read_text() == "mine"
        assert len([sentence for sentence in desk.said() if "left alone" in sentence]) == 2

    @pytest.mark.parametrize("segment", ["../recording.json", "x.parquet", ".lock", "00000001.packets.pcap.tmp", ""])
    def test_only_segments_of_a_host_that_was_asked_are_taken(self, tmp_path: Path, segment: str) -> None:
        desk = Desk(tmp_path, 60, 10)
        name = desk.notice(noticed("web"), 0)
        assert isinstance(name, str)
        assert desk.place(name, "web", segment, 1) is HTTPStatus.BAD_REQUEST
        assert desk.place(name, "stranger", "recording.json", 1) is HTTPStatus.GONE
        assert desk.place("incident-x", "web", "recording.json", 1) is HTTPStatus.GONE
        assert desk.done(name, "web", said_by("web"), 0) is HTTPStatus.OK
        assert desk.due(10)[0].answered == {"web": "it sent no recording"}

    def test_what_a_host_may_send_is_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        desk = Desk(tmp_path, 60, 10)
        name = desk.notice(noticed("web"), 0)
        assert isinstance(name, str)
        monkeypatch.setattr(desk_module, "RECORDING_BYTES", 100)
        assert isinstance(desk.place(name, "web", "00000001.stays.parquet", 60), Path)
        assert desk.place(name, "web", "00000002.stays.parquet", 60) is HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        # A host whose connection broke sends its files again.
        assert isinstance(desk.place(name, "web", "00000001.stays.parquet", 60), Path)
        monkeypatch.setattr(desk_module, "SEGMENTS_MAX", 1)
        assert desk.place(name, "web", "00000003.stays.parquet", 1) is HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"host": "a/b"}',
        b'{"host": ".."}',
        b'{"host": 3}',
        b'{"host": "web", "now": -1}',
        b'{"host": "web", "now": 1e9}',
        b'{"host": "web", "begin": true}',
        b"[" * 100_000,
    ],
)
def test_a_hostile_message_is_none(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the reason is not shown to anybody)
        wire.message(body)


def test_what_a_message_says_is_bounded_and_safe_to_show() -> None:
    reasons = ["\x1b[2J" + "x" * 10_000] * 1_000
    heard = wire.message(
        json.dumps({"host": "web", "reasons": reasons, "addresses": ["127.0.0.1", 7, "x", "10.0.0.3"]}).encode()
    )
    assert heard.addresses == ("10.0.0.3",)
    assert len(heard.reasons) == wire.REASONS_MAX
    assert all("\x1b" not in reason and len(reason) < 2_000 for reason in heard.reasons)


def certificate(folder: Path) -> Path:
    if not shutil.which("openssl"):
        pytest.skip("needs openssl, to make a certificate")
    words = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    files = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "hub.pem")
    subprocess.run([*words, *files], cwd=folder, check=True, capture_output=True)
    return folder / "hub.pem"


@contextmanager
def serving(
    desk: Desk, tls: ssl.SSLContext | None = None, admission: Admission | None = None, port: int = 0
) -> Iterator[int]:
    server = Server(listen(f"127.0.0.1:{port}"), desk, admission or Admission.shared(TOKEN), tls)
    server.start()
    try:
        yield server.server_address[1]
    finally:
        server.stop()


def asked(port: int, method: str, path: str, body: bytes = b"", token: str = TOKEN, length: str | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GENEROUS_S)
    headers = {"Authorization": f"Bearer {token}", "Content-Length": length if length is not None else str(len(body))}
    connection.putrequest(method, path)
    for key, value in headers.items():
        connection.putheader(key, value)
    connection.endheaders()
    connection.send(body)
    try:
        return connection.getresponse().status
    finally:
        connection.close()


POLL = json.dumps({"host": "web", "now": NOW}).encode()


def test_requests_without_the_token_or_beyond_the_bounds_are_refused(tmp_path: Path) -> None:
    with serving(Desk(tmp_path, 60, 10)) as port:
        assert asked(port, "POST", "/v1/poll", POLL) == 200
        assert asked(port, "POST", "/v1/poll", POLL, token="wrong") == 401
        assert asked(port, "PUT", "/v1/recordings/i/web/recording.json", b"{}", token="") == 401
        assert asked(port, "POST", "/v1/poll", b"{") == 400
        assert asked(port, "POST", "/v1/other", POLL) == 404
        assert asked(port, "POST", "/v1/done/incident-1/another", POLL) == 404
        assert asked(port, "POST", "/v1/poll", length=str(wire.MESSAGE_BYTES + 1)) == 413
        assert asked(port, "PUT", "/v1/recordings/i/web/recording.json", length=str(wire.SEGMENT_BYTES + 1)) == 413
        assert asked(port, "POST", "/v1/poll", length="-1") == 411
        assert asked(port, "PUT", "/v1/recordings/../../etc/passwd", b"x") == 404
        assert asked(port, "PUT", "/v1/recordings/i/%2e%2e/recording.json", b"x") == 404
        assert asked(port, "GET", "/") == 405
        assert asked(port, "POST", "/v1/poll", POLL) == 200
    assert list(tmp_path.iterdir()) == []


def test_a_host_with_a_token_of_its_own_speaks_for_itself_only(tmp_path: Path) -> None:
    other = TOKEN[::-1]
    each = Admission.each(f"# hosts\nweb {TOKEN}\n\napp {other}\n", "tokens")
    with serving(Desk(tmp_path, 60, 10), admission=each) as port:
        assert asked(port, "POST", "/v1/poll", POLL) == 200
        assert asked(port, "POST", "/v1/poll", POLL, token=other) == 403
        assert asked(port, "POST", "/v1/notice", POLL, token=other) == 403
        assert asked(port, "PUT", "/v1/recordings/i/web/recording.json", b"{}", token=other) == 403
        assert asked(port, "POST", "/v1/done/i/web", POLL, token=other) == 403
        assert asked(port, "POST", "/v1/poll", POLL, token="*") == 401


@pytest.mark.parametrize(
    "text", ["", "web", f"web {TOKEN} more", f"../web {TOKEN}", "web short", f"a {TOKEN}\nb {TOKEN}", f"a {TOKEN}\na x"]
)
def test_a_wrong_file_of_tokens_is_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        Admission.each(text, "tokens")
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("::1234", False),
        ("::", False),
        ("0.0.0.0", False),
        ("10.0.0.9", False),
        ("127.0.0.1.example", False),
    ],
)
def test_only_loopback_counts_as_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_addresses_of_ipv6_have_brackets_in_a_url() -> None:
    assert shown("::1", 9465) == "http://[::1]:9465"
    assert shown("10.0.0.9", 80, tls=True) == "https://10.0.0.9:80"
    assert Address("::1", 9465, None).shown == "http://[::1]:9465"


def test_a_body_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 60, 10)
    with serving(desk) as port:
        name = desk.notice(noticed("web", time.time_ns()), time.monotonic())
        path = f"/v1/recordings/{name}/web/00000001.stays.parquet"
        with socket.create_connection(("127.0.0.1", port), timeout=GENEROUS_S) as broken:
            head = f"PUT {path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\nhalf"
            broken.sendall(head.encode())
            broken.shutdown(socket.SHUT_WR)
            assert b" 408 " in broken.recv(4_096)
        assert list((tmp_path / f"{name}{SUFFIX}" / "web").iterdir()) == []
        desk.poll(said_by("web"), -DEAD_S)
        assert asked(port, "PUT", path, b"whole") == 201
        assert desk._hosts["web"].seen > 0
        assert [file.read_bytes() for file in (tmp_path / f"{name}{SUFFIX}" / "web").iterdir()] == [b"whole"]


def test_with_a_certificate_the_hub_speaks_tls_and_its_hosts_check_it(tmp_path: Path) -> None:
    pem = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem, tmp_path / "key.pem")
    folder = tmp_path / "hub"
    folder.mkdir()
    with serving(Desk(folder, 60, 10), tls) as port:
        trusting = reporting.address(f"https://127.0.0.1:{port}", pem)
        assert Reporter(trusting, TOKEN, "web")._asked("POST", "/v1/poll", said_by("web")) == {"wanted": []}
        doubting = reporting.address(f"https://127.0.0.1:{port}", None)
        with pytest.raises(ssl.SSLCertVerificationError):
            Reporter(doubting, TOKEN, "web")._asked("POST", "/v1/poll", said_by("web"))


@pytest.mark.parametrize("url", ["http://10.0.0.9:9465", "ftp://h", "https://", "https://h:x", "https://h/path", "h"])
def test_a_token_never_crosses_a_network_unencrypted(url: str) -> None:
    with pytest.raises(UsageError):
        reporting.address(url, None)


def promptly(words: Sequence[str], out: IO[bytes], why_not: IO[bytes]) -> subprocess.Popen[bytes]:
    """At the usual priority: at the lowest one, a busy machine would leave it no time."""
    return subprocess.Popen((sys.executable, "-m", "tailrace", *words), stdout=out, stderr=why_not)


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + GENEROUS_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@contextmanager
def hub(folder: Path, port: int, said: Path) -> Iterator[subprocess.Popen[bytes]]:
    secret = folder.with_name("token")
    secret.write_text(TOKEN)
    words = ("hub", "-o", str(folder), "--listen", f"127.0.0.1:{port}", "--token-file", str(secret), "--wait", "10min")
    with said.open("ab") as file:
        process = subprocess.Popen((sys.executable, "-m", "tailrace", *words), stdout=file, stderr=file)
    try:
        until(lambda: "hub at" in said.read_text() or process.poll() is not None, "the hub starts")
        yield process
    finally:
        process.kill()
        process.wait()


def watching(folder: Path, host: str, port: int) -> Reporter:
    """The side of a watch whose ring is what a real recorder left."""
    ring = folder / host / "recording"
    shutil.copytree(GOLDEN / host, ring)
    reporter = Reporter(Address("127.0.0.1", port, None), TOKEN, host)
    reporter.begin(ring)
    return reporter


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def polls(port: int, now: int, *hosts: str) -> None:
    """These hosts, which have the address of the server, ask the hub what it wants."""
    for host in hosts:
        polled = {"host": host, "now": now, "addresses": ["10.78.0.2"]}
        assert asked(port, "POST", "/v1/poll", json.dumps(polled).encode()) == 200


def test_two_hosts_are_one_incident_although_the_hub_was_killed(tmp_path: Path) -> None:
    folder, said, port = tmp_path / "incidents", tmp_path / "said.txt", free_port()
    said.touch()
    watched = watching(tmp_path, "client", port)
    end = time.time_ns()
    watched.noticed(end - 10 * SECOND, end, ["5 requests to web took 950 ms or longer"])
    with hub(folder, port, said):
        polls(port, end, "server")
        until(lambda: list(folder.glob(f"*{SUFFIX}/client/recording.json")), said.read_text())
    said.write_text("")
    neighbour = watching(tmp_path, "server", port)
    with hub(folder, port, said) as process:
        until(
            lambda: list(folder.glob("incident-*/report.html")) and (folder / "index.html").exists(), said.read_text()
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(GENEROUS_S) == 0
    for reporter in (watched, neighbour):
        reporter.close()
    [incident] = [path for path in folder.iterdir() if path.is_dir()]
    run = Dataset.open(incident)
    assert run.manifest.rows["visits"] == 308
    assert [clock.capture for clock in run.topology.clocks] == ["client", "server"]
    [found] = listing.of(folder)
    assert (found.failed, found.vlrt, found.dropper, found.cause) == (None, 20, "web", "freeze")
    assert "recordings of client, server" in said.read_text()
    for host in ("client", "server"):
        assert [path.name for path in (tmp_path / host).iterdir()] == ["recording"]


def test_five_hosts_are_one_incident_although_one_is_dead_one_slow_and_one_sends_nonsense(tmp_path: Path) -> None:
    """And the hub is another one in the middle of it."""
    folder, port = tmp_path / "incidents", free_port()
    folder.mkdir()
    end = time.time_ns()

    def answered() -> set[str]:
        return {host for path in folder.glob(f"*{SUFFIX}/{STATE}") for host in json.loads(path.read_text())["answered"]}

    with serving(Desk(folder, 600, 10), port=port):
        polls(port, end, "dead", "slow", "nonsense", "server")
        watched = watching(tmp_path, "client", port)
        watched.noticed(end - 10 * SECOND, end, ["5 requests to web took 950 ms or longer"])
        until(lambda: answered() == {"client"}, "the client sends")
    again = Desk(folder, 600, 10)
    again.take_up(time.monotonic())
    [collecting] = folder.glob(f"*{SUFFIX}")
    name = collecting.name.removesuffix(SUFFIX)
    with serving(again, port=port):
        neighbour = watching(tmp_path, "server", port)
        polls(port, end, "slow", "nonsense")
        assert asked(port, "PUT", f"/v1/recordings/{name}/nonsense/recording.json", b"[" * 1_000) == 201
        assert asked(port, "POST", f"/v1/done/{name}/nonsense", json.dumps({"host": "nonsense"}).encode()) == 200
        until(lambda: answered() == {"client", "server", "nonsense"}, "the others send")
        for reporter in (watched, neighbour):
            reporter.close()
        [closed] = again.due(time.monotonic() + 600)
    late = {host for host, why in closed.answered.items() if "in time" in why}
    assert late == {"dead", "slow"}
    explaining = Explaining(again, closed, promptly)
    until(explaining.step, "it is explained")
    run = Dataset.open(folder / name)
    assert run.manifest.rows["visits"] == 308
    assert {clock.capture for clock in run.topology.clocks} == {"client", "server"}
    assert [note for note in run.manifest.notes if note.startswith("nonsense: it is left out: it cannot be read")]
    said = explaining.said()
    assert "web dropped connection attempts of 14" in said
    assert "(recordings of client, server; without that of nonsense: it cannot be read" in said


def test_a_host_that_loses_its_hub_says_so_once_and_keeps_its_notices(tmp_path: Path) -> None:
    watched = watching(tmp_path, "client", free_port())
    for number in range(reporting.NOTICES_MAX + 1):
        watched.noticed(NOW + number, NOW + number + 1, ["slow"])
    kept = [path.name for path in (tmp_path / "client").iterdir() if path.name != "recording"]
    assert len(kept) == reporting.NOTICES_MAX
    found: list[str] = []
    until(lambda: found.extend(watched.failures()) or len(found) >= 2, "it says so")
    watched.close()
    found += watched.failures()
    assert len([sentence for sentence in found if "the watch goes on" in sentence]) == 1
    assert len([sentence for sentence in found if "later ones wait" in sentence]) == 1


def test_a_recording_that_the_hub_refuses_blocks_no_later_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "RECORDING_BYTES", 100)
    (tmp_path / "hub").mkdir()
    desk = Desk(tmp_path / "hub", 600, 10)
    with serving(desk) as port:
        watched = watching(tmp_path, "client", port)
        large = tmp_path / "client" / "recording" / "99999999.packets.pcap"
        large.write_bytes(bytes(20_000_000))  # more than the buffers of a connection hold
        begin = time.time_ns()
        for number in range(2):
            at = begin - number * 600 * SECOND
            watched.noticed(at - SECOND, at, ["slow"])
        found: list[str] = []
        until(lambda: found.extend(watched.failures()) or len(found) >= 2, "both are refused")
        watched.close()
    assert all("the recording is not taken" in sentence and "413" in sentence for sentence in found)
    closed = desk.due(time.monotonic() + 10)
    assert [one.answered for one in closed] == [{"client": closed[0].answered["client"]}] * 2
    assert "413" in closed[0].answered["client"]


def test_a_notice_that_is_given_up_while_it_is_sent_is_no_fault(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "hub", 600, 10)
    desk.folder.mkdir()
    with serving(desk) as port:
        watched = Reporter(Address("127.0.0.1", port, None), TOKEN, "client")
        watched._recording = tmp_path / "recording"
        shutil.copytree(GOLDEN / "client", watched._recording)
        watched.noticed(NOW, NOW + 1, ["slow"])
        send = watched._send

        def meanwhile(incident: str, kept: Path) -> None:
            send(incident, kept)
            watched._notices.clear()

        watched._send = meanwhile  # type: ignore[method-assign]
        assert watched._round() is False
        assert not watched._notices


def test_the_page_has_each_incident_and_its_failure_is_reported_once(tmp_path: Path) -> None:
    """Incidents that come while a page is written, or soon after, have the next one together."""
    counted, said = tmp_path / "counted", list[str]()
    script = f"open({str(counted)!r}, 'a').write('x'); raise SystemExit('no room')"

    def failing(_words: object, _out: object, why_not: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen((sys.executable, "-c", script), stderr=why_not)

    one = Hub(Desk(tmp_path, 60, 10), said.append)
    one.page = incidents.Page(tmp_path, failing)
    for _ in range(3):
        one._say_of_page(one.page.write())
    one._say_of_page(one.page.wait())
    assert counted.read_text() == "xx"
    assert said == ["the page of incidents could not be written: no room"]


def test_a_folder_without_room_for_the_page_is_reported_and_ends_no_hub(tmp_path: Path) -> None:
    """The folder is gone."""
    said = list[str]()
    one = Hub(Desk(tmp_path, 60, 10), said.append)
    one.page = incidents.Page(tmp_path / "absent")
    for look in (one.page.write, one.page.write, one.page.wait):
        one._look_at_page(look)
    [sentence] = said
    assert "absent" in sentence


def test_recordings_that_are_none_are_kept_and_listed_as_not_explained(tmp_path: Path) -> None:
    folder, said, port = tmp_path / "incidents", tmp_path / "said.txt", free_port()
    said.touch()
    with hub(folder, port, said):
        notice = {"host": "evil", "now": time.time_ns(), "begin": time.time_ns(), "reasons": ["\x1b[2J"]}
        assert asked(port, "POST", "/v1/notice", json.dumps(notice).encode()) == 200
        [collecting] = folder.glob(f"*{SUFFIX}")
        name = collecting.name.removesuffix(SUFFIX)
        for segment in ("recording.json", "00000001.stays.parquet", "00000002.samples.parquet"):
            assert asked(port, "PUT", f"/v1/recordings/{name}/evil/{segment}", b"\x00[[[" * 1_000) == 201
        assert asked(port, "POST", f"/v1/done/{name}/evil", json.dumps({"host": "evil"}).encode()) == 200
        until(lambda: list(folder.glob("*.recording")), said.read_text())
        until(lambda: "could not be explained" in said.read_text(), said.read_text())
    [found] = listing.of(folder)
    assert found.failed
    assert "\x1b" not in said.read_text()
