"""Pages of reproductions, sweeps and advice in a real browser: every form of a figure is drawn, without any network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from browser import CONTRAST, DRAWN, UNNAMED, Opened
from builders import SMALL
from tailrace.advise import advise
from tailrace.advise import page as advice_page
from tailrace.experiment import from_table
from tailrace.reproduce import find, page, reproduce
from tailrace.sweep import page as sweep_page
from tailrace.sweep import parse, sweep

HOSTILE = "</script><img src=x onerror=alert(1)>"
EXPECTED: dict[str, Any] = {
    "paper": "paper",
    "title": f"All forms {HOSTILE}",
    "shows": "Every form of a figure.",
    "runs": [
        {"name": "few", "set": {"workloads.w.clients": 10}},
        {"name": "many", "set": {"workloads.w.clients": 40}},
    ],
    "values": [
        {"name": "rate", "measure": "throughput", "unit": "req/s", "paper": {"few": 10.0, "many": 400.0}},
        {"name": "p95", "measure": "response_percentile", "percentile": 95, "unit": "ms"},
    ],
    "claims": [
        {"says": "More clients, more requests.", "less": ["rate @ few", "rate @ many"]},
        {"says": "Fewer clients, more requests.", "less": ["rate @ many", "rate @ few"]},
    ],
    "panels": [
        {"form": "frequency", "top": "20 ms", "bin": "1 ms"},
        {"form": "frequency", "run": "few", "edges": ["0 s", "5 ms", "1 s"], "log": False},
        {
            "form": "timeline",
            "title": "CPU",
            "run": "many",
            "to": "2 s",
            "lines": [{"series": "cpu_busy", "place": "web"}],
        },
        {
            "form": "timeline",
            "title": "Queue",
            "limits": [{"value": 30, "label": "most"}],
            "run": "many",
            "to": "2 s",
            "lines": [{"series": "queue", "place": "web"}, {"series": "arrivals", "place": "web", "label": "arrivals"}],
        },
        {
            "form": "timeline",
            "title": "Response time",
            "run": "many",
            "to": "2 s",
            "lines": [{"series": "response", "place": "web"}],
        },
        {"form": "lines", "title": "Rate over clients", "x": "workloads.w.clients", "lines": [{"value": "rate"}]},
        {"form": "bars", "title": "Percentiles", "values": ["p95"]},
    ],
}
COLUMNS = ["below 5 % lost"] * 7
README = f"""# Title

## Why

Some *words* {HOSTILE}, [this](../figure-1/README.md), [that](../figure-9/), [all](../base)

| of a middleware: requests inside and what each of them takes | {" | ".join(COLUMNS)} |
|---|{"---|" * len(COLUMNS)}
| collections of 1.3 s and 10 ms for each of more than twelve inside | {" | ".join(COLUMNS)} |
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    shelf = tmp_path_factory.mktemp("shelf")
    folder = shelf / "paper" / "figure-1"
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(tomli_w.dumps(SMALL))
    (folder / "expected.toml").write_text(tomli_w.dumps(EXPECTED))
    (folder / "README.md").write_text(README)
    (shelf / "paper" / "base").mkdir()
    (shelf / "paper" / "base" / "README.md").write_text("# All\n\nAs in [the figure](../figure-1/README.md).\n")
    return page.html(reproduce(find(shelf, "paper"), shelf / "out", seeds=3))


@pytest.fixture
def shown(opened: Any, text: str) -> Opened:
    found: Opened = opened(text)
    return found


def test_every_form_is_drawn_without_any_network(shown: Opened) -> None:
    shown.page.locator("[data-group]").scroll_into_view_if_needed()
    shown.page.wait_for_function("() => [...Charts.groups.values()].every((group) => group.drawn)")
    shown.settle()
    canvases = shown.page.locator(".canvas")
    assert canvases.count() == 3, "timelines in a row are one group"
    for i in range(3):
        assert canvases.nth(i).evaluate(DRAWN) > 3, f"timeline {i} is blank"
    plots = shown.page.locator(".plot > svg")
    assert plots.count() == 5
    for i in range(5):
        assert plots.nth(i).locator("rect, circle").count() > 0, f"plot {i} is blank"
    assert plots.nth(4).locator(".whisker").count() == 2, "bars have their intervals"
    assert [url for url in shown.requests if not url.startswith(("file:", "data:"))] == []
    assert shown.troubles == []


