"""How long the page of a long recording takes: to write, and to be drawn in a browser.

    python benches/report/bench.py              30 min at 50 ms (36,000 windows), three servers and their samples
    python benches/report/bench.py REPORT.html  a report that exists

The budget of the project is 2 s for loading 30 min at 50 ms with about ten series, and for the report of a mesh of
1,000 services (experiments/scale). Nothing here is a test, because a timed test fails on a busy machine.

Times count from the beginning of the navigation: the first text on the screen, the end of `load`, and the overview's
charts on the screen, two frames later. Each is measured in a new tab; the page is a local file.
"""

from __future__ import annotations

# ruff: noqa: E402, I001 (the path comes first: this runs from a checkout)

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / part) for part in ("tests", "python")]

from fixtures_report import diagnosis, recording
from playwright.sync_api import sync_playwright
from tailrace.report import page

RUNS = 5
SECONDS = 1800
# From navigation to the overview's charts being on the screen, two frames later, and with the last episode opened.
DRAWN = """async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  document.getElementById("recording").scrollIntoView({ behavior: "instant" });
  while (!Charts.groups.get("overview").drawn) await frame();
  await frame(); await frame();
  return performance.now();
}"""


# First contentful paint, and the end of the load event.
LOADED = """() => [performance.getEntriesByName("first-contentful-paint")[0].startTime,
  performance.getEntriesByType("navigation")[0].loadEventEnd]"""
MOMENTS = ("first text", "loaded", "charts drawn")


def opened(file: Path) -> list[tuple[float, ...]]:
    """The moments of several openings, in seconds."""
    found = []
    with sync_playwright() as runner:
        path = next((p for p in ("/usr/bin/chromium", "/usr/bin/google-chrome") if Path(p).exists()), None)
        browser = runner.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(RUNS):
            tab = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            tab.goto(file.as_uri())
            drawn = tab.evaluate(DRAWN)
            found.append(tuple(moment / 1000 for moment in (*tab.evaluate(LOADED), drawn)))
            tab.close()
        browser.close()
    return found


def written() -> tuple[str, list[float]]:
    run, answer = recording(SECONDS), diagnosis(SECONDS)
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        text = page.html(run, answer)
        times.append(time.perf_counter() - begin)
    print(f"{SECONDS} s at 50 ms, {len(run.lines)} series, {len(answer.episodes)} episodes")
    return text, times


def tell(what: str, times: Iterable[float]) -> None:
    ordered = sorted(times)
    shown = " ".join(f"{t:.2f}" for t in ordered)
    print(f"{what}: median {statistics.median(ordered):.2f} s of {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, nargs="?")
    report = parser.parse_args().report
    with tempfile.TemporaryDirectory() as folder:
        if report is None:
            report = Path(folder) / "report.html"
            text, times = written()
            report.write_text(text, encoding="utf-8")
            tell("write", times)
        print(f"{report.stat().st_size / 1e6:.2f} MB; load of the machine {os.getloadavg()[0]:.1f}")
        for moment, times in zip(MOMENTS, zip(*opened(report.resolve()), strict=True), strict=True):
            tell(moment, times)


if __name__ == "__main__":
    main()
