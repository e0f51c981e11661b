"""The process that writes the page of incidents, and the reasons that it gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tailrace.watch import incidents


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ("os.kill(os.getpid(), 9)", "its process was killed"),
        ("os._exit(2)", "its process gave no reason"),
    ],
)
def test_a_page_whose_process_gives_no_reason(tmp_path: Path, ends: str, why: str) -> None:
    def failing(_words: object, _out: object, why_not: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen((sys.executable, "-c", f"import os; {ends}"), stderr=why_not)

    page = incidents.Page(tmp_path, failing)
    page.write()
    assert page.wait() == f"the page of incidents could not be written: {why}"
