"""Formats of load tests: each has a file, and its forms are in `FORMS`."""

from __future__ import annotations

from tailrace.readers.loadtests import gatling, gatling_binary, jmeter, k6, tables, vegeta
from tailrace.readers.loadtests.sent import Form
from tailrace.readers.source import text_head

_READERS = (jmeter, k6, gatling, gatling_binary, tables, vegeta)
FORMS: tuple[Form, ...] = tuple(form for reader in _READERS for form in reader.FORMS)


def form_of(head: bytes) -> Form | None:
    """The form of a file that begins so; the bytes of a binary one are its characters."""
    text = text_head(head)
    seen = head.decode("latin-1") if text is None else text
    return next((form for form in FORMS if form.seen(seen)), None)
