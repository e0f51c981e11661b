"""The page in a real browser: it needs no network, draws, zooms and points together, and works from the keyboard."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from browser import CONTRAST, DRAWN, UNNAMED, Opened
from fixtures_report import BEGIN, SECOND, diagnosis, episode, quiet, recording
from tailrace.report import page as report


@pytest.fixture
def three(opened: Any) -> Opened:
    found: Opened = opened(report.html(recording(), diagnosis()))
    found.page.locator("#episode-1").scroll_into_view_if_needed()
    found.page.wait_for_function("() => Charts.groups.get('e1').drawn")
    found.settle()
    return found


def test_loads_alone_and_without_complaint(three: Opened) -> None:
    assert three.troubles == []
    assert [url for url in three.requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in three.requests if url.startswith("file:")]) == 1


def test_every_chart_is_drawn(three: Opened) -> None:
    for group in ("overview", "e1"):
        boxes = three.charts(group)
        assert boxes.count() > 1
        for i in range(boxes.count()):
            assert boxes.nth(i).evaluate(DRAWN) > 3, f"chart {i} of {group} is blank"


def test_charts_out_of_sight_wait(opened: Any) -> None:
    many = replace(diagnosis(), episodes=tuple(episode(BEGIN + i * SECOND // 10, 3) for i in range(200)))
    found = opened(report.html(recording(), many))
    found.settle()
    drawn = found.page.evaluate("() => [...Charts.groups.values()].filter((g) => g.drawn).length")
    assert 1 <= drawn < 6
    found.page.locator("#episode-150 > summary").click()
    found.page.wait_for_function("() => Charts.groups.get('e150').drawn")
    found.settle()
    assert found.charts("e150").first.evaluate(DRAWN) > 3
    assert found.troubles == []


def test_zooming_one_chart_moves_the_others(three: Opened) -> None:
    before = three.scale("e1")
    assert len(set(before)) == 1
    three.charts("e1").nth(2).scroll_into_view_if_needed()
    box = three.charts("e1").nth(2).locator(".u-over").bounding_box()
    three.page.mouse.move(box["x"] + 200, box["y"] + 20)
    three.page.mouse.down()
    three.page.mouse.move(box["x"] + 350, box["y"] + 20, steps=5)
    three.page.mouse.up()
    three.settle()
    after = three.scale("e1")
    assert len(set(after)) == 1
    share = (after[0][1] - after[0][0]) / (before[0][1] - before[0][0])
    assert share == pytest.approx(150 / box["width"], rel=0.05)
    assert three.scale("overview") != after
    three.page.mouse.dblclick(box["x"] + 100, box["y"] + 20)
    three.settle()
    assert three.scale("e1") == before


def test_cursor_is_shared(three: Opened) -> None:
    three.charts("e1").nth(0).scroll_into_view_if_needed()
    box = three.charts("e1").nth(0).locator(".u-over").bounding_box()
    three.page.mouse.move(box["x"] + 300, box["y"] + 20)
    three.settle()
    found = three.cursors("e1")
    begin, end = three.scale("e1")[0]
    assert max(found) - min(found) < 0.01
    assert found[0] == pytest.approx(begin + 300 / box["width"] * (end - begin), abs=0.01)
    assert " UTC" in three.page.locator("[data-group='e1'] .now").inner_text()
    assert three.page.locator("[data-group='e1'] .key output").all_inner_texts()[0] != ""


def test_a_stack_labels_each_share_and_draws_their_sums(three: Opened) -> None:
    at = three.page.evaluate("() => Charts.groups.get('e1').charts.findIndex((c) => c.shape === 'stack')")
    sums = three.page.evaluate("(i) => Charts.groups.get('e1').plots[i].data.slice(1)", at)
    assert sums[0] == pytest.approx([1.0] * len(sums[0]), abs=0.005), "the first curve is the whole"
    assert all((upper >= np.array(lower)).all() for upper, lower in pairwise(sums))
    chart = three.charts("e1").nth(at)
    chart.scroll_into_view_if_needed()
    stalled = three.page.evaluate(
        "(i) => { const u = Charts.groups.get('e1').plots[i]; return u.valToPos(u.data[0][140], 'x'); }", at
    )
    box = chart.locator(".u-over").bounding_box()
    three.page.mouse.move(box["x"] + stalled, box["y"] + 20)
    three.settle()
    keys = three.page.locator("#episode-1 figure.chart").nth(at).locator(".key output")
    assert keys.all_inner_texts() == ["0 %", "0 %", "80 %", "20 %"]


def test_keyboard_moves_zooms_and_resets(three: Opened) -> None:
    chart = three.charts("e1").nth(2)
    before = three.scale("e1")
    chart.focus()
    three.page.keyboard.press("ArrowRight")
    three.settle()
    first = three.cursors("e1")[0]
    three.page.keyboard.press("ArrowRight")
    three.settle()
    assert three.cursors("e1")[0] - first == pytest.approx(0.05, abs=0.01)
    three.page.keyboard.press("+")
    three.settle()
    zoomed = three.scale("e1")
    assert len(set(zoomed)) == 1
    assert zoomed[0][1] - zoomed[0][0] == pytest.approx((before[0][1] - before[0][0]) / 2, rel=0.01)
    three.page.keyboard.press("Alt+ArrowRight")
    three.settle()
    assert three.scale("e1")[0][0] > zoomed[0][0]
    three.page.keyboard.press("0")
    three.settle()
    assert three.scale("e1") == before
    three.page.wait_for_function("() => document.getElementById('spoken').textContent.includes('web')")


def test_tab_order_begins_with_the_skip_link(three: Opened) -> None:
    three.page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    three.page.keyboard.press("Tab")
    assert three.page.evaluate("() => document.activeElement.className") == "skip"
    three.page.keyboard.press("Enter")
    assert three.page.evaluate("() => location.hash") == "#answer"
    reached = set()
    for _ in range(60):
        three.page.keyboard.press("Tab")
        reached.add(three.page.evaluate("() => document.activeElement.className || document.activeElement.tagName"))
    assert {"canvas", "SUMMARY", "BUTTON"} <= reached


def test_pointing_at_a_finding_lights_its_interval_everywhere(three: Opened) -> None:
    chart = three.charts("e1").nth(0)
    before = chart.screenshot()
    three.page.locator("#episode-1 .finding[data-step='3'] button").focus()
    three.settle()
    assert three.page.evaluate("() => Charts.groups.get('e1').lit") == 3
    assert chart.screenshot() != before
    assert "lit" in three.page.locator("#episode-1 .lane [data-step='3']").get_attribute("class")
    three.page.keyboard.press("Enter")
    three.page.locator("#theme").focus()
    assert three.page.evaluate("() => Charts.groups.get('e1').lit") == 3, "a click keeps it"


def test_peaks_survive_when_many_windows_share_a_pixel(opened: Any) -> None:
    text = report.html(recording(1800), diagnosis(1800))
    found = opened(text)
    found.page.locator("#recording").scroll_into_view_if_needed()
    found.page.wait_for_function("() => Charts.groups.get('overview').drawn")
    found.settle()
    # Pixels of the columns' colour in each column of the canvas: every episode must stand at its full height.
    tall = (
        found.charts("overview")
        .nth(0)
        .evaluate("""(box) => {
      const canvas = box.querySelector("canvas"), context = canvas.getContext("2d");
      const { data, width, height } = context.getImageData(0, 0, canvas.width, canvas.height);
      let runs = 0, inside = false;
      for (let x = 0; x < width; x++) {
        let blue = 0;
        for (let y = 0; y < height; y++) {
          const i = 4 * (y * width + x);
          if (data[i] < 30 && data[i + 2] > 150 && data[i + 3] > 200) blue++;
        }
        if (blue > 40 && !inside) runs++;
        inside = blue > 40;
      }
      return runs;
    }""")
    )
    assert tall == len(diagnosis(1800).episodes)


def test_what_is_not_known_is_not_drawn(opened: Any) -> None:
    whole = recording()
    at = whole.line("app", "cpu_busy")
    assert at is not None
    values = whole.lines[at].values.copy()
    values[120:135] = np.nan
    lines = tuple(replace(line, values=values) if i == at else line for i, line in enumerate(whole.lines))
    found = opened(report.html(replace(whole, lines=lines), diagnosis()))
    chart = found.charts("e1").nth(3)
    chart.scroll_into_view_if_needed()
    found.settle()
    # Pixels of the line's colour, left to right: there is a stretch without any.
    empty = chart.evaluate("""(box) => {
      const canvas = box.querySelector("canvas"), context = canvas.getContext("2d");
      const u = Charts.groups.get("e1").plots[3], [left, wide] = [Math.round(u.bbox.left), Math.round(u.bbox.width)];
      const { data } = context.getImageData(left, u.bbox.top, wide, u.bbox.height);
      let longest = 0, run = 0;
      for (let x = 0; x < wide; x++) {
        let hit = false;
        for (let y = 0; y < u.bbox.height; y++) {
          const i = 4 * (y * wide + x);
          if (data[i] > 150 && data[i + 1] < 120 && data[i + 2] < 60 && data[i + 3] > 200) hit = true;
        }
        run = hit ? 0 : run + 1;
        longest = Math.max(longest, run);
      }
      return longest / wide;
    }""")
    begin, end = found.scale("e1")[0]
    assert empty == pytest.approx(16 * 0.05 / (end - begin), rel=0.15)


def test_theme_follows_the_system_and_the_button(opened: Any) -> None:
    found = opened(report.html(recording(), diagnosis()), color_scheme="dark")
    background = "() => getComputedStyle(document.body).backgroundColor"
    assert found.page.evaluate(background) == "rgb(16, 19, 23)"
    assert found.page.locator("#theme").get_attribute("aria-pressed") == "true"
    found.page.locator("#theme").click()
    assert found.page.evaluate(background) == "rgb(255, 255, 255)"
    assert found.page.locator("#theme").get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_and_everything_has_a_name(opened: Any, scheme: str) -> None:
    found = opened(report.html(recording(), diagnosis()), color_scheme=scheme)
    assert found.page.evaluate(CONTRAST) == []
    assert found.page.evaluate(UNNAMED) == []


@pytest.mark.parametrize("width", [320, 390, 768])
def test_fits_a_phone(opened: Any, width: int) -> None:
    found = opened(report.html(recording(), diagnosis()), viewport={"width": width, "height": 800})
    found.page.locator("#episode-1 .canvas").first.scroll_into_view_if_needed()
    found.settle()
    assert found.page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert found.troubles == []


def test_prints_with_its_charts(three: Opened) -> None:
    printed = three.page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    drawn = three.page.evaluate("() => [...Charts.groups.values()].map((g) => g.drawn)")
    assert drawn == [True] * 4, "charts out of sight are drawn for paper"
    three.page.add_style_tag(content="canvas { display: none !important }")
    assert len(three.page.pdf(format="A4")) < 0.9 * len(printed), "canvases reach the paper"
    three.page.emulate_media(media="print")
    assert not three.page.locator("nav").is_visible()
    assert three.page.locator("#answer h1").is_visible()


def test_no_vlrt_page_works(opened: Any) -> None:
    found = opened(report.html(*quiet()))
    assert found.troubles == []
    assert found.page.locator("#episodes").count() == 0
    assert found.charts("overview").first.evaluate(DRAWN) > 3


def test_hostile_names_run_nothing(opened: Any) -> None:
    names = {
        "web": "<script>document.title='owned'</script>",
        "app": '"><img src=x onerror="document.title=\'owned\'">',
        "db": "</script><script>document.title='owned'</script>",
    }
    found = opened(report.html(recording(names=names), diagnosis(names=names)))
    found.page.locator("#episode-1 .canvas").first.scroll_into_view_if_needed()
    found.settle()
    assert "owned" not in found.page.title().replace("document.title='owned'", "")
    assert found.troubles == []
