"""Tables of visits in object storage, Delta and Iceberg give the windows of the same files here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tailrace import engines
from tailrace.dataset.tables import write
from tailrace.engines import Plan, lake
from tailrace.errors import InputError
from tailrace.units import MILLISECOND, SECOND

pytest.importorskip("pyarrow")
T0 = 1_795_193_380 * SECOND
HOURS = 3


def visits(hour: int) -> pl.DataFrame:
    arrivals = [T0 + hour * 3_600 * SECOND + number * 7 * MILLISECOND for number in range(500)]
    rows = [
        (i, "web" if i % 3 else "app", None, at, at, at + (i % 40) * MILLISECOND, 0) for i, at in enumerate(arrivals)
    ]
    schema = {"visit": pl.UInt64, "server": pl.String, "interaction": pl.String, "sent": pl.Int64}
    more = {"arrival": pl.Int64, "departure": pl.Int64, "drops": pl.UInt8}
    return pl.DataFrame(rows, {**schema, **more}, orient="row")


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("day")
    for hour in range(HOURS):
        (folder / f"hour{hour}").mkdir()
        write(visits(hour), folder / f"hour{hour}" / "visits.parquet")
    (folder / "other.parquet").write_bytes(b"no visits")
    return folder


def alike(source: str, day: Path, **plan: Any) -> None:
    there = engines.windows(source, SECOND, **plan)
    here = engines.windows(day, SECOND, queue_max=False, percentiles=False, **plan)
    texts = pl.col("server").cast(pl.String)
    assert here.height > 3
    assert_frame_equal(there.with_columns(texts), here.with_columns(texts), check_exact=True)


class Bucket(BaseHTTPRequestHandler):
    """As much of S3 as Arrow asks for: HEAD, GET with a range, and a list of objects."""

    protocol_version = "HTTP/1.1"
    root: Path

    def do_HEAD(self) -> None:
        self._object()

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" not in query:
            return self._object()
        bucket = self._path()
        prefix = query.get("prefix", [""])[0]
        files = sorted(path for path in bucket.rglob("*") if path.is_file())
        keys = [(path.relative_to(bucket).as_posix(), path.stat().st_size) for path in files]
        rows = "".join(
            f"<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
            for key, size in keys
            if key.startswith(prefix)
        )
        kind = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
        body = f"<ListBucketResult {kind}><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        return self._answer(200, body.encode(), {"Content-Type": "application/xml"})

    def _path(self) -> Path:
        return self.root / unquote(urlsplit(self.path).path).strip("/")

    def _object(self) -> None:
        path = self._path()
        if not path.is_file():
            return self._answer(404, b"", {})
        content = path.read_bytes()
        asked = self.headers.get("Range")
        if not asked:
            return self._answer(200, content, {})
        first, _, last = asked.removeprefix("bytes=").partition("-")
        end = min(int(last or len(content) - 1), len(content) - 1)
        part = {"Content-Range": f"bytes {first}-{end}/{len(content)}"}
        return self._answer(206, content[int(first) : end + 1], part)

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"ETag": '"x"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", **headers}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Tests print nothing."""


@contextmanager
def store(root: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Of", (Bucket,), {"root": root})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"endpoint_override=127.0.0.1%3A{server.server_port}&scheme=http&region=us-east-1"
        server.shutdown()


def test_a_folder_by_its_address_gives_the_same_bits(day: Path) -> None:
    alike(day.as_uri(), day)


def test_objects_of_s3_give_the_same_bits(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with store(day.parent) as options:
        alike(f"s3://{day.name}?{options}", day)
        with pytest.raises(InputError):
            lake.tables(f"s3://{day.name}/nowhere?{options}")


def test_files_of_other_times_are_left_out(day: Path) -> None:
    plan = Plan(SECOND, begin=T0 + 3_600 * SECOND, end=T0 + 3_603 * SECOND)
    [only] = lake.tables(day.as_uri(), plan)
    assert "hour1" in only
    alike(day.as_uri(), day, begin=plan.begin, end=plan.end)


def test_a_delta_table_gives_the_same_bits_in_its_newest_version(day: Path, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    where = str(tmp_path / "delta")
    deltalake.write_deltalake(where, visits(9).to_arrow())
    for hour in range(HOURS):
        mode = "append" if hour else "overwrite"
        deltalake.write_deltalake(where, visits(hour).to_arrow(), mode=mode)
    alike(f"delta:{where}", day)


def test_an_iceberg_table_gives_the_same_bits(day: Path, tmp_path: Path) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    pytest.importorskip("sqlalchemy")
    where = tmp_path / "iceberg"
    where.mkdir()
    catalog = catalogs.SqlCatalog("own", uri=f"sqlite:///{where}/catalog.db", warehouse=where.as_uri())
    catalog.create_namespace("day")
    signed = pl.col(pl.UInt64, pl.UInt8).cast(pl.Int64)
    frames = [visits(hour).with_columns(signed).to_arrow() for hour in range(HOURS)]
    table = catalog.create_table("day.visits", schema=frames[0].schema)
    for frame in frames:
        table.append(frame)
    alike(f"iceberg:{table.metadata_location}", day)


@pytest.mark.parametrize("source", ["file:///nowhere/at/all", "delta:/nowhere", "iceberg:/nowhere/v1.metadata.json"])
def test_what_is_missing_is_an_error(source: str) -> None:
    for library in {"delta": ["deltalake"], "iceberg": ["pyiceberg"]}.get(source.partition(":")[0], []):
        pytest.importorskip(library)
    with pytest.raises(InputError):
        list(engines.partials(source, Plan(SECOND), "local"))
