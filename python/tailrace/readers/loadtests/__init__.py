"""Formats of load tests: each has a file, and its forms are in `FORMS`."""

from __future__ import annotations

from tailrace.readers.loadtests import gatling, jmeter, k6, tables
from tailrace.readers.loadtests.sent import Form

FORMS: tuple[Form, ...] = (*jmeter.FORMS, *k6.FORMS, *gatling.FORMS, *tables.FORMS)


def form_of(head: str) -> Form | None:
    return next((form for form in FORMS if form.seen(head)), None)
