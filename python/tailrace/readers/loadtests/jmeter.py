"""Results of JMeter (and of Taurus and the Azure load test, which write the same): JTL as CSV and as XML.

```text
timeStamp,elapsed,label,responseCode,responseMessage,threadName,…,URL,Latency,IdleTime,Connect
<httpSample t="743" lt="740" ct="2" ts="1649233423985" s="true" lb="Login" rc="200" rm="OK" tn="Users 1-1" by="512">
```
A sample of a transaction controller contains the requests in it and is none itself. Requests that a page caused
(redirects, embedded files) are inside its sample. `timeStamp` is the begin of a sample, as usual, or its end, if
samples of one thread would overlap otherwise. Without the first line (`print_field_names=false`), the columns
are those that JMeter writes by default; they are recognised by a stamp, a duration, a boolean and counts in
their places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from xml.parsers import expat

from tailrace import units
from tailrace.bounds import JSON_ELEMENT
from tailrace.errors import InputError
from tailrace.readers.layout import fields, named_rows
from tailrace.readers.loadtests.sent import Form, Sent, nanoseconds, outcome, whole
from tailrace.readers.source import Found, Source, text_head

_TRANSACTION = "Number of samples in transaction"
_XML = re.compile(r"\A[\s\ufeff]*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--[^>]{0,1000}-->\s*)?<testResults\b")
_SAMPLES = ("httpSample", "sample")
_DEPTH_MAX = 64
"""Elements inside each other; JMeter's parent controllers nest a handful."""


_DEFAULT = (
    *("timeStamp", "elapsed", "label", "responseCode", "responseMessage", "threadName", "dataType", "success"),
    *("failureMessage", "bytes", "sentBytes", "grpThreads", "allThreads", "URL", "Latency", "IdleTime", "Connect"),
)
"""The columns of `jmeter.save.saveservice.*` as JMeter is delivered. Older versions lack `sentBytes` or `URL`."""
_DEFAULTS = tuple(
    tuple(name for name in _DEFAULT if name not in without)
    for without in ((), ("URL",), ("sentBytes",), ("sentBytes", "URL"))
)
_STAMP = re.compile(r"1\d{12}")
_COUNTS = ("elapsed", "bytes", "sentBytes", "grpThreads", "allThreads", "Latency", "IdleTime", "Connect")


def _headless(head: str) -> tuple[str, ...] | None:
    """The columns of a file without their names; None for any other file."""
    first = fields(head.lstrip("\ufeff").split("\n", 1)[0].rstrip("\r"), ",")
    for names in _DEFAULTS:
        row = dict(zip(names, first, strict=False))
        if (
            len(first) == len(names)
            and _STAMP.fullmatch(row["timeStamp"])
            and row["success"] in ("true", "false")
            and row["dataType"] in ("text", "bin", "")
            and all(row[name].isdecimal() for name in _COUNTS if name in row)
        ):
            return names
    return None


def _delimiter(head: str) -> str | None:
    first = head.lstrip("\ufeff").split("\n", 1)[0].rstrip("\r")
    return next((mark for mark in ",;\t|" if {"timeStamp", "elapsed", "label"} <= set(first.split(mark))), None)


def _csv(source: Source, found: Found) -> Iterator[tuple[int, Sent | None]]:
    head = text_head(source.head()) or ""
    delimiter = _delimiter(head) or ","
    at_end, said = _stamps_are_ends(head, delimiter)
    transactions = 0
    for number, values in named_rows(source, found, delimiter, _headless(head)):
        if values.get("responseMessage", "").startswith(_TRANSACTION):
            transactions += 1
            continue
        yield number, _sent({_SHORT.get(name, name): value for name, value in values.items()}, at_end=at_end)
    _note(source, found, transactions, said)


_SHORT = {
    **{"timeStamp": "ts", "elapsed": "t", "label": "lb", "responseCode": "rc", "responseMessage": "rm"},
    **{"threadName": "tn", "success": "s", "bytes": "by", "Connect": "ct", "failureMessage": "fm"},
}
"""Columns of the CSV → attributes of the XML."""


def _sent(values: Mapping[str, str], *, at_end: bool) -> Sent | None:
    moment = _moment(values.get("ts", ""))
    took = nanoseconds(values.get("t", ""), units.MILLISECOND)
    if moment is None or took is None:
        return None
    status = outcome(
        values.get("rc", ""), values.get("rm", "") or values.get("fm", ""), failed=values.get("s") == "false"
    )
    url = values.get("URL", "")
    return Sent(
        moment - took if at_end else moment,
        took,
        status,
        nanoseconds(values.get("ct", ""), units.MILLISECOND),
        url="" if url == "null" else url,
        method=values.get("method", ""),
        label=values.get("lb", ""),
        client=values.get("tn", ""),
        bytes_in=whole(values.get("by", "")),
    )


def _moment(text: str) -> int | None:
    with suppress(ValueError):
        number = whole(text)
        scaled = units.MILLISECOND if number is not None else None
        return units.parse_moment(text.replace("/", "-"), scale=scaled)
    return None


