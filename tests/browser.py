"""A page in a real browser, and the properties of every page: drawn, readable, named."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

DRAWN = """(box) => {
  const canvas = box.querySelector("canvas"), { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const seen = new Set();
  for (let i = 0; i < pixels.length; i += 4)
    if (pixels[i + 3] > 200) seen.add(`${pixels[i]},${pixels[i + 1]},${pixels[i + 2]}`);
  return seen.size;
}"""

CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map((v, i) => v * (i < 3 && /^color/.test(text) ? 255 : 1));
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.85) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, box = element.getBoundingClientRect();
    if (!walk.currentNode.data.trim() || !box.width || element.closest("script, style, svg, .sr, .skip")) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(parse(style.color)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${walk.currentNode.data}`);
  }
  return poor;
}"""

UNNAMED = """() => {
  const named = (e) => (e.getAttribute("aria-label") || e.textContent || e.title || "").trim();
  const wrong = [];
  for (const e of document.querySelectorAll("a, button, summary, [role=img], nav, [tabindex='0']"))
    if (!named(e)) wrong.push(`no name: ${e.outerHTML.slice(0, 80)}`);
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
    for (const name of ["aria-labelledby", "aria-describedby"])
      for (const id of (e.getAttribute(name) || "").split(" "))
        if (id && !document.getElementById(id)) wrong.push(`no element ${id}`);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => wrong.push(`id twice: ${id}`));
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((e) => +e.tagName[1]);
  levels.forEach((level, i) => { if (i && level > levels[i - 1] + 1) wrong.push(`heading jumps to h${level}`); });
  if (levels.filter((l) => l === 1).length !== 1) wrong.push("not one h1");
  for (const table of document.querySelectorAll("table"))
    if (!table.querySelector("th[scope]")) wrong.push("table without headings");
  if (!document.documentElement.lang) wrong.push("no language");
  if (!document.querySelector("main")) wrong.push("no main");
  return wrong;
}"""


@dataclass
class Opened:
    """A loaded page with its complaints and its network requests."""

    page: Any
    context: Any
    troubles: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def charts(self, group: str) -> Any:
        return self.page.locator(f"[data-group='{group}'] .canvas")

    def scale(self, group: str) -> list[tuple[float, float]]:
        """The time range of every chart of a group."""
        return [
            (round(a, 6), round(b, 6))
            for a, b in self.page.evaluate(
                "(g) => Charts.groups.get(g).plots.map((u) => [u.scales.x.min, u.scales.x.max])", group
            )
        ]

    def cursors(self, group: str) -> list[float]:
        """The cursor position of every chart of a group, in seconds."""
        return [
            round(x, 3)
            for x in self.page.evaluate(
                "(g) => Charts.groups.get(g).plots.map((u) => u.posToVal(u.cursor.left, 'x'))", group
            )
        ]

    def settle(self) -> None:
        """Two frames, after which pending changes are drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
