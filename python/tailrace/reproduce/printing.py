"""A page as a PDF, printed by the Chromium of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tailrace import whole

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LONGEST = 300
"""Seconds after which a browser is stopped. A paper's page takes some seconds on an idle machine."""


def pdf(page: Path, target: Path) -> str:
    """Print the page. Returns why there is no PDF; nothing if there is one."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        return "no Chromium was found; on Debian, `apt-get install chromium` installs it"
    with tempfile.TemporaryDirectory(prefix="tailrace-pdf-") as folder:
        made = Path(folder) / "page.pdf"
        try:
            ended = subprocess.run(_command(browser, page, made), capture_output=True, timeout=LONGEST, check=False)
        except subprocess.TimeoutExpired:
            return f"{browser} did not finish within {LONGEST} s"
        except OSError as error:
            return f"{browser} cannot be started: {error.strerror}"
        if ended.returncode != 0 or not made.is_file():
            return f"{browser} made no PDF and ended with {ended.returncode}"
        whole.write(target, made.read_bytes())
    return ""


def _command(browser: str, page: Path, target: Path) -> list[str]:
    """The page is ours and opens nothing else. As root, Chromium starts only without its sandbox."""
    options = ["--headless=new", "--disable-gpu", "--no-pdf-header-footer", f"--user-data-dir={target.parent}"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    return [browser, *options, f"--print-to-pdf={target}", page.absolute().as_uri()]