def _stamps_are_ends(head: str, delimiter: str) -> tuple[bool, str]:
    """Whether the stamps are ends, and what to say of it. A thread does one thing at a time, so its samples do not
    overlap. The order of the lines alone does not show it, because a file may have been sorted."""
    lines = [fields(line.lstrip("\ufeff"), delimiter) for line in head.split("\n")[:-1]]
    if not lines:
        return False, ""
    names = _headless(head) or lines.pop(0)
    rows = [dict(zip(names, line, strict=True)) for line in lines if len(line) == len(names)]
    stamps = [
        (moment, took, row.get("threadName", ""))
        for row in rows
        if (moment := _moment(row.get("timeStamp", ""))) is not None
        and (took := nanoseconds(row.get("elapsed", ""), units.MILLISECOND)) is not None
        and not row.get("responseMessage", "").startswith(_TRANSACTION)
    ]
    as_begins, as_ends = (_overlaps(stamps, at_end=at_end) for at_end in (False, True))
    if as_ends != as_begins:
        return as_ends < as_begins, _ENDS if as_ends < as_begins else ""
    unordered = sum(before[0] + before[1] > after[0] + after[1] for before, after in pairwise(stamps))
    in_order = sum(before[0] > after[0] for before, after in pairwise(stamps)) < unordered
    return False, _SORTED if in_order else ""


_ENDS = "its stamps are the ends of the samples: as begins, samples of one thread would overlap"
_SORTED = (
    "its lines are in the order of their stamps, so they were sorted, or the stamps are ends "
    "(sampleresult.timestamp.start=false); they are taken as begins, as JMeter writes them by default"
)


def _overlaps(stamps: Sequence[tuple[int, int, str]], *, at_end: bool) -> int:
    """How many samples began before the one before them of the same thread had ended."""
    until, count = dict[str, int](), 0
    spans = ((stamp - took if at_end else stamp, stamp if at_end else stamp + took, of) for stamp, took, of in stamps)
    for begin, end, thread in sorted(spans):
        count += thread != "" and begin < until.get(thread, begin) - units.MILLISECOND
        until[thread] = max(end, until.get(thread, end))
    return count


def _note(source: Source, found: Found, transactions: int, said: str = "") -> None:
    name = source.path.name
    if transactions:
        found.notes.append(f"{name}: samples of transactions contain other samples and are left out ({transactions})")
    if said:
        found.notes.append(f"{name}: {said}")


class _Samples:
    """The requests in the part of an XML file that was parsed so far: the outermost samples that are no transaction."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[tuple[str, dict[str, str]]] = []
        self._text: list[str] | None = None
        self.ready: list[dict[str, str]] = []
        self.transactions = 0
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._refuse

    def _refuse(self, *words: object) -> None:
        raise InputError(self._name, "it declares a document type, which JMeter never does", "remove <!DOCTYPE …>")

    def _begin(self, element: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= _DEPTH_MAX:
            raise InputError(self._name, f"its elements are nested more than {_DEPTH_MAX} deep")
        self._open.append((element, attributes))
        self._text = [] if element in ("java.net.URL", "method") else None

    def _characters(self, text: str) -> None:
        if self._text is not None and len(self._text) < 64:
            self._text.append(text)

    def _end(self, element: str) -> None:
        _, attributes = self._open.pop()
        samples = [values for kind, values in self._open if kind in _SAMPLES and not _is_transaction(values)]
        if self._text is not None and samples:
            samples[-1]["URL" if element == "java.net.URL" else "method"] = "".join(self._text)[:2000]
        self._text = None
        if element in _SAMPLES and _is_transaction(attributes):
            self.transactions += 1
        elif element in _SAMPLES and not samples:
            self.ready.append(attributes)


def _is_transaction(attributes: Mapping[str, str]) -> bool:
    return attributes.get("rm", "").startswith(_TRANSACTION)


def _xml(source: Source, found: Found) -> Iterator[tuple[int, Sent | None]]:
    samples = _Samples(str(source.path))
    try:
        fed = 0
        for text in source.texts(found):
            samples.parser.Parse(text, False)
            fed += len(text)
            if fed - max(samples.parser.CurrentByteIndex, 0) > JSON_ELEMENT:
                found.stopped(source.path.name, "an element is too long; reading stopped there")
                return
            for attributes in samples.ready:
                yield samples.parser.CurrentLineNumber, _sent(attributes, at_end=False)
            samples.ready.clear()
        samples.parser.Parse("", True)
    except expat.ExpatError as error:
        for attributes in samples.ready:
            yield samples.parser.CurrentLineNumber, _sent(attributes, at_end=False)
        found.stopped(source.path.name, f"reading stopped at line {error.lineno}: {expat.ErrorString(error.code)}")
    _note(source, found, samples.transactions)


FORMS = (
    Form("JMeter", lambda head: _delimiter(head) is not None or _headless(head) is not None, _csv),
    Form("JMeter", lambda head: bool(_XML.match(head)), _xml),
)
