"""What identifies a person, or is secret, does not reach a run folder, a report or a trace, wherever it was sent."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

import tailrace as tr
from packets import ACK, PSH, Capture, Connection
from tailrace import _core
from tailrace.dataset import TABLES, Dataset
from tailrace.diagnosis.finding import Diagnosis

SLOW = 3.0
"""Seconds, so that the report tells of each request."""
CLIENT = "203.0.113.77"
_JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"HS256"}', b'{"sub":"a"}', b"sign")
)
FORMS: dict[str, str] = {
    "word": "wq{n}ally",
    "name": "anna.wq{n}ova",
    "mail": "wq{n}ana@example.org",
    "phone": "+49151wq{n}77",
    "key": "sk_live_wq{n}H8xYz",
    "jwt": _JWT + "wq{n}sig",
    "hex": "9fceb02dwq{n}ae598e95",
}


@dataclass
class Secrets:
    """Texts that are sent, each at one place; what of them is found again tells which place leaks."""

    form: str
    sent: dict[str, str] = field(default_factory=dict)

    def at(self, place: str) -> str:
        """The letters differ from place to place, and a plain word stays one."""
        letters = "".join(chr(ord("a") + int(digit)) for digit in f"{123 + 7 * len(self.sent)}")
        self.sent[place] = f"wq{letters}"
        return self.form.replace("wq{n}", self.sent[place])

    def leaked(self, content: bytes) -> list[str]:
        low = content.lower()
        return [place for place, mark in self.sent.items() if mark.encode() in low]


class Talk:
    """Connections of clients to servers; each begins a second after the one before."""

    def __init__(self) -> None:
        self.capture = Capture()
        self.at = 1.0

    def connect(self, port: int) -> Connection:
        self.at += 1.0
        return Connection(self.capture, self.at, (CLIENT, 40_000 + int(self.at)), ("10.0.0.3", port)).open()

    def exchange(self, port: int, request: bytes, response: bytes) -> None:
        say(self.connect(port), request, response).close()


def say(connection: Connection, request: bytes, response: bytes) -> Connection:
    connection.wait(0.0001).up(PSH | ACK, request)
    return connection.wait(SLOW).down(PSH | ACK, response)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def http(talk: Talk, secrets: Secrets) -> None:
    def get(target: str, head: str = "", method: str = "GET", answer: bytes = OK) -> None:
        talk.exchange(80, f"{method} {target} HTTP/1.1\r\nHost: a\r\n{head}\r\n".encode(), answer)

    at = secrets.at
    for _ in range(8):
        get("/index.html")
        get("/users/4711/edit")
    get(f"/users/{at('segment')}/edit")
    get(f"/{at('first segment')}")
    get(f"/{at('first of two')}/{at('second of two')}")
    get(f"/reset/{at('page')}.html")
    get(f"/files/page.{at('extension')[:5]}")
    get(f"/files/{at('static file')}.png")
    get(f"/files/{at('folder')}.css/")
    get(f"/index.html?token={at('query')}")
    get(f"/index.html;session={at('parameter')}")
    get(f"/index.html#{at('fragment')}")
    get(f"/index.html/{at('behind a page')}")
    get(f"http://{at('user')}:{at('password')}@{at('host')}.example.org/index.html")
    get(f"{at('no path')}")
    get(f"//{at('double slash')}")
    get("/index.html", method=at("method"))
    get(
        "/index.html",
        f"Host: {at('Host')}\r\nCookie: s={at('Cookie')}\r\nAuthorization: Bearer {at('Authorization')}\r\n",
    )
    get("/index.html", f"User-Agent: {at('agent')}\r\nX-Request-Id: {at('request id')}\r\nReferer: {at('referer')}\r\n")
    get("/index.html", f"{at('header')}: 1\r\n")
    get(
        "/index.html",
        answer=f"HTTP/1.1 500 {at('reason')}\r\nContent-Length: 2\r\nX: {at('answer')}\r\n\r\nok".encode(),
    )
    get("/index.html", answer=OK.replace(b"\r\n\r\nok", f"\r\nSet-Cookie: {at('set')}\r\n\r\nok".encode()))
    twice = at("seen twice")
    get(f"/users/{twice}/edit")
    get(f"/users/{twice}/edit")
    body = at("body").encode()
    talk.exchange(80, b"POST /index.html HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body), OK)


def redis(talk: Talk, secrets: Secrets) -> None:
    def command(*words: str, answer: bytes = b"+OK\r\n") -> None:
        parts = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        talk.exchange(6379, f"*{len(words)}\r\n{parts}".encode(), answer)

    at = secrets.at
    for _ in range(4):
        command("PING")
    command("AUTH", at("AUTH user"), at("AUTH password"))
    command("GET", f"session:{at('key of GET')}")
    command("SET", at("key of SET"), at("value"))
    command(at("no command"))
    command(at("no command with words"), at("its word"))
    command("GET", "x", answer=f"-{at('error word').upper()} {at('error text')}\r\n".encode())
    command("CLIENT", "SETNAME", at("name of client"))
    command("EVAL", f"return '{at('script')}'", "0")
    talk.exchange(6379, f"{at('inline')} x\r\n".encode(), b"-ERR\r\n")
    talk.exchange(6379, b"PING\r\n", b"+PONG\r\n")


def mysql_packet(number: int, payload: bytes) -> bytes:
    return struct.pack("<I", len(payload))[:3] + bytes([number]) + payload


def mysql(talk: Talk, secrets: Secrets) -> None:
    fine = mysql_packet(1, b"\0\0\0\2\0\0\0")
    caps = 0x00_08_AA_0D
    greeting = b"\x0a8.0.0\0" + bytes([1, 0, 0, 0]) + b"authauth\0" + struct.pack("<H", caps & 0xFFFF) + b"\x21\2\0"
    greeting += struct.pack("<H", caps >> 16) + bytes([21]) + bytes(10) + b"authauthauth\0" + b"mysql_native_password\0"
    at = secrets.at
    login = struct.pack("<IIB", caps, 1 << 24, 0x21) + bytes(23) + at("login").encode() + b"\0\x04abcd"
    login += at("database").encode() + b"\0mysql_native_password\0"

    def statements(*texts: bytes) -> None:
        connection = talk.connect(3306)
        connection.wait(0.001).down(PSH | ACK, mysql_packet(0, greeting))
        connection.wait(0.001).up(PSH | ACK, mysql_packet(1, login))
        connection.wait(0.001).down(PSH | ACK, mysql_packet(2, b"\0\0\0\2\0\0\0"))
        for text in texts:
            say(connection, mysql_packet(0, text), fine)
        connection.close()
        talk.at = connection.at

    def query(text: str) -> bytes:
        return b"\x03" + text.encode()

    statements(*[query("UPDATE stories SET a=1")] * 4)
    statements(
        query(f"UPDATE stories SET a='{at('literal')}'"),
        query(f"DELETE FROM {at('table')} WHERE 1"),
        query(f"DELETE FROM `{at('quoted table')}` WHERE 1"),
        query(f"DELETE FROM {at('schema')}.stories"),
        query(f"{at('no statement')}"),
        query(f"{at('no statement')} FROM stories"),
        query(f"/* {at('comment')} */ DELETE FROM stories -- {at('comment at the end')}"),
        query(f"CREATE USER {at('new user')} IDENTIFIED BY '{at('new password')}'"),
        query(f"SET PASSWORD = '{at('set password')}'"),
        query(f"USE {at('used database')}"),
        query(f"CALL {at('procedure')}('{at('argument')}')"),
        query(f"CREATE TABLE {at('new table')} (a int)"),
        query(f"WITH {at('expression')} AS (SELECT 1) DELETE FROM stories"),
        b"\x02" + at("database of a command").encode(),
        b"\x16" + f"DELETE FROM {at('prepared table')} WHERE a = ?".encode(),
    )


def postgres(talk: Talk, secrets: Secrets) -> None:
    def message(kind: bytes, content: bytes) -> bytes:
        return kind + struct.pack(">I", len(content) + 4) + content

    at, ready = secrets.at, message(b"Z", b"I")
    startup = f"user\0{at('user')}\0database\0{at('database')}\0application_name\0{at('application')}\0\0".encode()
    done = message(b"C", b"UPDATE 1\0") + ready

    def statements(*texts: str, answer: bytes = done) -> None:
        connection = talk.connect(5432)
        connection.wait(0.001).up(PSH | ACK, message(b"", struct.pack(">I", 196_608) + startup))
        connection.wait(0.001).down(PSH | ACK, message(b"R", bytes(4)) + ready)
        for text in texts:
            say(connection, message(b"Q", text.encode() + b"\0"), answer)
        connection.close()
        talk.at = connection.at

    statements(*["UPDATE stories SET a=1"] * 4)
    statements(
        f"UPDATE stories SET a='{at('literal')}'",
        f'DELETE FROM "{at("quoted table")}"',
        f"SELECT {at('column')} FROM public.{at('table')}",
        f"SELECT $${at('dollars')}$$ FROM stories",
        f"LISTEN {at('channel')}",
        f"COPY {at('copied')} FROM STDIN",
        f"{at('no statement')}",
    )
    error = f"SERROR\0C42P01\0M{at('error')}\0\0".encode()
    statements("UPDATE stories SET a=1", answer=message(b"E", error) + ready)


def fastcgi(talk: Talk, secrets: Secrets) -> None:
    def record(kind: int, content: bytes) -> bytes:
        return struct.pack(">BBHHBB", 1, kind, 1, len(content), 0, 0) + content

    def ask(**variables: str) -> None:
        pairs = b"".join(
            bytes([len(name), len(value)]) + name.encode() + value.encode() for name, value in variables.items()
        )
        request = record(1, b"\0\1\0\0\0\0\0\0") + record(4, pairs) + record(4, b"") + record(5, b"")
        answer = record(6, b"Status: 200 OK\r\n\r\nok") + record(6, b"") + record(3, bytes(8))
        talk.exchange(9000, request, answer)

    at = secrets.at
    for _ in range(4):
        ask(REQUEST_METHOD="GET", REQUEST_URI="/index.php", SCRIPT_NAME="/index.php")
    ask(REQUEST_METHOD="GET", REQUEST_URI=f"/index.php/{at('uri')}?q={at('uri query')}", SCRIPT_NAME="/index.php")
    ask(REQUEST_METHOD="GET", SCRIPT_NAME=f"/{at('script')}.php", QUERY_STRING=at("query string"))
    ask(REQUEST_METHOD=at("method"), REQUEST_URI="/index.php", REMOTE_USER=at("remote user"))
    ask(REQUEST_METHOD="GET", REQUEST_URI="/index.php", SERVER_NAME=at("server"), REMOTE_ADDR=at("address"))


def memcached(talk: Talk, secrets: Secrets) -> None:
    at = secrets.at
    talk.exchange(11211, f"get {at('key')} {at('second key')}\r\n".encode(), b"END\r\n")
    value = at("value").encode()
    talk.exchange(11211, f"set {at('stored key')} 0 0 {len(value)}\r\n".encode() + value + b"\r\n", b"STORED\r\n")
    talk.exchange(11211, b"incr a 1\r\n", f"CLIENT_ERROR {at('error')}\r\n".encode())
    answer = f"VALUE {at('answered key')} 0 {len(value)}\r\n".encode() + value + b"\r\nEND\r\n"
    talk.exchange(11211, b"get a\r\n", answer)
    key = at("binary key").encode()
    request = struct.pack(">BBHBBHIIQ", 0x80, 0, len(key), 0, 0, 0, len(key), 1, 0) + key
    talk.exchange(11211, request, struct.pack(">BBHBBHIIQ", 0x81, 0, 0, 0, 0, 1, len(key), 1, 0) + key)


def mongodb(talk: Talk, secrets: Secrets) -> None:
    def document(**fields: str) -> bytes:
        inside = b"".join(
            b"\x02" + name.encode() + struct.pack("<xI", len(text.encode()) + 1) + text.encode() + b"\0"
            for name, text in fields.items()
        )
        return struct.pack("<I", len(inside) + 5) + inside + b"\0"

    def message(number: int, to: int, **fields: str) -> bytes:
        content = bytes(5) + document(**fields)
        return struct.pack("<IIII", len(content) + 16, number, to, 2013) + content

    def ask(**fields: str) -> None:
        talk.exchange(27017, message(1, 0, **fields), message(2, 1, answer=at("answer")))

    at = secrets.at
    for _ in range(4):
        ask(find="stories")
    ask(find="stories", filter=at("filter"), comment=at("comment"))
    ask(find=at("collection"), **{"$db": at("database")})
    ask(**{at("command"): "a"})
    ask(saslStart=at("login"), payload=at("payload"))
    twice = at("seen twice")
    ask(insert=twice)
    ask(insert=twice)


def cassandra(talk: Talk, secrets: Secrets) -> None:
    def frame(version: int, opcode: int, body: bytes) -> bytes:
        return struct.pack(">BBHBI", version, 0, 1, opcode, len(body)) + body

    def statement(text: str) -> None:
        asked = frame(4, 7, struct.pack(">I", len(text.encode())) + text.encode() + b"\0\1\0")
        talk.exchange(9042, asked, frame(0x84, 0, struct.pack(">I", 0x2200) + at("error").encode()))

    at = secrets.at
    for _ in range(4):
        statement("SELECT title FROM stories")
    statement(f"SELECT {at('column')} FROM stories WHERE id = '{at('literal')}'")
    statement(f"DELETE FROM {at('table')} WHERE a = 1")
    statement(f"{at('no statement')}")
    talk.exchange(9042, frame(4, 15, at("password").encode()), frame(0x84, 16, at("token").encode()))


def others(talk: Talk, secrets: Secrets) -> None:
    """Protocols whose names are those of their own operations."""
    at = secrets.at
    who, word = at("name").encode(), at("password").encode()
    bind = b"\x02\x01\x03\x04" + bytes([len(who)]) + who + b"\x80" + bytes([len(word)]) + word
    operation = b"\x02\x01\x01\x60" + bytes([len(bind)]) + bind
    talk.exchange(
        389, b"\x30" + bytes([len(operation)]) + operation, b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x31\4\0\4\0"
    )
    client, topic = at("client id").encode(), at("topic").encode()
    asked = struct.pack(">HHIH", 3, 1, 7, len(client)) + client + struct.pack(">IH", 1, len(topic)) + topic
    talk.exchange(9092, struct.pack(">I", len(asked)) + asked, struct.pack(">II", 8, 7) + bytes(4))
    queue = at("queue").encode()
    method = struct.pack(">HHHB", 50, 10, 0, len(queue)) + queue + bytes(5)
    answer = struct.pack(">HHB", 50, 11, len(queue)) + queue + bytes(8)
    frames = [struct.pack(">BHI", 1, 1, len(part)) + part + b"\xce" for part in (method, answer)]
    talk.exchange(5672, *frames)
    label = at("host name").encode()
    question = bytes([len(label)]) + label + b"\0\0\1\0\1"
    messages = [struct.pack(">HHHHHH", 7, flags, 1, 0, 0, 0) + question for flags in (0x0100, 0x8180)]
    talk.exchange(53, *(struct.pack(">H", len(message)) + message for message in messages))


def opaque(talk: Talk, secrets: Secrets) -> None:
    talk.exchange(25, f"EHLO {secrets.at('smtp')}\r\n".encode(), f"250 {secrets.at('smtp answer')}\r\n".encode())
    name = secrets.at("server name").encode()
    talk.exchange(
        443,
        b"\x16\x03\x01" + struct.pack(">H", 60) + b"\x01\0\0\x38\x03\x03" + bytes(34) + name,
        b"\x15\x03\x01\0\2\2\x28",
    )


PROTOCOLS: tuple[Callable[[Talk, Secrets], None], ...] = (
    *(http, redis, mysql, postgres, fastcgi, opaque),
    *(memcached, mongodb, cassandra, others),
)


def written(run: Dataset, found: Diagnosis, folder: Path) -> Iterator[bytes]:
    """Every file that Tailrace writes of a run, tables with nothing compressed, too."""
    tr.write_report(run, found, folder / "report.html")
    tr.write_perfetto(run, found, folder / "trace.pftrace")
    for path in (*run.path.rglob("*"), folder / "report.html", folder / "trace.pftrace"):
        if path.is_file():
            yield path.read_bytes()
    for table in TABLES.values():
        if run.has(table.name):
            yield pl.read_parquet(run.path / table.file).write_ndjson().encode()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_identifies_a_person_reaches_nothing_that_is_written(
    protocol: Callable[[Talk, Secrets], None], form: str, tmp_path: Path
) -> None:
    talk, secrets = Talk(), Secrets(FORMS[form])
    protocol(talk, secrets)
    run = tr.read(talk.capture.save(tmp_path / "packets.pcap"), out=tmp_path / "run")
    found = tr.diagnose(run)
    assert found.episodes
    leaks = {leak for content in written(run, found, tmp_path) for leak in secrets.leaked(content)}
    assert leaks == set()
    assert not any(CLIENT.encode() in content for content in written(run, found, tmp_path))


def test_folders_of_the_user_are_not_in_the_run_folder(tmp_path: Path) -> None:
    talk, secrets = Talk(), Secrets("wq{n}")
    folders = [tmp_path / secrets.at("folder") / host for host in ("web", "app")]
    http(talk, Secrets("x"))
    for folder in folders:
        folder.mkdir(parents=True)
        capture = talk.capture.save(folder / "packets.pcap")
        capture.write_bytes(capture.read_bytes() + b"cut off")
    run = tr.read(*(folder / "packets.pcap" for folder in folders), out=tmp_path / "run")
    assert [clock.capture for clock in run.topology.clocks] == ["web/packets.pcap", "app/packets.pcap"]
    assert any(what.startswith("web/packets.pcap: ") for what in run.manifest.lost)
    assert not {leak for path in run.path.iterdir() for leak in secrets.leaked(path.read_bytes())}


def test_readers_of_text_fold_rare_words_too() -> None:
    counts = [
        ("web", "GET /index.html", 3),
        ("web", "GET /u/alice", 2),
        ("web", "GET /u/bob/edit", 1),
        ("db", "PING", 1),
        ("app", "GET /u/alice", 2),
        ("web", "GET /carol.php", 1),
        ("web", "GET /reset.php", 1),
        ("web", "GET /", 1),
    ]
    assert dict(_core.without_rare_words(counts)) == {
        "GET /index.html": "GET /index.html",
        "GET /u/alice": "GET /u/{}",
        "GET /u/bob/edit": "GET /u/{}/edit",
        "GET /carol.php": "GET /{}.php",
        "GET /reset.php": "GET /reset.php",
        "GET /": "GET /",
    }
