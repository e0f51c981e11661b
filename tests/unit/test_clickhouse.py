"""ClickHouse over HTTP: texts that it escapes, and two real servers as shards."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from doors import run_folder
from tailrace import engines
from tailrace.cli import perform
from tailrace.dataset import Dataset
from tailrace.engines import clickhouse, loading
from tailrace.errors import InputError, UsageError

SERVER = shutil.which("clickhouse-server")
CONFIG = """<yandex><logger><level>warning</level><log>{0}/log</log><errorlog>{0}/errors</errorlog></logger>
<http_port>{1}</http_port><tcp_port>{2}</tcp_port><listen_host>127.0.0.1</listen_host><path>{0}/data/</path>
<tmp_path>{0}/tmp/</tmp_path><users_config>users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>50000000</mark_cache_size>
<remote_servers><both>{3}</both></remote_servers></yandex>"""
SHARD = "<shard><replica><host>127.0.0.1</host><port>{}</port></replica></shard>"
USERS = """<yandex><profiles><default/></profiles><users><default><password></password>
<networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default/></quotas></yandex>"""


def test_escaped_names_and_missing_ones_are_read_back() -> None:
    name = "a\tb\\N\n'q'"
    written = loading._written(pl.DataFrame({"server": [name, None], "n": [1, None]}), "run\t1")
    read = clickhouse.table(b"run\tserver\tn\n" + written)
    assert read.rows() == [("run\t1", name, "1"), ("run\t1", None, None)]


class Elsewhere(BaseHTTPRequestHandler):
    """Redirects what it is asked to another path, and keeps the path and the password of each request."""

    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_POST(self) -> None:
        self.asked.append((self.path.partition("?")[0], self.headers["X-ClickHouse-Key"]))
        self.send_response(302)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *words: object) -> None:
        """Tests print nothing."""


def test_a_redirect_does_not_get_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(clickhouse.PASSWORD, "secret")
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        engine = clickhouse.Engine(urlsplit(f"clickhouse://127.0.0.1:{server.server_port}"))
        with pytest.raises(InputError, match="redirects to /elsewhere"):
            engine.rows("SELECT 1", "visits")
        server.shutdown()
    assert Elsewhere.asked == [("/", "secret")]


@dataclass(frozen=True)
class Shards:
    ports: tuple[int, int]
    processes: tuple[subprocess.Popen[bytes], ...]

    def url(self, number: int) -> str:
        return f"clickhouse://127.0.0.1:{self.ports[number]}"

    def ask(self, number: int, query: str) -> None:
        url = f"http://127.0.0.1:{self.ports[number]}/?{urllib.parse.urlencode({'query': query})}"
        urllib.request.urlopen(url, b" ", timeout=30).read()


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def shards(folder: Path) -> Iterator[Shards]:
    """Two servers, each of which knows both as the shards of the cluster `both`."""
    first, second, *native = free_ports(4)
    known = "".join(map(SHARD.format, native))
    processes = []
    try:
        for http, tcp in zip((first, second), native, strict=True):
            home = folder / f"server{http}"
            home.mkdir()
            (home / "config.xml").write_text(CONFIG.format(home, http, tcp, known))
            (home / "users.xml").write_text(USERS)
            command = [str(SERVER), "--config-file=config.xml"]
            processes.append(subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        found = Shards((first, second), tuple(processes))
        end = time.monotonic() + 60
        for number in (0, 1):
            while True:
                try:
                    found.ask(number, "SELECT 1")
                    break
                except OSError:
                    assert time.monotonic() < end, "clickhouse-server does not answer"
                    time.sleep(0.2)
        yield found
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.skipif(SERVER is None, reason="needs clickhouse-server (Debian's package of this name)")
def test_two_shards_give_the_same_bits_and_a_killed_one_is_an_error(tmp_path: Path) -> None:
    run = run_folder()
    with shards(tmp_path) as two:
        for number in (0, 1):
            words = ["load-table", str(run), "--engine", two.url(number), "--name", f"run'{number}\\"]
            assert perform(words) == 0
            assert perform(words) == 2  # it is there already
        two.ask(0, "CREATE TABLE everywhere AS tailrace.visits ENGINE = Distributed(both, tailrace, visits)")
        there = engines.windows("default.everywhere", engine=two.url(0))
        table = Dataset.open(run).files("visits")
        here = engines.windows([*table, *table], queue_max=False, percentiles=False)
        texts = pl.col("server").cast(pl.String)
        assert_frame_equal(there.with_columns(texts), here.with_columns(texts), check_exact=True)
        os.kill(two.processes[1].pid, signal.SIGKILL)
        two.processes[1].wait()
        with pytest.raises(InputError, match="ClickHouse refuses the query"):
            engines.windows("default.everywhere", engine=two.url(0))


def test_only_clickhouse_takes_tables(tmp_path: Path) -> None:
    run = Dataset.open(run_folder())
    with pytest.raises(UsageError, match="--engine"):
        loading.load(run, "nowhere://x", "tailrace", "run")
    with pytest.raises(UsageError, match="the name of a table"):
        loading.load(run, "clickhouse://127.0.0.1:9", "a`b", "run")
    with pytest.raises(InputError, match="does not answer"):
        loading.load(run, "clickhouse://127.0.0.1:9", "tailrace", "run")


def test_a_run_is_loaded_into_a_folder_of_chdb(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("chdb")
    run, url = run_folder(), f"chdb://{tmp_path}/db"
    for _ in range(2):
        words = ["load-table", str(run), "--engine", url, "--name", "a run's\\name"]
        code = perform(words)
    assert code == 2
    assert "already" in capfd.readouterr().err
    there = engines.windows("tailrace.visits", engine=url)
    here = engines.windows(run, queue_max=False, percentiles=False)
    texts = pl.col("server").cast(pl.String)
    assert_frame_equal(there.with_columns(texts), here.with_columns(texts), check_exact=True)
    assert perform(["load-table", str(run), "--engine", "chdb://"]) == 2
    assert "chdb:///FOLDER" in capfd.readouterr().err
    assert perform(["load-table", str(run), "--engine", "chdb:///proc/nowhere"]) == 2
    assert "cannot be opened" in capfd.readouterr().err
