"""Access logs that are read many lines at a time give what reading line by line gives."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.errors import TailraceError
from tailrace.readers import accesslog, accesslog_rows

FILES = Path(__file__).parents[1] / "golden" / "readers" / "accesslog"
NGINX = '$remote_addr [$time_local] "$request" $status $body_bytes_sent $request_time'
APACHE = '%h %l %u %t "%r" %>s %b %D'
STARTS = {
    "nginx": ("", 'msec={msec} rt={s} uct="{c}" urt="{u}" ua="10.0.0.3:80"'),
    "bare": ("", '"-" "agent {n}" {s} {u}'),
    "format": (NGINX, "{s}"),
    "apache": (APACHE, "{us}"),
}
# Each damage is a kind of line that only the slow reader reads, or that nobody can read.
DAMAGE: tuple[tuple[str, str], ...] = (
    *(
        (" 200 ", " 2x0 "),
        ("GET", "get"),
        ("GET ", ""),
        ("HTTP/1.1", "HTTP/1.1\\"),
        ("+0000", "-0730"),
        ("20/Nov", "31/Nov"),
    ),
    *(
        ('"GET', '"GET /x\\"y'),
        (".", ","),
        (" ", "  "),
        ("0", ""),
        ("rt=", "rt=-"),
        (".0", ".0004"),
        ("1", "\uff19"),
        ("/", "/é"),
    ),
    ('"10.0.0.3:80"', '""'),
    *(('80"', '80, 10.0.0.4:80"'), ("urt", "rt"), ("[", "[["), ('"', ""), (" ", "\xa0"), ("5", "5555555555555")),
)


def line(random: Random, kind: str, number: int) -> str:
    second, ms = divmod(number * 37, 1000)
    took = random.choice((0, 3, 40, 1003, 7000))
    values = {
        "msec": f"{1795193340 + second}.{ms:03}",
        "s": f"{took / 1000:.3f}",
        "us": took * 1000,
        "c": random.choice(("0.001", "-", "1.002")),
        "u": random.choice((f"{took / 1000:.3f}", "-")),
        "n": number,
    }
    clock = f"20/Nov/2026:16:{49 + second // 60:02}:{second % 60:02} +0000"
    path = random.choice(("/", "/item/7?x=1", f"/u/{number}", "/a#b", "*"))
    rest = STARTS[kind][1].format(**values)
    user = "" if kind == "format" else " - -"
    status, sent = random.choice((200, 404, 502)), random.choice((7, "-"))
    text = f'10.0.0.9{user} [{clock}] "GET {path} HTTP/1.1" {status} {sent} {rest}'
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        old, new = random.choice(DAMAGE)
        text = text.replace(old, new, random.choice((1, -1)))
    return text


def both(file: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[Dataset | str]:
    found: list[Dataset | str] = []
    for singly in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(accesslog_rows, "RUN_MIN", 2)
            if singly:
                patch.setattr(accesslog, "_layouts", lambda form, source: [])
            try:
                found.append(readers.read(f"web={file}", **options))
            except TailraceError as error:
                found.append(str(error))
    return found


def assert_same(many: Dataset | str, singly: Dataset | str) -> None:
    if isinstance(many, str) or isinstance(singly, str):
        assert many == singly
        return
    for table in ("visits", "requests"):
        assert (table in many.manifest.rows) == (table in singly.manifest.rows)
        assert_frame_equal(getattr(many, table)().collect(), getattr(singly, table)().collect())
    assert many.topology == singly.topology
    assert (many.manifest.notes, many.lost()) == (singly.manifest.notes, singly.lost())


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("seed", range(5))
def test_damaged_lines(kind: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"{kind} {seed}")
    file = tmp_path / "access.log"
    end = random.choice(("\n", "\r\n", "\n\n"))
    file.write_text(end.join(line(random, kind, number) for number in range(400)))
    options = {"log_format": STARTS[kind][0]} if STARTS[kind][0] else {}
    assert_same(*both(file, monkeypatch, **options))


OF_OTHERS = (
    *("alb.log", "cloudfront.log", "envoy.json.log", "envoy.log", "iis.log", "istio.log", "traefik.json.log"),
    *("traefik.log", "caddy.log", "uwsgi.log", "rails.log", "lograge.log", "php-fpm.log"),
)
OTHERS_DAMAGE = (
    *((" 200 ", " 2x0 "), ("200", "7"), ("GET", "get"), ("T16", "x16"), ("Z", "+01:00"), (" ", "  "), ("\t", "\t\t")),
    *((":00", ":60"), (".", ","), ("1", "-1"), ("1", "1.5"), ("2", "null"), ('"', ""), ("0", "00"), ("-", "x")),
    *(("10", ""), ("UO", "UF,URX"), ("HTTP/", "HTP"), ("2026", "9026"), ("http", "ftp"), ("h", "é"), (":", " ")),
    *(("5", "5" * 13), ("}", "},"), ("#Fields: date time", "#Fields: time date"), ("sc-status", "sc-bytes")),
    ("cs-method", "x"),
    *(("Completed", "Completed in "), (" in ", " in in "), ("ms", "msecs"), ("msecs", "micros"), ("method=", "x=")),
    *(("status=", "path="), ("path=/", "path=/?status=5&"), ('"uri":"', '"uri":"\x01'), ('"status":', '"status":-')),
    *(("}", "]"), (":{", ":[{"), ('"duration":0', '"duration":-0'), ("[pid: ", "x [pid: "), ("Nov", "Mon")),
    *(("=> generated", "=>  generated"), (" - ", " - bob "), (" /var", " 1.000 /var"), ("12", "12.3456789")),
    *(("http://10.0.0.3:80", "null"), ("10.0.0.3:8080", "null"), ("http://10.0.0.3:80", "-")),
)


@pytest.mark.parametrize("name", OF_OTHERS)
@pytest.mark.parametrize("seed", range(3))
def test_damaged_lines_of_others(name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"{name} {seed}")
    first, *lines = (FILES / name).read_text().splitlines()
    found = [first]
    for _ in range(300):
        text = random.choice((first, *lines))
        for _ in range(random.choice((0, 0, 0, 1, 2))):
            at = random.randrange(len(text) or 1)
            old, new = random.choice(OTHERS_DAMAGE)
            text = text[:at] + text[at:].replace(old, new, 1)
        found += [text] * random.choice((1, 1, 4))
    (tmp_path / "access.log").write_text("\n".join(found))
    assert_same(*both(tmp_path / "access.log", monkeypatch))


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.iterdir()))
def test_the_golden_logs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(*both(FILES / name, monkeypatch))
