"""A browser for the tests that look at pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import BROWSERS, Opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="uv sync --group dev")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium here; install it with `apt-get install -y chromium`")
    with playwright.sync_playwright() as runner:
        found = runner.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    contexts = []

    def load(text: str, **options: Any) -> Opened:
        file = tmp_path / "report.html"
        file.write_text(text, encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # a busy machine needs a minute to start a page
        found = Opened(page, context)
        page.on("console", lambda message: found.troubles.append(message.text))
        page.on("pageerror", lambda error: found.troubles.append(str(error)))
        page.on("request", lambda request: found.requests.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready=true]", state="attached")
        return found

    yield load
    for context in contexts:
        context.close()
