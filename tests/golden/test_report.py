"""The report's pages in outline, as they were when last reviewed; `make golden` rewrites them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fixtures_outline import outline
from fixtures_report import diagnosis, quiet, recording
from tailrace.report import page

GOLDEN = Path(__file__).parent / "report"


@pytest.mark.parametrize("name", ["one-episode", "no-vlrt"])
def test_page_says_what_it_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_version", lambda: "0.0")
    run = (recording(12), diagnosis(12)) if name == "one-episode" else quiet()
    found = "\n".join(outline(page.html(*run)).lines) + "\n"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("TAILRACE_GOLDEN") == "rewrite":
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8"), "`make golden` rewrites it; review the difference"