def test_the_page_says_what_holds_and_what_is_close(shown: Opened) -> None:
    assert (
        shown.page.locator("h1").inner_text()
        == "1 of 2 claims hold; 1 of 2 numbers are within a quarter of the paper's"
    )
    assert shown.page.locator(".claims .mark").all_inner_texts() == ["holds", "fails"]
    rows = shown.page.locator(".cells tbody tr")
    assert [word in rows.nth(0).inner_text() for word in ("rate", "few", "10", "predicted")] == [True] * 4
    assert shown.page.locator(".readme h4").inner_text() == "Why"
    assert "tailrace reproduce paper figure-1 --seeds 3" in shown.page.locator(".commands").text_content()


def test_a_readme_links_to_what_is_on_the_page(shown: Opened) -> None:
    links = [link.get_attribute("href") for link in shown.page.locator(".readme a").all()]
    assert links == ["#paper-figure-1", None, None], "the page of one figure has that figure only"


def test_a_wide_table_of_a_readme_has_the_width_of_the_page(shown: Opened) -> None:
    table = shown.page.locator(".readme table")
    assert table.evaluate("table => table.scrollWidth <= table.clientWidth"), "nothing is cut"
    heights = table.locator("tr").evaluate_all("rows => rows.map((row) => row.clientHeight)")
    assert max(heights) < 120, "no word has a line of its own"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_and_named(opened: Any, text: str, scheme: str) -> None:
    found = opened(text, color_scheme=scheme)
    found.page.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
    assert found.page.evaluate(CONTRAST) == []
    assert found.page.evaluate(UNNAMED) == []


def test_nothing_is_wider_than_a_phone(opened: Any, text: str) -> None:
    found = opened(text, viewport={"width": 390, "height": 800})
    assert found.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_sweeps_page_is_drawn_readable_and_named(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(tomli_w.dumps(SMALL))
    varied = [parse("workloads.w.clients=10:30:10"), parse("workloads.w.think=500ms,1s")]
    found = opened(sweep_page.html(sweep(file, varied, tmp_path / "out", seeds=2)))
    plots = found.page.locator(".plot > svg")
    assert plots.count() >= 6
    for i in range(plots.count()):
        assert plots.nth(i).locator("circle").count() >= 6
    assert found.page.evaluate(CONTRAST) == []
    assert found.page.evaluate(UNNAMED) == []
    assert found.troubles == []


def test_a_page_of_advice_is_drawn_readable_and_named(opened: Any, tmp_path: Path) -> None:
    stalled = SMALL | {
        "kernel": {"syn": "linux-3.3"},
        "tiers": {"web": {"workers": 4, "backlog": 4}},
        "workloads": {"w": {"clients": 100, "think": "1 s", "interaction": "page"}},
        "stalls": [{"kind": "freeze", "place": "web", "at": "1 s", "for": "300 ms"}],
    }
    advice = advise(from_table(stalled), name=HOSTILE, replications=2, software={"web": "nginx"})
    for scheme, width in (("light", 1200), ("dark", 390)):
        found = opened(advice_page.html(advice), color_scheme=scheme, viewport={"width": width, "height": 800})
        bars, times = (found.page.locator(".plot > svg").nth(number) for number in range(2))
        assert bars.locator("rect").count() == len(advice.ranked) + 1
        assert bars.locator(".whisker").count() == len(advice.ranked) + 1
        assert times.locator("rect").count() > 10
        assert found.page.locator("#changes tbody tr").count() == len(advice.ranked) + 1
        assert found.page.locator("#lines code").count() >= 1
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        assert found.page.evaluate(CONTRAST) == []
        assert found.page.evaluate(UNNAMED) == []
        assert found.troubles == []
        assert [url for url in found.requests if not url.startswith(("file:", "data:"))] == []
