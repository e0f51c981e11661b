"""How long the page of a long recording takes: to write, and to be drawn in a browser.

    python benches/report/bench.py            30 min at 50 ms (36,000 windows), three servers and their samples

The budget of the project is 2 s for loading 30 min at 50 ms with about ten series. Nothing here is a test, because a
timed test fails on a busy machine.
"""

from __future__ import annotations

# ruff: noqa: E402, I001 (the path comes first: this runs from a checkout)

import statistics
import sys
import tempfile
import time
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


def main() -> None:
    run, answer = recording(SECONDS), diagnosis(SECONDS)
    writing = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        text = page.html(run, answer)
        writing.append(time.perf_counter() - begin)
    print(f"{SECONDS} s at 50 ms, {len(run.lines)} series, {len(answer.episodes)} episodes: {len(text) / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as runner:
        file = Path(folder) / "report.html"
        file.write_text(text, encoding="utf-8")
        path = next((p for p in ("/usr/bin/chromium", "/usr/bin/google-chrome") if Path(p).exists()), None)
        browser = runner.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        loading = []
        for _ in range(RUNS):
            tab = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            tab.goto(file.as_uri())
            loading.append(tab.evaluate(DRAWN) / 1000)
            tab.close()
        browser.close()
    for name, times in (("write", writing), ("load and draw", loading)):
        print(f"{name}: median {statistics.median(times):.2f} s of {' '.join(f'{t:.2f}' for t in times)}")


if __name__ == "__main__":
    main()
