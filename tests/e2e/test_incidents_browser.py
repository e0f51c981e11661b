"""The page of incidents in a real browser: its filters, without any network."""

from __future__ import annotations

from typing import Any

import pytest

from browser import CONTRAST, UNNAMED, Opened
from tailrace.watch import index
from tailrace.watch.listing import Incident

HOSTILE = "</script><img src=x onerror=alert(1)>"
T0 = 1_795_193_380_000_000_000
FOUND = [
    Incident("incident-3", T0, T0 + 10**9, 900, 30, "web", "app", "freeze", "upstream", "30 took 1 s.", (0, 30, 2)),
    Incident("incident-2", T0, T0 + 10**9, 900, 7, "db", HOSTILE, "garbage-collection", "local", "7 took 3 s.", (1,)),
    Incident("incident-1.recording", failed="the disk was full"),
]


@pytest.fixture
def shown(opened: Any) -> Opened:
    found: Opened = opened(index.html(FOUND))
    return found


def rows(shown: Opened) -> list[str]:
    return [row.inner_text() for row in shown.page.locator(".incidents tbody tr:visible").all()]


def test_filters_choose_by_cause_server_and_text(shown: Opened) -> None:
    page = shown.page
    assert len(rows(shown)) == 3
    page.select_option("select[name=cause]", "garbage collection")
    assert ["incident-2" in row for row in rows(shown)] == [True]
    assert page.locator("output[name=shown]").inner_text() == "1 of 3 shown"
    page.select_option("select[name=cause]", "")
    page.select_option("select[name=server]", "app")
    assert ["incident-3" in row for row in rows(shown)] == [True]
    page.select_option("select[name=server]", "")
    page.fill("input[name=text]", "DISK full")
    assert ["incident-1" in row for row in rows(shown)] == [True]
    page.fill("input[name=text]", "")
    assert len(rows(shown)) == 3


def test_the_page_is_readable_and_fetches_nothing(shown: Opened) -> None:
    assert shown.page.locator("a[href='incident-3/report.html']").count() == 1
    assert shown.page.locator(".spark rect").count() == 3
    assert shown.page.evaluate(CONTRAST) == []
    assert shown.page.evaluate(UNNAMED) == []
    assert shown.page.locator("img").count() == 0
    assert [url for url in shown.requests if not url.startswith(("file:", "data:"))] == []
    assert shown.troubles == []
