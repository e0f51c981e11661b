"""What servers run, by what they say in captures, and what of that they may only pass on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from packets import ACK, PSH, Capture, Connection
from tailrace.advise.software import NAMED
from tailrace.anonymise import vocabulary
from tailrace.cli import perform
from tailrace.dataset import Dataset
from tailrace.readers import captured_software
from tailrace.topology import Server, Topology


def server(name: str, protocol: str = "http", **said: str | None) -> dict[str, Any]:
    return {"name": name, "protocol": protocol, "software": {"server": None, "via": None, "powered_by": None, **said}}


def alone(protocol: str = "http", **said: str | None) -> str | None:
    return captured_software.of([server("one", protocol, **said)], ()).get("one")


def lines(text: str | None) -> tuple[str, ...] | None:
    return next((tuple(found) for part, found in NAMED.items() if part in (text or "").lower()), None)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("nginx/1.24.0 (Ubuntu)", ("nginx",)),
        ("openresty/1.21.4.1", ("nginx",)),
        ("Apache/2.4.57 (Debian) PHP/8.2 mod_jk/1.2", ("apache",)),
        ("Apache-Coyote/1.1", ("tomcat", "jvm")),
        ("Apache Tomcat/10.1.16", ("tomcat", "jvm")),
        ("Jetty(11.0.18)", ("jvm",)),
        ("gunicorn", ("gunicorn",)),
        ("uvicorn", ("uvicorn",)),
        ("istio-envoy", ("envoy",)),
        ("Caddy", ()),
        ("cloudflare", None),
    ],
)
def test_a_server_header_tells_the_software(said: str, found: tuple[str, ...] | None) -> None:
    assert alone(server=said) == said
    assert lines(said) == found


@pytest.mark.parametrize(
    ("protocol", "said", "software", "found"),
    [
        ("mysql", "8.0.35-0ubuntu0.22.04.1", "MySQL 8.0.35", ("mysql",)),
        ("mysql", "5.5.5-10.11.6-MariaDB-1:10.11.6+maria~deb12", "MariaDB 10.11.6", ("mysql",)),
        ("mysql", "11.4.2-MariaDB", "MariaDB 11.4.2", ("mysql",)),
        ("mysql", "8.0.11-TiDB-v7.5.0", "8.0.11-TiDB-v7.5.0", ()),
        ("postgres", "14.10 (Debian 14.10-1.pgdg120+1)", "PostgreSQL 14.10", ("postgresql",)),
        ("postgres", "1.21.0/bouncer", "1.21.0/bouncer", ("pgbouncer",)),
        ("postgres", "<script>", None, None),
    ],
)
def test_a_greeting_tells_the_database(
    protocol: str, said: str, software: str | None, found: tuple[str, ...] | None
) -> None:
    assert alone(protocol, server=said) == software
    assert lines(software) == found


def test_what_a_proxy_passes_on_tells_nothing_about_it() -> None:
    """HAProxy does not touch the header; nginx replaces it."""
    app = server("app", server="gunicorn", powered_by="Express")
    calls = [("front", "app")]
    assert captured_software.of([server("front", server="gunicorn"), app], calls) == {"app": "gunicorn"}
    assert captured_software.of([server("front", powered_by="Express"), app], calls) == {"app": "gunicorn"}
    changed = server("front", server="nginx/1.24.0", powered_by="Express")
    assert captured_software.of([changed, app], calls) == {"front": "nginx/1.24.0", "app": "gunicorn"}
    database = server("db", "postgres", server="14.10")
    pool = server("front", "postgres", server="14.10")
    assert captured_software.of([pool, database], [("front", "db")]) == {"db": "PostgreSQL 14.10"}


def test_a_proxy_that_names_itself_is_known_by_its_comment_alone() -> None:
    assert alone(via="1.1 front (Apache/2.4.57)", server="gunicorn") == "Apache/2.4.57"
    assert alone(via="1.1 front.example.com", server="gunicorn") is None
    outer, inner = server("outer", via="1.1 x (Varnish/7.1)", server="a"), server("inner", via="1.1 x (Varnish/7.1)")
    assert captured_software.of([outer, inner], [("outer", "inner")]) == {"inner": "Varnish/7.1"}


def test_php_is_what_answers_by_fastcgi() -> None:
    web, php = server("web", server="nginx", powered_by="PHP/8.2.1"), server("php", "fastcgi")
    assert captured_software.of([web, php], [("web", "php")]) == {"web": "nginx", "php": "PHP/8.2.1"}
    assert lines("PHP/8.2.1") == ("php-fpm",)
    assert alone(powered_by="PHP/8.2.1") is None
    apache = server("web", server="Apache-Coyote/1.1")
    assert captured_software.of([apache, server("app", "ajp")], [("web", "app")]) == {}


def test_a_report_of_an_older_reading_says_nothing() -> None:
    assert captured_software.of([{"name": "web", "protocol": "http"}], ()) == {}


def test_the_process_that_listens_goes_before_what_its_answers_say() -> None:
    assert captured_software.within("haproxy", "nginx/1.24.0") == "haproxy"
    assert captured_software.within("java", "nginx/1.24.0") == "java"
    assert captured_software.within("java", "Apache-Coyote/1.1") == "Apache-Coyote/1.1"
    assert captured_software.within("python3.11", "gunicorn") == "gunicorn"
    assert captured_software.within("java", None) == "java"


def test_the_longest_text_fits_into_a_topology() -> None:
    assert Server(name="one", software=alone(server="x" * 100)).software == "x" * 100


def test_an_anonymised_run_has_the_word_without_what_stands_beside_it() -> None:
    assert vocabulary.software("nginx/1.24.0 (build-host-17)") == "nginx"
    assert vocabulary.software("Apache-Coyote/1.1") == "coyote"
    assert vocabulary.software("Apache/2.4 with nginx") == "apache"
    assert vocabulary.software("MariaDB 10.11.6") == "mariadb"
    assert vocabulary.software("our-own-server/3") is None


def asked(connection: Connection, answer: bytes) -> None:
    connection.open().up(ACK | PSH, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    connection.wait(0.005).down(ACK | PSH, b"HTTP/1.1 200 OK\r\n" + answer + b"Content-Length: 0\r\n\r\n").close()


def read(folder: Path, answer: bytes) -> Topology:
    capture = Capture()
    asked(Connection(capture, 0.0, ("10.0.0.1", 4001), ("10.0.0.2", 80)), answer)
    capture.save(folder / "packets.pcap")
    made = perform(["read", str(folder / "packets.pcap"), "-o", str(folder / "run"), "--quiet"])
    assert made == 0
    return Dataset.open(folder / "run").topology


def test_a_capture_names_the_software_in_the_run_folder(tmp_path: Path) -> None:
    [web] = read(tmp_path, b"Server: nginx/1.24.0\r\n").servers
    assert web.software == "nginx/1.24.0"


def test_a_hostile_header_is_short_and_printable(tmp_path: Path) -> None:
    [web] = read(tmp_path, b"Server: <script>\xff\x85\xe2\x80\xae" + b"x" * 20_000 + b"\r\n").servers
    assert web.software == ("<script>?????" + "x" * 100)[:100]


def test_a_header_with_control_characters_shows_none(tmp_path: Path) -> None:
    [web] = read(tmp_path, b"Server: a\x1b[31m\x07\0b\r\n").servers
    assert (web.software or "").isprintable()
