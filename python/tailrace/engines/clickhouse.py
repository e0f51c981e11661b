"""ClickHouse over HTTP: `clickhouse://[USER@]HOST[:PORT]`, or `clickhouses://` with TLS. The source is a table's name.

The password is in the environment variable TAILRACE_CLICKHOUSE_PASSWORD, because other users can see command lines.
"""

from __future__ import annotations

import io
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from functools import partial
from urllib.parse import SplitResult, unquote

import polars as pl

from tailrace import web
from tailrace.engines import sql
from tailrace.engines.parts import Part, Plan
from tailrace.errors import InputError, UsageError

PASSWORD = "TAILRACE_CLICKHOUSE_PASSWORD"
PORTS = {"clickhouse": 8123, "clickhouses": 8443}
PATIENCE_S = 600
ANSWER_BYTES_MAX = 2 << 30
"""Ten million rows, the most that windows may have, take less."""
_NAME = re.compile(r"(?:[A-Za-z_]\w{0,127}\.)?[A-Za-z_]\w{0,127}", re.ASCII)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "r": "\r", "n": "\n", "t": "\t", "0": "\0"}
"""What a letter after a backslash means; any other character means itself."""
_ESCAPES = str.maketrans({"\\": r"\\", **{character: rf"\{letter}" for letter, character in _LETTERS.items()}})
SETTINGS = {"skip_unavailable_shards": "0", "wait_end_of_query": "1", "default_format": "TabSeparatedWithNames"}
"""A dead shard is an error, and so is an error after the first rows: the answer is sent when it is complete."""


def name(text: str) -> str:
    """`table` or `database.table`; anything else would be SQL."""
    if not _NAME.fullmatch(text):
        raise UsageError(f"{text}: it is neither a file nor the name of a table", advice="like default.otel_traces")
    return ".".join(f"`{part}`" for part in text.split("."))


def table(content: bytes) -> pl.DataFrame:
    """The rows of an answer in TabSeparatedWithNames, as texts."""
    rows = pl.read_csv(io.BytesIO(content), separator="\t", quote_char=None, infer_schema=False, null_values="\\N")
    coded = [column.name for column in rows if column.str.contains("\\", literal=True).any()]
    return rows.with_columns(pl.col(name).map_elements(_unescaped, return_dtype=pl.String) for name in coded)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _LETTERS.get(found[1], found[1]), text)


def escaped(text: str) -> str:
    """The text in TabSeparated."""
    return text.translate(_ESCAPES)


def literal(text: str) -> str:
    """The text as a string of SQL."""
    quoted = escaped(text).replace("'", r"\'")
    return f"'{quoted}'"


class Engine:
    def __init__(self, parts: SplitResult) -> None:
        if not parts.hostname:
            raise UsageError("--engine: the URL has no host", advice="like clickhouse://127.0.0.1:8123")
        scheme = "https" if parts.scheme == "clickhouses" else "http"
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._url = f"{scheme}://{host}:{parts.port or PORTS[parts.scheme]}/"
        self._user = unquote(parts.username or "default")

    def partials(self, source: Sequence[str], plan: Plan) -> Iterator[Part]:
        for one in source:
            yield sql.reduced(name(one), partial(self.rows, source=one), one, plan)

    def rows(self, query: str, source: str) -> pl.DataFrame:
        return table(self.send(query.encode(), SETTINGS, source))

    def order(self, statement: str, source: str) -> None:
        self.send(statement.encode(), {}, source)

    def insert(self, table: str, content: bytes) -> None:
        self.send(content, {"query": f"INSERT INTO {table} FORMAT TabSeparated"}, table)

    def send(self, body: bytes, settings: dict[str, str], source: str) -> bytes:
        url = f"{self._url}?{urllib.parse.urlencode(settings)}"
        headers = {"X-ClickHouse-User": self._user, "X-ClickHouse-Key": os.environ.get(PASSWORD, "")}
        request = urllib.request.Request(url, body, headers, method="POST")
        try:
            with web.answer(request, PATIENCE_S) as answer:
                content = web.body(answer, ANSWER_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            raise InputError(source, f"ClickHouse refuses the query ({web.said(error)})") from error
        except OSError as error:
            raise InputError(
                source, f"ClickHouse at {self._url} does not answer ({error})", "check --engine"
            ) from error
        if len(content) > ANSWER_BYTES_MAX:
            raise InputError(
                source, "ClickHouse's answer has more than 2 GB", "choose wider windows, or a shorter time"
            )
        return content
